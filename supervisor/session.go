package supervisor

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/ipc"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor/internal/egress"
	"github.com/turnstone-repl/turnstone/supervisor/internal/monitorproto"
	"github.com/turnstone-repl/turnstone/supervisor/internal/pty"
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

	lockInfoMu      sync.Mutex // held over a write of lock
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
	egressPolicy  *egress.HostPolicy // of its sandbox; nil without one
}

// openAnswers holds the channels on which callers wait for the worker or for a user.
type openAnswers struct {
	queries          map[uint64]chan ipc.QueryResult // queries that the worker has not answered, by ID
	lastQuery        uint64
	pendingDecisions map[uint64]chan userDecision // connections, calls and forms that wait for a user, by ID
	lastPendingCall  uint64
}

// Name returns the session's name.
func (s *Session) Name() string { return *s.name.Load() }

// Log returns the session's timeline for reading.
func (s *Session) Log() *timeline.Log { return s.log }

// Info implements session.Session. Its error is always nil.
func (s *Session) Info(context.Context) (session.Info, error) {
	s.mu.Lock()
	i := session.Info{
		Name:             s.Name(),
		State:            s.m.phase.state(),
		StateSince:       s.m.stateSince,
		Generation:       s.m.generation,
		Turn:             s.m.lastTurn,
		Prompt:           s.m.prompt,
		OpenedAt:         s.openedAt,
		Executable:       s.spec.Path,
		ExecutableSource: s.spec.PathSource,
		Notice:           s.spec.Notice,
		Dir:              s.spec.Dir,
		Limits:           s.spec.Limits.String(),
		LastSeq:          s.log.LastSeq(),

		Continuation: s.m.continuationPrompt,
	}
	if s.preparationError != nil {
		i.PreparationError = s.preparationError.Error()
	}
	if s.spec.Sandbox.Confines() {
		i.Sandbox = s.spec.Sandbox.String()
		i.Grants = slices.Clone(s.m.grants)
	}
	if s.crashedBefore != nil {
		i.CrashedTranscript = s.crashedBefore.OutputPath
	}
	if s.m.turn != nil {
		i.Turn, i.TurnElapsed = s.m.turn.id, time.Since(s.m.turn.started)
	}
	if s.m.phase == phaseWaiting {
		w := s.m.shownRequest.InputRequest
		i.InputRequest = &w
	}
	if s.m.ready != nil {
		i.Language, i.RuntimeVersion = s.m.ready.Worker.Language, s.m.ready.Worker.RuntimeVersion
	}
	w := s.worker
	if w != nil {
		i.AcceptedMechanism = string(w.mechanism)
	}
	s.mu.Unlock()
	i.OutputPath = s.log.OutputPath()
	if w != nil {
		i.PID = w.proc.pid
		i.MemoryBytes = w.proc.MemoryBytes()
	}
	return i, nil
}

// Events implements session.Session.
func (s *Session) Events(ctx context.Context, after timeline.Seq) iter.Seq2[timeline.Event, error] {
	return func(yield func(timeline.Event, error) bool) {
		for e := range s.log.Follow(ctx, after) {
			if !yield(e, nil) {
				return
			}
		}
		err := ctx.Err()
		if err == nil {
			err = session.ErrClosed
		}
		yield(timeline.Event{}, err)
	}
}

// Submit implements session.Session. The error may be session.ErrStart.
func (s *Session) Submit(ctx context.Context, code string) (uint64, error) {
	return s.logCall("submit", "")(s.submitAs(ctx, code, turn{}))
}

// SubmitSilent implements session.Session.
func (s *Session) SubmitSilent(ctx context.Context, code string) (uint64, error) {
	return s.logCall("submit", "")(s.submitAs(ctx, code, turn{silent: true}))
}

// SubmitMayExit implements session.Session.
func (s *Session) SubmitMayExit(ctx context.Context, code string) (uint64, error) {
	return s.logCall("submit", "")(s.submitAs(ctx, code, turn{mayExit: true}))
}

// submitAs starts a turn with the author and the flags of like.
func (s *Session) submitAs(ctx context.Context, code string, like turn) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if len(code) > MaxInputBytes {
		return 0, session.NewTooLargeError(len(code))
	}
	t := &turn{input: []byte(code), author: like.author, silent: like.silent, mayExit: like.mayExit, lastLine: lastCodeLine(code)}
	known := s.terminalReaders()
	s.reportMissingDir()
	s.mu.Lock()
	var number uint64
	err := s.preparationError // only Reset retries: this input may be meant for the attempt that just failed
	if err == nil || s.m.isClosed() {
		number, err = s.m.submitTurn(t, known)
	}
	if err == nil && s.m.phase == phaseEnded {
		s.startLocked()
	}
	attempt := s.currentStart
	s.unlock()
	if err == nil && attempt != nil {
		err = s.waitForStart(ctx, t, attempt)
	}
	if err != nil {
		return 0, err
	}
	return number, nil
}

// waitForStart waits for the end of the start for which an input is queued. It returns early if the
// input is dropped, because that ends its turn.
func (s *Session) waitForStart(ctx context.Context, t *turn, attempt *startAttempt) error {
	for {
		s.mu.Lock()
		interrupted := t.outcome == timeline.OutcomeInterrupted
		changed := s.changedLocked()
		s.mu.Unlock()
		if interrupted {
			return nil
		}
		select {
		case <-attempt.done:
			return attempt.err
		case <-changed:
		case <-ctx.Done():
			s.mu.Lock()
			defer s.unlock()
			if s.m.withdrawTurn(t) {
				return ctx.Err()
			}
			return nil
		}
	}
}

