package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor/internal/launch"
	"github.com/turnstone-repl/turnstone/supervisor/internal/privatedir"
	"github.com/turnstone-repl/turnstone/supervisor/internal/proctree"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/filestate"
	"github.com/turnstone-repl/turnstone/workers"
)

// These are the defaults of [Options].
const (
	DefaultStartTimeout = 60 * time.Second
	DefaultStopGrace    = time.Second
	DefaultMaxSessions  = 64
)

// MonitorMain must be the first statement of main, and of TestMain, in every program that opens
// sessions. The supervisor starts each worker through a small monitor process: the program's own
// executable in a hidden mode. In that mode MonitorMain never returns. Without MonitorMain, workers
// run without the monitor, and each session starts with a notice about the weaker guarantees.
func MonitorMain() { launch.MonitorMain() }

// Options configure a [Supervisor] and the sessions that it opens. The zero value is ready to use.
type Options struct {
	// Dir is the parent of the sessions' private directories. "" means turnstone-<uid> in
	// os.TempDir, or turnstone there on Windows. It is created with mode 0700.
	Dir string

	// Env is the environment that workers inherit, before Spec.Env is applied. nil means
	// os.Environ.
	Env []string

	// ScrubEnv names variables that workers must not inherit. A trailing * matches every name with
	// that prefix.
	ScrubEnv []string

	// StartTimeout bounds the start of a worker's process, and then the time until the worker
	// reports that it is ready. It also bounds each preparation without its own timeout. 0 means
	// DefaultStartTimeout. It ends a worker, never a turn.
	StartTimeout time.Duration

	// StopGrace bounds the whole shutdown escalation of a worker. 0 means DefaultStopGrace.
	StopGrace time.Duration

	// SessionIdleTimeout is how long an unused session stays open. A notice then ends its timeline,
	// and further calls get session.ErrClosed with the reason. A session is in use while it is
	// prepared, starts or runs, while it waits for input, and during each call, such as Wait or a
	// range over Events. Info, State, Tick, Log, Interrupt, Resize and Screen are not use. Code that
	// goes on after its turn is not, either. 0 means without limit.
	SessionIdleTimeout time.Duration

	// MaxSessions bounds the number of open sessions. 0 means DefaultMaxSessions.
	MaxSessions int

	// Memory bounds the bytes that all sessions use together, in addition to their own limits: see
	// workers.Limits and DefaultMemory. 0 means no limit. It is only supported on Linux.
	Memory int64

	// Processes bounds the processes of all sessions together, including their threads. CPUs is the
	// number of processors that they share. Both apply in addition to the sessions' own limits. 0
	// means no limit. They are only supported on Linux; elsewhere New rejects them.
	Processes int
	CPUs      int

	// MemoryBytes bounds the part of a session's timeline that is kept in memory, and OutputBytes
	// bounds each of its files. 0 means the defaults of timeline.Options.
	MemoryBytes int64
	OutputBytes int64

	// ShowSecrets shows secrets that the output repeats. Without it, "[secret]" replaces each
	// secret that was added with timeline.Log.AddSecret. Set it only if the one reader is the user
	// who typed the secret.
	ShowSecrets bool

	// RecoverCommand is a command such as "repl recover", with which a user gets the transcript of
	// a crashed session. A session crashes when its program is killed. If RecoverCommand is set,
	// the transcript is saved for a day; otherwise the next New removes it. The next session of the
	// same name and directory starts with a notice that names the command. With ShowSecrets, no
	// transcript is saved.
	RecoverCommand string

	// Logger gets warnings about workers that crashed or did not start. At info it also gets worker
	// starts and ends, refusals and interrupts, and at debug every frame and every monitor command.
	// It never gets code, output, answers or environments. At debug it is called with locks held,
	// so a slow Logger slows the sessions. nil logs nothing.
	Logger *slog.Logger

	// Grants saves the grants that users give permanently. nil saves nothing: Session.Allow then
	// refuses grants with Always.
	Grants GrantStore

	// Functions are the functions that code in each session may call from its first turn on.
	// Session.SetFunctions replaces them.
	Functions []Function

	// GrantHint returns the command with which a user can give a session a grant, for the message
	// about a denial. nil means that no command is named.
	GrantHint func(session, workspace string, g session.Grant) string

	// BeforeWrite is called with directories that a sandboxed session is about to get write access
	// to. A program can then move files that no session may touch, such as its socket, out of them.
	// It returns the paths of files that must stay, which the session cannot write. ended is called
	// once, when the session no longer writes these directories or never did. nil does nothing.
	BeforeWrite func(dirs []string) (keep []string, ended func())

	// Size is the size of the workers' terminals. The zero value means 40 rows of 120 columns. On
	// Windows, where a console breaks longer lines, the terminals are wider, and programs find 120
	// in COLUMNS.
	Size session.Size

	events *filestate.ChangeEvents // of all sessions with a sandbox
}

// A Supervisor opens sessions and closes all of them. It is safe for concurrent use.
type Supervisor struct {
	o             Options
	launcher      launcher
	preparations  preparationGroup
	limitEnforcer *limitEnforcer

	mu        sync.Mutex
	sessions  map[string]*Session // guarded by mu; a nil value reserves a name
	closed    bool                // guarded by mu
	opening   sync.WaitGroup      // counts running calls of Open and closeUnused; grows under mu until closed
	dirsInUse []string            // guarded by mu; directories of closed sessions that a reader kept open
}

