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
	"github.com/turnstone-repl/turnstone/supervisor/internal/confine"
	"github.com/turnstone-repl/turnstone/supervisor/internal/host"
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
// sessions. The supervisor starts workers through a small stage: the program's own executable
// in a hidden mode. In that mode MonitorMain never returns. Without MonitorMain, workers run
// without the stage, and each session begins with a notice about what is weaker then.
func MonitorMain() { host.MonitorMain() }

// Options configure a [Supervisor]. The zero value is ready to use.
type Options struct {
	// Dir is the parent of the sessions' private directories. "" means turnstone-<uid> in
	// os.TempDir, or turnstone there on Windows. It is made with mode 0700.
	Dir string

	// Env is the environment that workers inherit, before Spec.Env is applied. nil means
	// os.Environ.
	Env []string

	// ScrubEnv names variables that workers must not inherit. A trailing *
	// matches every name with that prefix.
	ScrubEnv []string

	// StartTimeout bounds the start of a worker's process, and then the time until the worker
	// says that it is ready. It also bounds each preparation that has no limit of its own. 0
	// means DefaultStartTimeout. It ends a worker, never a turn.
	StartTimeout time.Duration

	// StopGrace bounds how long ending a worker may take, with all rungs of the stop ladder. 0
	// means DefaultStopGrace.
	StopGrace time.Duration

	// MaxSessions bounds the open sessions. 0 means DefaultMaxSessions.
	MaxSessions int

	// Memory bounds the bytes that all sessions use together, beside their own limits: see
	// workers.Limits and DefaultMemory. 0 means no limit. Only Linux has it.
	Memory int64

	// Processes bounds the processes of all sessions together, their threads included, and CPUs
	// the processors that they share, beside their own limits. 0 means no limit. Only Linux has
	// these; elsewhere New refuses them.
	Processes int
	CPUs      int

	// MemoryBytes bounds the part of a session's timeline that is in memory, and OutputBytes
	// bounds each of its files. 0 means the defaults of timeline.Options.
	MemoryBytes int64
	OutputBytes int64

	// ShowSecrets shows a secret that the output repeats. Without it, "[secret]" replaces the
	// secret wherever Log.Hide says so. Set it only where the one reader is the person who
	// typed the secret.
	ShowSecrets bool

	// RecoverCommand is a command such as "repl recover", with which a user gets the transcript of a
	// lost session. A session is lost when its program is killed. With Recover, the transcript
	// is kept for a day. Without it, the next New removes the transcript. The next session of
	// the same name and directory begins with a notice that names the command. With
	// ShowSecrets, no transcript is kept.
	RecoverCommand string

	// Logger gets warnings about workers that died or did not start; at info, starts and ends of workers,
	// refusals and interrupts; at debug, every frame and every order to the stage. It never
	// gets code, output, answers or environments. At debug it is called with locks held, so a
	// slow Logger slows the sessions. nil logs nothing.
	Logger *slog.Logger

	// Grants keeps what persons allow always. nil keeps nothing: Session.Allow then refuses
	// what is meant for later sessions.
	Grants GrantStore

	// Functions are what code in each session may call, from its first turn on.
	// Session.SetFunctions replaces them.
	Functions []Function

	// GrantHint returns the command with which a person can give a session a right, for the line
	// about a denial. nil names none.
	GrantHint func(session, workspace string, g session.Grant) string

	// BeforeWrite is called with directories that a session with a sandbox is about to write, before it can: a
	// program moves out of them what no session may touch, such as its socket. It returns the paths of
	// such files, which stay as they are wherever the session writes. ended is called once when the session
	// does not write these directories, or does no more. nil does nothing.
	BeforeWrite func(dirs []string) (keep []string, ended func())

	// Size is the size of the workers' terminals. The zero value means 40 rows
	// of 120 columns; on Windows, where a console breaks longer lines, they are wider, and
	// programs find 120 in COLUMNS.
	Size session.Size

	events *confine.FileEvents // of all sessions with a sandbox
}