// Answer implements session.Session.
func (s *Session) Answer(ctx context.Context, request timeline.Seq, in session.Input) (uint64, error) {
	return s.logCall("answer", "")(s.answerAs(ctx, "", request, in))
}

func (s *Session) answerAs(ctx context.Context, author string, request timeline.Seq, in session.Input) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.unlock()
	return s.m.answerRequest(author, request, in)
}

// Interrupt implements session.Session. While the session starts, it drops a queued input, which
// then never runs. Turn 0 also interrupts the start-up itself.
func (s *Session) Interrupt(ctx context.Context, turn uint64) (session.InterruptResult, error) {
	return s.logInterrupt(turn, "")(s.interruptAs(ctx, "", turn))
}

func (s *Session) interruptAs(ctx context.Context, author string, turn uint64) (session.InterruptResult, error) {
	s.mu.Lock()
	t, seen, known, err := s.m.interruptTurn(author, turn)
	s.unlock()
	if t == nil {
		return known, err
	}
	return s.waitForInterrupt(ctx, t, seen)
}

// waitForInterrupt waits until an interrupt has taken effect, or times out.
func (s *Session) waitForInterrupt(ctx context.Context, t *turn, seen timeline.Seq) (session.InterruptResult, error) {
	timeout := time.NewTimer(interruptTimeout)
	defer timeout.Stop()
	for {
		s.mu.Lock()
		over, asks := t.outcome != "", s.m.phase == phaseWaiting && s.m.shownRequest.ID > seen
		changed := s.changedLocked()
		s.mu.Unlock()
		switch {
		case over:
			return session.InterruptIdle, nil
		case asks:
			return session.InterruptWaiting, nil
		}
		select {
		case <-changed:
		case <-timeout.C:
			return session.InterruptPending, nil
		case <-ctx.Done():
			return session.InterruptPending, ctx.Err()
		}
	}
}

// reportMissingDir records once that the session's directory is gone. Clean-up tools may remove it.
func (s *Session) reportMissingDir() {
	if _, err := os.Lstat(filepath.Join(s.dir, lockFileName)); !errors.Is(err, fs.ErrNotExist) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.reportedMissingDir && !s.m.isClosed() {
		s.reportedMissingDir = true
		s.m.recordNotice("the session directory %s was removed: its files are lost, such as older output, but the session continues", s.dir)
	}
}

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
	s.m.handleTimer()
}

// Notify records a notice for the session's readers.
func (s *Session) Notify(message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.m.recordEvent(timeline.Notice{Message: message})
}

// Resize implements session.Session.
func (s *Session) Resize(_ context.Context, size session.Size) error {
	s.mu.Lock()
	s.o.Size = size
	w := s.worker
	s.mu.Unlock()
	if w == nil {
		return nil
	}
	return w.proc.terminal.Resize(pty.TerminalSize(size))
}

// Reset implements session.Session.
func (s *Session) Reset(ctx context.Context) error {
	if err := s.acquireLifecycle(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	if s.m.phase == phaseClosed {
		s.mu.Unlock()
		s.releaseLifecycle()
		return session.ErrClosed
	}
	s.abandonStartLocked("reset", nil)
	started := make(chan *startAttempt, 1)
	s.starts.Go(func() {
		s.stopWorker(phaseStopping)
		s.mu.Lock()
		defer s.unlock()
		s.releaseLifecycle()
		attempt := s.currentStart // an input that came first has started it
		if attempt == nil {
			attempt = s.startLocked()
		}
		started <- attempt
	})
	s.unlock()
	select {
	case attempt := <-started:
		return attempt.wait(ctx)
	case <-ctx.Done():
		return ctx.Err()
	}
}

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
	s.mu.Lock()
	if s.crashedBefore != nil && !s.m.hasUserTurn { // opened in advance for a client that only looked
		s.crashedBefore.clearReported()
	}
	s.mu.Unlock()
	s.removeSelf()
	err := s.log.Close()
	return errors.Join(err, s.lock.Close(), s.discardDir()) // the lock first: Windows cannot move an open file
}

// IsClosed reports whether the session is closed or closing. It does no I/O.
func (s *Session) IsClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m.isClosed()
}

// StoppedBy names the step of the shutdown escalation that ended the last worker: "shutdown",
// "channel", "SIGHUP", "SIGTERM" or "SIGKILL". It is empty if the worker ended on its own.
func (s *Session) StoppedBy() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m.stopStep
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

// stopWorker runs the shutdown escalation; the caller holds lifecycle.
func (s *Session) stopWorker(to phase) {
	s.mu.Lock()
	if to == phaseClosing {
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

// lastCodeLine returns the last line of code that is not blank, limited to maxPromptBytes.
func lastCodeLine(code string) string {
	code = strings.TrimRight(code[max(0, len(code)-4*maxPromptBytes):], " \t\r\n")
	line := strings.TrimSpace(code[strings.LastIndexByte(code, '\n')+1:])
	return text.Truncate(line, maxPromptBytes)
}
