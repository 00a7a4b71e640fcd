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
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"
)

// These are the defaults of [Options].
const (
	DefaultStartTimeout = 60 * time.Second
	DefaultStopGrace    = time.Second
	DefaultMaxSessions  = 64
)

// MaxInputBytes bounds one submitted input, which must fit one frame.
const MaxInputBytes = session.MaxInputBytes

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
	opening   sync.WaitGroup      // counts running calls of Open; grows under mu until closed
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
	if o.StartTimeout < 0 || o.StopGrace < 0 || o.MaxSessions < 0 || o.Processes < 0 || o.CPUs < 0 {
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

// lockFileName is a file in a session's directory. The session's program keeps it locked for as
// long as it lives.
const lockFileName = "lock"

// removeAbandoned removes the directories that a killed program left behind, except for transcripts
// to save. The program's processes have already ended. A directory without a lock file is still
// being created, so it stays.
func removeAbandoned(dir string) {
	locks, _ := filepath.Glob(filepath.Join(dir, "*", lockFileName))
	for _, path := range locks {
		if dir := filepath.Dir(path); strings.HasSuffix(dir, crashedSuffix) || strings.HasSuffix(dir, discardedSuffix) {
			continue // the first is saved, and the second is being removed
		}
		if lock, err := privatedir.LockFile(path); err == nil && !retainCrashed(filepath.Dir(path), lock) {
			_ = discardDir(filepath.Dir(path))
		}
	}
	discarded, _ := filepath.Glob(filepath.Join(dir, "*"+discardedSuffix))
	for _, path := range discarded {
		_ = removeTree(path)
	}
}

// discardedSuffix marks a directory that is being removed.
const discardedSuffix = ".discarded"

// discardDir renames a session's directory and then removes it. This program may be killed at any
// moment. Without the new name, a directory that has lost its lock file would look as if it were
// still being created.
func discardDir(dir string) error {
	discarded := dir + discardedSuffix
	if err := os.Rename(dir, discarded); err != nil {
		return removeTree(dir)
	}
	return removeTree(discarded)
}

// discardSessionDir removes the directory of a closed session. On Windows, a reader of its events
// can keep it open; then it is removed when the next session is closed, or with the supervisor.
func (sup *Supervisor) discardSessionDir(dir string) error {
	err := discardDir(dir)
	sup.mu.Lock()
	defer sup.mu.Unlock()
	sup.dirsInUse = slices.DeleteFunc(sup.dirsInUse, func(dir string) bool { return removeTree(dir) == nil })
	if isInUse(err) {
		sup.dirsInUse = append(sup.dirsInUse, dir, dir+discardedSuffix)
		return nil
	}
	return err
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

// makePrivateDir creates the directory for sessions if it is missing.
func makePrivateDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("supervisor: cannot create the directory for sessions: %w", err)
	}
	return checkPrivateDir(dir)
}

// checkPrivateDir rejects a directory that another OS user could have prepared.
func checkPrivateDir(dir string) error {
	info, err := os.Lstat(dir)
	switch {
	case err != nil:
		return fmt.Errorf("supervisor: %w", err)
	case !info.IsDir():
		return fmt.Errorf("supervisor: %s is not a directory", dir)
	case !privatedir.IsOwnedByUser(info):
		return fmt.Errorf("supervisor: %s belongs to another user; choose another directory with TMPDIR (or Options.Dir)", dir)
	case privatedir.IsWritableByOthers(info):
		return fmt.Errorf("supervisor: other users may write to %s; remove that permission (chmod go-w) or choose another directory with TMPDIR (or Options.Dir)", dir)
	}
	return nil
}