// New returns a Supervisor. It starts no processes.
func New(opts *Options) (*Supervisor, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	o.events = new(filestate.ChangeEvents)
	if o.StartTimeout == 0 {
		o.StartTimeout = DefaultStartTimeout
	}
	if o.StopGrace == 0 {
		o.StopGrace = DefaultStopGrace
	}
	if o.MaxSessions == 0 {
		o.MaxSessions = DefaultMaxSessions
	}
	if o.StartTimeout < 0 || o.StopGrace < 0 || o.SessionIdleTimeout < 0 || o.MaxSessions < 0 || o.Processes < 0 || o.CPUs < 0 {
		return nil, errors.New("supervisor: options must not be negative")
	}
	if (o.Processes > 0 || o.CPUs > 0) && !proctree.HasSharedLimits {
		return nil, errors.New("supervisor: limits on the processes and processors of all sessions together are not supported on this system; leave them out")
	}
	cpus, err := proctree.PickCPUs(o.CPUs)
	if err != nil {
		return nil, fmt.Errorf("supervisor: limit on processors: %w", err)
	}
	if o.Memory != 0 && o.Memory < workers.MinMemoryBytes {
		return nil, fmt.Errorf("supervisor: all sessions together need more memory than %s: allow at least %s", workers.FormatBytes(o.Memory), workers.FormatBytes(workers.MinMemoryBytes))
	}
	if o.Env == nil {
		o.Env = os.Environ()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Dir == "" {
		o.Dir = defaultDir()
	}
	if o.ShowSecrets {
		o.RecoverCommand = ""
	}
	if _, _, err := checkFunctions(o.Functions); err != nil {
		return nil, err
	}
	if err := makePrivateDir(o.Dir); err != nil {
		return nil, err
	}
	removeAbandoned(o.Dir)
	listCrashedSessions(o.Dir) // applies the bounds on saved transcripts
	return &Supervisor{o: o, launcher: launchLocal, limitEnforcer: newLimitEnforcer(resourceAmount{o.Memory, o.Processes}, cpus), sessions: make(map[string]*Session)}, nil
}

// DefaultMemory returns a memory limit for all sessions of a machine together, in bytes, that
// leaves enough for the rest of the system. It is three quarters of the machine's memory, or of the
// memory of its control group, and 0 if that is unknown.
func DefaultMemory() int64 { return proctree.MachineMemory() / 4 * 3 }

// Numbers of file descriptors. A session with egress has two more than others, and its start needs
// some for a moment; reservedFiles are for the program itself.
const (
	filesPerSession = 8
	reservedFiles   = 256
)

// MaxSessionsByFiles returns the number of sessions that this program's limit on open files allows;
// 0 if the system has no such limit.
func MaxSessionsByFiles() int { return sessionsForFiles(launch.MaxOpenFiles()) }

func sessionsForFiles(files int) int {
	if files == 0 {
		return 0
	}
	return max(1, (files-reservedFiles)/filesPerSession)
}

func defaultDir() string { return filepath.Join(os.TempDir(), privatedir.DirName()) }

func (sup *Supervisor) removeSession(s *Session) {
	sup.mu.Lock()
	defer sup.mu.Unlock()
	delete(sup.sessions, s.Name())
}

// Session returns the open session of that name.
func (sup *Supervisor) Session(name string) (*Session, bool) {
	sup.mu.Lock()
	defer sup.mu.Unlock()
	s := sup.sessions[name]
	return s, s != nil
}

// Sessions returns the open sessions, sorted by name.
func (sup *Supervisor) Sessions() []*Session {
	sup.mu.Lock()
	defer sup.mu.Unlock()
	open := make([]*Session, 0, len(sup.sessions))
	for _, s := range sup.sessions {
		if s != nil {
			open = append(open, s)
		}
	}
	slices.SortFunc(open, func(a, b *Session) int { return strings.Compare(a.Name(), b.Name()) })
	return open
}

// Close closes every session and waits for all of them, for about Options.StopGrace. It is
// idempotent.
func (sup *Supervisor) Close() error {
	sup.mu.Lock()
	sup.closed = true
	sup.mu.Unlock()
	var wg sync.WaitGroup
	open := sup.Sessions()
	errs := make([]error, len(open))
	for i, s := range open {
		wg.Go(func() { errs[i] = s.Close(context.Background()) })
	}
	wg.Wait()
	sup.opening.Wait() // each running Open closes its session itself
	sup.o.events.Close()
	sup.mu.Lock()
	defer sup.mu.Unlock()
	for _, dir := range sup.dirsInUse {
		errs = append(errs, removeTree(dir))
	}
	sup.dirsInUse = nil
	return errors.Join(errs...)
}

// A GrantStore saves the grants that users gave to all sessions of a workspace. A workspace is the
// real path of a directory.
type GrantStore interface {
	// List returns the grants of a workspace in any order.
	List(workspace string) ([]session.Grant, error)
	// Add saves one grant.
	Add(workspace string, g session.Grant) error
}

// makePrivateDir creates the directory for sessions if it is missing.
func makePrivateDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("supervisor: cannot create the directory for sessions: %w", err)
	}
	return checkPrivateDir(dir)
}

// removeTree removes a directory with its contents, including directories that a worker left
// write-protected.
func removeTree(dir string) error {
	if os.RemoveAll(dir) == nil {
		return nil
	}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, _ error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(path, 0o700) // before WalkDir reads it
		}
		return nil
	})
	return os.RemoveAll(dir)
}