// A Supervisor opens sessions and ends them all. It is safe for concurrent use.
type Supervisor struct {
	o             Options
	launcher      launcher
	preparations  preparationGroup
	limitEnforcer *limitEnforcer

	mu        sync.Mutex
	sessions  map[string]*Session // guarded by mu; a nil value reserves a name
	closed    bool                // guarded by mu
	opening   sync.WaitGroup      // counts running calls of Open; grows under mu until closed
	dirsInUse []string            // guarded by mu; directories of closed sessions that a reader held
}

// New returns a Supervisor. It starts nothing.
func New(opts *Options) (*Supervisor, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	o.events = new(confine.FileEvents)
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
		return nil, errors.New("supervisor: an option is negative")
	}
	if (o.Processes > 0 || o.CPUs > 0) && !host.HasSharedLimits {
		return nil, errors.New("supervisor: this system bounds no processes and no processors of all sessions together; leave these limits out")
	}
	cpus, err := host.PickCPUs(o.CPUs)
	if err != nil {
		return nil, fmt.Errorf("supervisor: the processors that it may use: %w", err)
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
	listCrashedSessions(o.Dir) // removes those that are too old
	return &Supervisor{o: o, launcher: launchLocal, limitEnforcer: newLimitEnforcer(resourceAmount{o.Memory, o.Processes}, cpus), sessions: make(map[string]*Session)}, nil
}

// DefaultMemory is what all sessions of a machine can use together, in bytes, and leave the
// rest of it working: three quarters of its memory, or of what a control group leaves it. It is
// 0 where that is not known.
func DefaultMemory() int64 { return host.MachineMemory() / 4 * 3 }

// These are descriptors. A session with the way out of a sandbox has two more than others, and
// its start needs some for a moment; the rest are for the program itself.
const (
	filesPerSession = 8
	reservedFiles   = 256
)

// MaxSessionsByFiles is how many sessions the open files suffice for that this program may have; 0
// where the system has no such limit.
func MaxSessionsByFiles() int { return sessionsForFiles(host.MaxOpenFiles()) }

func sessionsForFiles(files int) int {
	if files == 0 {
		return 0
	}
	return max(1, (files-reservedFiles)/filesPerSession)
}

func defaultDir() string { return filepath.Join(os.TempDir(), host.PrivateDirName()) }

// lockFileName is a file in a session's directory. The session's program keeps it locked for as
// long as it lives.
const lockFileName = "lock"

