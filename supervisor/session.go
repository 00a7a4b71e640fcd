package supervisor

import (
	"bytes"
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

	"github.com/turnstone-repl/turnstone/ipc"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor/internal/egress"
	"github.com/turnstone-repl/turnstone/supervisor/internal/host"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"
)

// A Session is a named REPL that outlives its workers. Supervisor.Open makes it. It is safe
// for concurrent use. Only Wait, Reset and Close wait for a running turn, and Interrupt does
// for one second.
type Session struct {
	name         atomic.Pointer[string] // changes in Supervisor.Rename, which holds the supervisor's lock
	o            Options
	launcher     launcher
	preparations *preparations // the supervisor's
	keeper       *keeper       // likewise
	dir          string        // private to the session; Close removes it
	lock         *os.File      // shows other programs that dir is in use
	log          *timeline.Log
	forget       func()         // removes the session from its supervisor
	discard      func() error   // removes dir
	network      *egress.Policy // the way out of its sandbox; nil without one
	wg           sync.WaitGroup // every goroutine of every worker
	starts       sync.WaitGroup // starts that outlive their callers' contexts; grows under mu until closed

	functions functions

	describing sync.Mutex // held over a write of lock
	disowned   bool       // guarded by describing; lock stays empty

	// lifecycle holds one token. A goroutine takes it to start or end a worker.
	lifecycle chan struct{}

	mu        sync.Mutex
	m         machine       // guarded by mu, like all fields below
	early     []host.Denial // of a worker that is being launched
	spec      workers.Spec  // preparation adds what it made
	opened    time.Time
	lost      *LostSession                    // the lost session that this one follows; nil without one
	starting  *startUp                        // the start under way; nil without one
	givenUp   *startUp                        // the last start that was given up; nil without one
	failure   error                           // why preparation failed, and Submit refuses; nil unless it has
	worker    *worker                         // nil without a worker
	changed   chan struct{}                   // closed at the next change; nil when nobody waits for one
	alarm     *time.Timer                     // calls ring; nil until first needed
	alarmAt   time.Time                       // when alarm fires; zero for never
	told      []string                        // what the last worker's sandbox had to say
	missed    bool                            // a notice has said that dir is gone
	queries   map[uint64]chan ipc.QueryResult // the queries that the worker has not answered
	lastQuery uint64
	held      map[uint64]chan verdict // connects, calls and forms that wait for a person, by their numbers
	lastHeld  uint64
}

// maxPrompt bounds the prompt that we read from the terminal, in bytes.
const maxPrompt = 256

// Name returns the session's name.
func (s *Session) Name() string { return *s.name.Load() }

// Log returns the session's timeline, to be read.
func (s *Session) Log() *timeline.Log { return s.log }

// Info implements session.Session. Its error is always nil.
func (s *Session) Info(context.Context) (session.Info, error) {
	s.mu.Lock()
	i := session.Info{
		Name:             s.Name(),
		State:            s.m.phase.state(),
		StateSince:       s.m.since,
		Generation:       s.m.generation,
		Turn:             s.m.lastTurn,
		Prompt:           s.m.prompt,
		OpenedAt:         s.opened,
		Executable:       s.spec.Path,
		ExecutableSource: s.spec.PathSource,
		Notice:           s.spec.Notice,
		Dir:              s.spec.Dir,
		Limits:           s.spec.Limits.String(),
		LastSeq:          s.log.LastSeq(),

		Continuation: s.m.more,
	}
	if s.failure != nil {
		i.PreparationError = s.failure.Error()
	}
	if s.spec.Sandbox.Confines() {
		i.Sandbox = s.spec.Sandbox.String()
		i.Grants = slices.Clone(s.m.given)
	}
	if s.lost != nil {
		i.CrashedTranscript = s.lost.OutputPath
	}
	if s.m.turn != nil {
		i.Turn, i.TurnElapsed = s.m.turn.id, time.Since(s.m.turn.started)
	}
	if s.m.phase == phaseWaiting {
		w := s.m.shown.InputRequest
		i.InputRequest = &w
	}
	if s.m.ready != nil {
		i.Language, i.RuntimeVersion = s.m.ready.Worker.Language, s.m.ready.Worker.RuntimeVersion
	}
	w := s.worker
	if w != nil {
		i.AcceptedMechanism = string(w.heldBy)
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
	return s.logged("submit", "")(s.submitAs(ctx, code, turn{}))
}

// SubmitSilent implements session.Session.
func (s *Session) SubmitSilent(ctx context.Context, code string) (uint64, error) {
	return s.logged("submit", "")(s.submitAs(ctx, code, turn{silent: true}))
}

// SubmitMayExit implements session.Session.
func (s *Session) SubmitMayExit(ctx context.Context, code string) (uint64, error) {
	return s.logged("submit", "")(s.submitAs(ctx, code, turn{mayExit: true}))
}

// submitAs starts a turn with the author, and what else is special, of like.
func (s *Session) submitAs(ctx context.Context, code string, like turn) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if len(code) > MaxInputBytes {
		return 0, session.NewTooLargeError(len(code))
	}
	t := &turn{input: []byte(code), author: like.author, silent: like.silent, mayExit: like.mayExit, lastLine: lastLineOf(code)}
	known := s.terminalReaders()
	s.missFiles()
	s.mu.Lock()
	var number uint64
	err := s.failure // only Reset tries again: this input may be meant for the try that has just failed
	if err == nil || s.m.isClosed() {
		number, err = s.m.submit(t, known)
	}
	if err == nil && s.m.phase == phaseEnded {
		s.startLocked()
	}
	u := s.starting
	s.unlock()
	if err == nil && u != nil {
		err = s.heldFor(ctx, t, u)
	}
	if err != nil {
		return 0, err
	}
	return number, nil
}

