package supervisor

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor/internal/launch"
	"github.com/turnstone-repl/turnstone/supervisor/internal/privatedir"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"
)

// Open creates a session and starts its first worker. It returns once the worker's process exists,
// within Options.StartTimeout. An input that is submitted before the worker is ready is queued. If
// the spec has preparations, Open returns at once with the session in session.StatePreparing: see
// Session.WaitPrepared. From then on the session lives until Close, even if ctx ends. The error is
// session.ErrSpec if spec is wrong, and session.ErrStart if nothing can be started from it here. It
// is session.ErrClosed if the supervisor is closed. It may also be session.ErrExists or
// session.ErrLimit.
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
	if err == nil && sup.o.SessionIdleTimeout > 0 {
		s.startIdleClock()
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
// COM1. See Microsoft, "Naming Files, Paths, and Namespaces".
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
	info := lockFileInfo{Name: name, Dir: spec.Dir, Spec: spec.Name, Format: crashedFormat}
	lock, err := sup.createLock(dir, info)
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, startError(name, err)
	}
	log, err := timeline.New(&timeline.Options{Dir: dir, MemoryBytes: sup.o.MemoryBytes, FileBytes: sup.o.OutputBytes, OnAppend: sup.o.eventObserver(spec.Name)})
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
	s.closeUnused = func() { sup.closeUnused(s) }
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