// removeAbandoned removes the directories that a killed program left, except for transcripts
// to keep. The program's processes are gone already. A directory without a lock file is still
// being made, so it stays.
func removeAbandoned(dir string) {
	locks, _ := filepath.Glob(filepath.Join(dir, "*", lockFileName))
	for _, path := range locks {
		if dir := filepath.Dir(path); strings.HasSuffix(dir, crashedSuffix) || strings.HasSuffix(dir, discardedSuffix) {
			continue // the one is kept, and the other is being removed
		}
		if lock, err := host.LockFile(path); err == nil && !retainCrashed(filepath.Dir(path), lock) {
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

// discardDir renames a session's directory and then removes it. A client may kill the program at
// any moment. Without the new name, a directory that has lost its lock file would look as if
// it were still being made.
func discardDir(dir string) error {
	discarded := dir + discardedSuffix
	if err := os.Rename(dir, discarded); err != nil {
		return removeTree(dir)
	}
	return removeTree(discarded)
}

// discardSessionDir removes the directory of a closed session. On Windows a reader of its events keeps it
// there: then it is removed when the next session is closed, or with the supervisor.
func (v *Supervisor) discardSessionDir(dir string) error {
	err := discardDir(dir)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.dirsInUse = slices.DeleteFunc(v.dirsInUse, func(dir string) bool { return removeTree(dir) == nil })
	if isInUse(err) {
		v.dirsInUse = append(v.dirsInUse, dir, dir+discardedSuffix)
		return nil
	}
	return err
}

// removeTree removes a directory and everything in it, even directories that a worker left
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

// makePrivateDir makes the directory for sessions if it is missing.
func makePrivateDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("supervisor: cannot make the directory for sessions: %w", err)
	}
	return checkPrivateDir(dir)
}

// checkPrivateDir refuses a directory that another user could have prepared for us.
func checkPrivateDir(dir string) error {
	info, err := os.Lstat(dir)
	switch {
	case err != nil:
		return fmt.Errorf("supervisor: %w", err)
	case !info.IsDir():
		return fmt.Errorf("supervisor: %s is not a directory", dir)
	case !host.IsOwnedByUser(info):
		return fmt.Errorf("supervisor: %s belongs to somebody else; choose another place by TMPDIR (or by Options.Dir)", dir)
	case host.IsWritableByOthers(info):
		return fmt.Errorf("supervisor: others may write to %s; take that right away (chmod go-w), or choose another place by TMPDIR (or by Options.Dir)", dir)
	}
	return nil
}

// Open makes a session and starts its first worker. It returns once the worker's process
// exists, within Options.StartTimeout. An input submitted before the worker is ready is held
// for it. If something has to be prepared first, Open returns at once, with the session in
// session.StatePreparing: see Session.WaitPrepared. From then on the session lives until Close,
// even if ctx ends. The error is session.ErrSpec when spec is wrong, session.ErrStart when nothing
// starts from it here, session.ErrExists, session.ErrLimit, or session.ErrClosed when the supervisor
// is closed.
func (v *Supervisor) Open(ctx context.Context, name string, spec workers.Spec) (*Session, error) {
	if !session.IsValidName(name) {
		return nil, invalidNameError(name)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := checkSpec(name, &spec); err != nil {
		return nil, err
	}
	if err := v.reserveName(name); err != nil {
		return nil, err
	}
	defer v.opening.Done()
	s, err := v.openSession(name, spec)
	v.mu.Lock()
	closed := v.closed
	if err != nil {
		delete(v.sessions, name)
	} else {
		v.sessions[name] = s
	}
	v.mu.Unlock()
	if err == nil && closed { // Close did not know of this session
		_ = s.Close(context.Background())
		return nil, closedError()
	}
	return s, err
}

func (v *Supervisor) reserveName(name string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return closedError()
	}
	if _, ok := v.sessions[name]; ok {
		return existsError(name)
	}
	if len(v.sessions) >= v.o.MaxSessions {
		return session.Errorf(session.KindLimit, "too many sessions: %d are open, close one first", v.o.MaxSessions)
	}
	if most := MaxSessionsByFiles(); most > 0 && len(v.sessions) >= most {
		return session.Errorf(session.KindLimit, "too many sessions: %d are open, and this program may have no more than %d open files, which is enough for %d: close one first, or raise the hard limit (ulimit -Hn) for the program that opens them",
			len(v.sessions), host.MaxOpenFiles(), most)
	}
	v.sessions[name] = nil
	v.opening.Add(1)
	return nil
}

// dirPattern names the directory of a session after it, without its dots. On Windows, what is
// before the first dot of a file's name must not be that of a device, such as CON or COM1
// (Microsoft, "Naming Files, Paths, and Namespaces").
func dirPattern(name string) string { return strings.ReplaceAll(name, ".", "_") + "-" }

func (v *Supervisor) openSession(name string, spec workers.Spec) (*Session, error) {
	// Cleaning programs remove a directory that was empty for long.
	if err := makePrivateDir(v.o.Dir); err != nil {
		return nil, startError(name, err)
	}
	dir, err := os.MkdirTemp(v.o.Dir, dirPattern(name))
	if err != nil {
		return nil, startError(name, err)
	}
	a := lockFileInfo{Name: name, Dir: spec.Dir, Spec: spec.Name}
	lock, err := v.createLock(dir, a)
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, startError(name, err)
	}
	log, err := timeline.New(&timeline.Options{Dir: dir, MemoryBytes: v.o.MemoryBytes, FileBytes: v.o.OutputBytes})
	if err != nil {
		_ = lock.Close()
		_ = discardDir(dir)
		return nil, startError(name, err)
	}
	s := &Session{
		spec:          spec,
		o:             v.o,
		launcher:      v.launcher,
		preparations:  &v.preparations,
		limitEnforcer: v.limitEnforcer,
		dir:           dir,
		lock:          lock,
		log:           log,
		openedAt:      time.Now(),
		lifecycle:     make(chan struct{}, 1),
		crashedBefore: v.claimCrashed(a),
		m: sessionMachine{
			grantHint:       v.o.grantHintFor(name, &spec),
			log:             log,
			startTimeout:    v.o.StartTimeout,
			showSecrets:     v.o.ShowSecrets,
			earlyInputFault: spec.EarlyInputError,
			turnLimit:       spec.Limits.Turn,
			phase:           phaseEnded,
			fedReaders:      make(map[string]bool),
		},
	}
	s.name.Store(&name)
	s.removeSelf = func() { v.removeSession(s) }
	s.discardDir = func() error { return v.discardSessionDir(s.dir) }
	s.m.takeCalls = s.functions.takeTotals
	if len(v.o.Functions) > 0 {
		_ = s.SetFunctions(v.o.Functions...) // New has checked them
	}
	if s.egressPolicy, err = s.newEgressPolicy(spec.Sandbox); err != nil {
		_ = log.Close()
		_ = lock.Close()
		_ = discardDir(dir)
		return nil, startError(name, err)
	}
	s.mu.Lock()
	u := s.startLocked()
	preparing := s.m.phase == phasePreparing
	s.unlock()
	if preparing {
		return s, nil
	}
	if err := u.wait(context.Background()); err != nil { // every start has a limit of its own
		s.starts.Wait()
		_ = log.Close()
		_ = lock.Close()
		_ = discardDir(dir)
		return nil, err
	}
	return s, nil
}