// heldFor waits for the end of the start that holds an input. It returns early if the input is
// dropped, because its turn has ended then.
func (s *Session) heldFor(ctx context.Context, t *turn, u *startUp) error {
	for {
		s.mu.Lock()
		interrupted := t.outcome == timeline.OutcomeInterrupted
		changed := s.changedLocked()
		s.mu.Unlock()
		if interrupted {
			return nil
		}
		select {
		case <-u.done:
			return u.err
		case <-changed:
		case <-ctx.Done():
			s.mu.Lock()
			defer s.unlock()
			if s.m.withdraw(t) {
				return ctx.Err()
			}
			return nil
		}
	}
}

// Answer implements session.Session.
func (s *Session) Answer(ctx context.Context, wait timeline.Seq, in session.Input) (uint64, error) {
	return s.logged("answer", "")(s.answerAs(ctx, "", wait, in))
}

func (s *Session) answerAs(ctx context.Context, author string, wait timeline.Seq, in session.Input) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.unlock()
	return s.m.answer(author, wait, in)
}

// Interrupt implements session.Session. While the session starts, it drops an input that is
// still held, which then never runs. Turn 0 also interrupts the start-up itself.
func (s *Session) Interrupt(ctx context.Context, turn uint64) (session.InterruptResult, error) {
	return s.loggedInterrupt(turn, "")(s.interruptAs(ctx, "", turn))
}

func (s *Session) interruptAs(ctx context.Context, author string, turn uint64) (session.InterruptResult, error) {
	s.mu.Lock()
	t, seen, known, err := s.m.interrupt(author, turn)
	s.unlock()
	if t == nil {
		return known, err
	}
	return s.interrupted(ctx, t, seen)
}