// Open creates a session and starts its first worker. It returns once the worker's process exists,
// within Options.StartTimeout. An input that is submitted before the worker is ready is queued. If
// the spec has preparations, Open returns at once with the session in session.StatePreparing: see
// Session.WaitPrepared. From then on the session lives until Close, even if ctx ends. The error is
// session.ErrSpec if spec is wrong, session.ErrStart if nothing can be started from it here,
// session.ErrExists, session.ErrLimit, or session.ErrClosed if the supervisor is closed.
func (sup *Supervisor) Open(ctx context.Context, name string, spec workers.Spec) (*Session, error) {
	if !session.IsValidName(name) {
		return nil, invalidNameError(name)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := checkSpec(name, &spec); err != nil {
		return nil, err
	}
	if err := sup.reserveName(name); err != nil {
		return nil, err
	}
	defer sup.opening.Done()
	s, err := sup.openSession(name, spec)
	sup.mu.Lock()
	closed := sup.closed
	if err != nil {
		delete(sup.sessions, name)
	} else {
		sup.sessions[name] = s
	}
	sup.mu.Unlock()
	if err == nil && closed { // Close did not know this session
		_ = s.Close(context.Background())
		return nil, closedError()
	}
	return s, err
}

func (sup *Supervisor) reserveName(name string) error {
	sup.mu.Lock()
	defer sup.mu.Unlock()
	if sup.closed {
		return closedError()
	}
	if _, ok := sup.sessions[name]; ok {
		return existsError(name)
	}
	if len(sup.sessions) >= sup.o.MaxSessions {
		return session.Errorf(session.KindLimit, "too many sessions: %d are open; close one first", sup.o.MaxSessions)
	}
	if most := MaxSessionsByFiles(); most > 0 && len(sup.sessions) >= most {
		return session.Errorf(session.KindLimit, "too many sessions: %d are open, and this program may have %d open files, which is enough for %d; close one first, or raise the hard limit (ulimit -Hn) for the program that opens them",
			len(sup.sessions), launch.MaxOpenFiles(), most)
	}
	sup.sessions[name] = nil
	sup.opening.Add(1)
	return nil
}

// dirPattern returns the pattern for a session's directory: the session's name without dots. On
// Windows, the part of a file name before the first dot must not be a device name, such as CON or
// COM1 (Microsoft, "Naming Files, Paths, and Namespaces").
func dirPattern(name string) string { return strings.ReplaceAll(name, ".", "_") + "-" }

func (sup *Supervisor) openSession(name string, spec workers.Spec) (*Session, error) {
	// Clean-up tools remove a directory that has been empty for long.
	if err := makePrivateDir(sup.o.Dir); err != nil {
		return nil, startError(name, err)
	}
	dir, err := os.MkdirTemp(sup.o.Dir, dirPattern(name))
	if err != nil {
		return nil, startError(name, err)
	}
	info := lockFileInfo{Name: name, Dir: spec.Dir, Spec: spec.Name}
	lock, err := sup.createLock(dir, info)
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, startError(name, err)
	}
	log, err := timeline.New(&timeline.Options{Dir: dir, MemoryBytes: sup.o.MemoryBytes, FileBytes: sup.o.OutputBytes})
	if err != nil {
		_ = lock.Close()
		_ = discardDir(dir)
		return nil, startError(name, err)
	}
	s := &Session{
		sessionResources: sessionResources{
			o:             sup.o,
			launcher:      sup.launcher,
			preparations:  &sup.preparations,
			limitEnforcer: sup.limitEnforcer,
			dir:           dir,
			lock:          lock,
			log:           log,
		},
		spec:          spec,
		openedAt:      time.Now(),
		lifecycle:     make(chan struct{}, 1),
		crashedBefore: sup.claimCrashed(info),
		m: sessionMachine{
			machineConfig: machineConfig{
				grantHint:       sup.o.grantHintFor(name, &spec),
				log:             log,
				startTimeout:    sup.o.StartTimeout,
				showSecrets:     sup.o.ShowSecrets,
				earlyInputFault: spec.EarlyInputError,
				turnLimit:       spec.Limits.Turn,
			},
			phase:      phaseEnded,
			fedReaders: make(map[string]bool),
		},
	}
	s.name.Store(&name)
	s.removeSelf = func() { sup.removeSession(s) }
	s.discardDir = func() error { return sup.discardSessionDir(s.dir) }
	s.m.takeCalls = s.functions.takeTotals
	if len(sup.o.Functions) > 0 {
		_ = s.SetFunctions(sup.o.Functions...) // New has checked them
	}
	if s.egressPolicy, err = s.newEgressPolicy(spec.Sandbox); err != nil {
		_ = log.Close()
		_ = lock.Close()
		_ = discardDir(dir)
		return nil, startError(name, err)
	}
	s.mu.Lock()
	attempt := s.startLocked()
	preparing := s.m.phase == phasePreparing
	s.unlock()
	if preparing {
		return s, nil
	}
	if err := attempt.wait(context.Background()); err != nil { // every start has its own timeout
		s.starts.Wait()
		_ = log.Close()
		_ = lock.Close()
		_ = discardDir(dir)
		return nil, err
	}
	return s, nil
}

// createLock creates the lock file of a session. The file gets its name only once it is locked, so
// that no other program takes it for abandoned.
func (sup *Supervisor) createLock(dir string, a lockFileInfo) (*os.File, error) {
	path := filepath.Join(dir, lockFileName)
	lock, err := privatedir.LockFile(path + ".new")
	if err != nil {
		return nil, err
	}
	if sup.o.RecoverCommand != "" {
		writeLockInfo(lock, a)
	}
	if err := os.Rename(path+".new", path); err != nil {
		_ = lock.Close()
		return nil, err
	}
	return lock, nil
}

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