// createLock makes the lock file of a session. The file gets its name only once it is locked, so
// that no other program takes it for abandoned.
func (v *Supervisor) createLock(dir string, a lockFileInfo) (*os.File, error) {
	path := filepath.Join(dir, lockFileName)
	lock, err := host.LockFile(path + ".new")
	if err != nil {
		return nil, err
	}
	if v.o.RecoverCommand != "" {
		writeLockInfo(lock, a)
	}
	if err := os.Rename(path+".new", path); err != nil {
		_ = lock.Close()
		return nil, err
	}
	return lock, nil
}

func (v *Supervisor) removeSession(s *Session) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.sessions, s.Name())
}

// Session returns the open session of that name.
func (v *Supervisor) Session(name string) (*Session, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	s := v.sessions[name]
	return s, s != nil
}

// Sessions returns the open sessions by name.
func (v *Supervisor) Sessions() []*Session {
	v.mu.Lock()
	defer v.mu.Unlock()
	open := make([]*Session, 0, len(v.sessions))
	for _, s := range v.sessions {
		if s != nil {
			open = append(open, s)
		}
	}
	slices.SortFunc(open, func(a, b *Session) int { return strings.Compare(a.Name(), b.Name()) })
	return open
}

// Close closes every session and waits for all of them: about
// Options.StopGrace. It is idempotent.
func (v *Supervisor) Close() error {
	v.mu.Lock()
	v.closed = true
	v.mu.Unlock()
	var wg sync.WaitGroup
	open := v.Sessions()
	errs := make([]error, len(open))
	for i, s := range open {
		wg.Go(func() { errs[i] = s.Close(context.Background()) })
	}
	wg.Wait()
	v.opening.Wait() // each Open closes its session itself
	v.o.events.Close()
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, dir := range v.dirsInUse {
		errs = append(errs, removeTree(dir))
	}
	v.dirsInUse = nil
	return errors.Join(errs...)
}