// interrupted waits for the effect of an interrupt.
func (s *Session) interrupted(ctx context.Context, t *turn, seen timeline.Seq) (session.InterruptResult, error) {
	timeout := time.NewTimer(interruptWait)
	defer timeout.Stop()
	for {
		s.mu.Lock()
		over, asks := t.outcome != "", s.m.phase == phaseWaiting && s.m.shown.ID > seen
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

// missFiles says once that the session's directory is gone. Cleaning programs may remove it.
func (s *Session) missFiles() {
	if _, err := os.Lstat(filepath.Join(s.dir, lockName)); !errors.Is(err, fs.ErrNotExist) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.missed && !s.m.isClosed() {
		s.missed = true
		s.m.notice("the session's directory %s was removed: what was kept there is lost, such as older output; the session goes on", s.dir)
	}
}

// changedLocked returns a channel that the next change closes.
func (s *Session) changedLocked() <-chan struct{} {
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}

// unlock ends the handling of an event. It performs the effects, sets the alarm, wakes waiters
// and unlocks.
func (s *Session) unlock() {
	s.performLocked()
	if due := s.m.dueAt(); due != s.alarmAt {
		s.alarmAt = due
		if s.alarm != nil {
			s.alarm.Stop()
		}
		if !due.IsZero() {
			s.alarm = time.AfterFunc(time.Until(due), s.ring)
		}
	}
	if s.m.news && s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
	s.m.news = false
	s.mu.Unlock()
}

// performLocked performs the effects, and those that follow from them.
func (s *Session) performLocked() {
	for i := 0; i < len(s.m.effects); i++ {
		s.worker.perform(s.m.effects[i])
	}
	clear(s.m.effects)
	s.m.effects = s.m.effects[:0]
}

// ring is what the alarm calls. An alarm that could not be stopped in time finds nothing due.
func (s *Session) ring() {
	s.mu.Lock()
	defer s.unlock()
	s.alarmAt = time.Time{}
	s.m.wake()
}

// Notify writes a notice for the next reader of the session.
func (s *Session) Notify(message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.m.record(timeline.Notice{Message: message})
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
	return w.proc.terminal.Resize(host.Size(size))
}

// Reset implements session.Session.
func (s *Session) Reset(ctx context.Context) error {
	if err := s.acquire(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	if s.m.phase == phaseClosed {
		s.mu.Unlock()
		s.release()
		return session.ErrClosed
	}
	s.giveUpLocked("reset", nil)
	begun := make(chan *startUp, 1)
	s.starts.Go(func() {
		s.stopWorker(phaseStopping)
		s.mu.Lock()
		defer s.unlock()
		s.release()
		u := s.starting // started by an input that came first
		if u == nil {
			u = s.startLocked()
		}
		begun <- u
	})
	s.unlock()
	select {
	case u := <-begun:
		return u.wait(ctx)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close ends the session for good. When it returns, none of its processes is left and its
// files are gone. It takes Options.StopGrace at most, and up to 6 s more when the kernel
// cannot end a process or the disk does not answer. ctx bounds only the wait for another Reset
// or Close.
func (s *Session) Close(ctx context.Context) error {
	if err := s.acquire(ctx); err != nil {
		return err
	}
	defer s.starts.Wait() // starts see that the session is closed, and end
	defer s.release()
	s.mu.Lock()
	over := s.m.phase == phaseClosed
	s.mu.Unlock()
	if over {
		return nil
	}
	s.disown()
	s.stopWorker(phaseClosing)
	s.wg.Wait()
	s.mu.Lock()
	if s.lost != nil && !s.m.used { // opened ahead of a client that only looked
		s.lost.untold()
	}
	s.mu.Unlock()
	s.forget()
	err := s.log.Close()
	return errors.Join(err, s.lock.Close(), s.discard()) // Windows moves no open file
}

// Closed reports whether the session is closed. It does no I/O.
func (s *Session) Closed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m.isClosed()
}

// StoppedBy names the rung of the stop ladder that ended the last worker: "shutdown",
// "channel", "SIGHUP", "SIGTERM" or "SIGKILL". It is "" when the worker ended by itself.
func (s *Session) StoppedBy() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m.rung
}

func (s *Session) acquire(ctx context.Context) error {
	select {
	case s.lifecycle <- struct{}{}:
		return nil // even if ctx has ended, since nothing has to be waited for
	default:
	}
	select {
	case s.lifecycle <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Session) release() { <-s.lifecycle }

// stopWorker climbs the stop ladder; the caller holds lifecycle.
func (s *Session) stopWorker(to phase) {
	s.mu.Lock()
	if to == phaseClosing {
		s.giveUpLocked("closed", session.ErrClosed)
	}
	w, busy := s.worker, s.m.stop(to)
	s.unlock()
	if w == nil {
		return
	}
	w.calls.end()
	rung := w.stop(s.o.StopGrace, busy)
	s.mu.Lock()
	s.m.rung = rung
	s.mu.Unlock()
}

// clip returns a copy of at most n bytes of b.
func clip(b []byte, n int) []byte { return bytes.Clone(b[:min(len(b), n)]) }

// lastLineOf returns the last line of code that is not blank, bounded.
func lastLineOf(code string) string {
	code = strings.TrimRight(code[max(0, len(code)-4*maxPrompt):], " \t\r\n")
	line := strings.TrimSpace(code[strings.LastIndexByte(code, '\n')+1:])
	return strings.ToValidUTF8(line[:min(len(line), maxPrompt)], "")
}
