package supervisor

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/turnstone-repl/turnstone/ipc"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor/internal/egress"
	"github.com/turnstone-repl/turnstone/supervisor/internal/monitorproto"
	"github.com/turnstone-repl/turnstone/supervisor/internal/workdir"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"
)

// A Session is a named REPL that outlives its workers. Supervisor.Open creates it. It is safe for
// concurrent use. Only Wait, Reset and Close wait for a running turn; Interrupt waits for one
// second.
type Session struct {
	name atomic.Pointer[string] // changed by Supervisor.Rename, which holds the supervisor's lock
	sessionResources
	wg     sync.WaitGroup // counts the goroutines of all workers
	starts sync.WaitGroup // counts running starts; grows under mu until the session is closed

	functions functionRegistry
	puts      workdir.Puts // files that are being put into the working directory

	lockInfoMu      sync.Mutex // held while lock is written
	lockInfoCleared bool       // guarded by lockInfoMu; if set, lock stays empty

	// lifecycle holds one token. A goroutine takes the token to start or end a worker.
	lifecycle chan struct{}

	mu                 sync.Mutex
	m                  sessionMachine        // guarded by mu, like all fields below
	earlyDenials       []monitorproto.Denial // of the worker being launched
	spec               workers.Spec          // preparations add their results
	openedAt           time.Time
	crashedBefore      *CrashedSession // the crashed session that this one follows; nil without one
	currentStart       *startAttempt   // the start under way; nil without one
	abandonedStart     *startAttempt   // the last abandoned start; nil without one
	preparationError   error           // why preparation failed, so that Submit refuses; otherwise nil
	worker             *worker         // nil without a worker
	changed            chan struct{}   // closed at the next change; nil without waiters
	alarm              *time.Timer     // calls handleAlarm; nil until first needed
	alarmAt            time.Time       // when alarm fires; zero for never
	reportedNotices    []string        // the notices of the last worker's sandbox
	reportedMissingDir bool            // a notice has reported that dir is gone
	openAnswers
}

// sessionResources holds what a session gets from its supervisor and keeps until it is closed.
type sessionResources struct {
	o             Options
	launcher      launcher
	preparations  *preparationGroup // the supervisor's
	limitEnforcer *limitEnforcer    // the supervisor's
	dir           string            // private to the session; Close removes it
	lock          *os.File          // shows other programs that dir is in use
	log           *timeline.Log
	removeSelf    func()             // removes the session from its supervisor
	discardDir    func() error       // removes dir
	closeUnused   func()             // closes the session because nobody uses it
	egressPolicy  *egress.HostPolicy // of its sandbox; nil without one
}

// openAnswers holds the inputs that wait in the queue, and the channels on which callers wait for the
// worker or for a user.
type openAnswers struct {
	queue            []*QueuePlace                   // in order; at most session.MaxQueuedInputs
	queries          map[uint64]chan ipc.QueryResult // queries that the worker has not answered, by ID
	lastQuery        uint64
	pendingDecisions map[uint64]chan userDecision // connections, calls and forms that wait for a user, by ID
	lastPendingCall  uint64
}

// Name returns the session's name.
func (s *Session) Name() string { return *s.name.Load() }

// Log returns the session's timeline for reading.
func (s *Session) Log() *timeline.Log { return s.log }

// changedLocked returns a channel that is closed at the next change.
func (s *Session) changedLocked() <-chan struct{} {
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}

// unlock ends the handling of an event: it performs the effects, sets the alarm, wakes waiters and
// unlocks.
func (s *Session) unlock() {
	s.performLocked()
	if due := s.m.nextDeadline(); due != s.alarmAt {
		s.alarmAt = due
		if s.alarm != nil {
			s.alarm.Stop()
		}
		if !due.IsZero() {
			s.alarm = time.AfterFunc(time.Until(due), s.handleAlarm)
		}
	}
	if s.m.changed && s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
	s.m.changed = false
	s.mu.Unlock()
}

// performLocked performs the effects and any further effects that they cause.
func (s *Session) performLocked() {
	for i := 0; i < len(s.m.effects); i++ {
		s.worker.performEffect(s.m.effects[i])
	}
	clear(s.m.effects)
	s.m.effects = s.m.effects[:0]
}

// handleAlarm handles the alarm's deadline. An alarm that could not be stopped in time finds
// nothing due.
func (s *Session) handleAlarm() {
	s.mu.Lock()
	defer s.unlock()
	s.alarmAt = time.Time{}
	before := s.m.expired
	s.m.handleTimer()
	if s.m.expired && !before {
		go s.closeUnused() // Close needs the lock
	}
}

// Notify records a notice for the session's readers.
func (s *Session) Notify(message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.m.recordEvent(timeline.Notice{Message: message})
}

func (s *Session) acquireLifecycle(ctx context.Context) error {
	select {
	case s.lifecycle <- struct{}{}:
		return nil // even if ctx has ended, because nothing has to be waited for
	default:
	}
	select {
	case s.lifecycle <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Session) releaseLifecycle() { <-s.lifecycle }

// Close closes the session permanently. When it returns, all its processes have ended and its files
// are removed. It takes Options.StopGrace at most, and up to 6 s more if the kernel cannot end a
// process or the disk does not respond. ctx bounds only the wait for another Reset or Close.
func (s *Session) Close(ctx context.Context) error {
	if err := s.acquireLifecycle(ctx); err != nil {
		return err
	}
	defer s.starts.Wait() // starts see that the session is closed and end
	defer s.releaseLifecycle()
	s.mu.Lock()
	over := s.m.phase == phaseClosed
	s.mu.Unlock()
	if over {
		return nil
	}
	s.clearLockInfo()
	s.stopWorker(phaseClosing)
	s.wg.Wait()
	s.puts.Close()
	s.mu.Lock()
	if s.crashedBefore != nil && !s.m.hasUserTurn { // opened in advance for a client that only inspected it
		s.crashedBefore.clearReported()
	}
	s.mu.Unlock()
	s.removeSelf()
	err := s.log.Close()
	return errors.Join(err, s.lock.Close(), s.discardDir()) // the lock first: Windows cannot move an open file
}

// stopWorker runs the shutdown escalation; the caller holds lifecycle.
func (s *Session) stopWorker(to phase) {
	s.mu.Lock()
	if to == phaseClosing {
		s.refuseQueueLocked(session.ErrClosed)
		s.abandonStartLocked("closed", session.ErrClosed)
	}
	w, busy := s.worker, s.m.prepareStop(to)
	s.unlock()
	if w == nil {
		return
	}
	w.calls.cancelAll()
	step := w.stop(s.o.StopGrace, busy)
	s.mu.Lock()
	s.m.stopStep = step
	s.mu.Unlock()
}

// A startAttempt prepares the spec of a worker and then starts its process. No caller's context
// ends it. Reset and Close can abandon it until the process is started.
type startAttempt struct {
	giveUp   context.CancelCauseFunc // abandons the preparation
	done     chan struct{}           // closed when the process exists or the start has failed
	finished chan struct{}           // closed when the attempt does no more work
	err      error                   // set before done is closed; nil also if Reset has started another attempt instead
}

// wait waits until the process exists or the start has failed.
func (attempt *startAttempt) wait(ctx context.Context) error {
	select {
	case <-attempt.done:
		return attempt.err
	case <-ctx.Done():
		return ctx.Err()
	}
}
