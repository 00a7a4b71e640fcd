package supervisor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/turnstone-repl/turnstone/ipc"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor/internal/host"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"
)

// A Session is a named REPL that outlives its workers. It is made by
// Supervisor.Open and safe for concurrent use. No method waits for a running
// turn but Wait, Reset and Close, and Interrupt for a second.
type Session struct {
	name     string
	spec     workers.Spec
	o        Options
	launcher launcher
	dir      string   // private; removed by Close
	lock     *os.File // says that dir is in use
	log      *timeline.Log
	opened   time.Time
	lost     *LostSession   // that this one comes after; nil when nothing was lost
	forget   func()         // takes the session out of its supervisor
	wg       sync.WaitGroup // every goroutine of every worker
	starts   sync.WaitGroup // starts that a caller's context does not end; grows under mu, and not once closed

	// lifecycle holds one token, taken by whoever starts or ends a worker.
	lifecycle chan struct{}

	mu         sync.Mutex
	state      session.State // guarded by mu, like all that follows; moved by moveLocked
	since      time.Time     // when state was reached
	changed    chan struct{} // closed at the next change that a waiter may want; nil when nobody waits
	closed     bool
	missed     bool   // it was said that dir is gone
	rung       string // the rung of the stop ladder that ended the last worker
	generation uint64
	worker     *worker // nil when ended
	prompt     string
	lastTurn   uint64
	turn       *turn      // active; also the start-up, as turn 0
	previous   *turn      // the last one that was active
	held       *turn      // submitted while starting
	recent     []numbered // the last turns, for Wait
	asked      []ask      // the runtime's waits that are not answered, in order
	shown      *ask       // the wait that clients see
	queue      inputQueue
	lastLine   []byte          // of the active turn's output, unterminated; bounded
	fed        map[string]bool // terminal readers that are known or answered, by key
	queries    map[uint64]chan ipc.QueryResult
	lastQuery  uint64
	interrupts *time.Timer // retries of the last interrupt; nil when none
}

// An ask is a wait together with what it takes to answer it.
type ask struct {
	session.Wait
	worker uint64 // the worker's number for it; 0 for a terminal reader
	all    bool   // wants everything, not a line
	reader string // key of the terminal reader
}

// maxPrompt bounds the prompt that is taken from the terminal, in bytes.
const maxPrompt = 256

// Name is the session's name.
func (s *Session) Name() string { return s.name }

// Log is the session's timeline, for reading.
func (s *Session) Log() *timeline.Log { return s.log }

// Info is session.Session's. It returns no error.
func (s *Session) Info(context.Context) (session.Info, error) {
	s.mu.Lock()
	i := session.Info{
		Name:       s.name,
		State:      s.state,
		Since:      s.since,
		Generation: s.generation,
		Turn:       s.lastTurn,
		Prompt:     s.prompt,
		Opened:     s.opened,
		Executable: s.spec.Path,
		Why:        s.spec.Why,
		Notice:     s.spec.Notice,
		Dir:        s.spec.Dir,
		LastSeq:    s.log.Last(),
	}
	if s.lost != nil {
		i.Lost = s.lost.OutputPath
	}
	if s.turn != nil {
		i.Turn = s.turn.id
		if !s.turn.started.IsZero() {
			i.Running = time.Since(s.turn.started)
		}
	}
	if s.state == session.StateWaiting {
		w := s.shown.Wait
		i.Wait = &w
	}
	w := s.worker
	if w != nil {
		i.Language, i.Runtime = w.ready.Worker.Language, w.ready.Worker.RuntimeVersion
	}
	s.mu.Unlock()
	i.OutputPath = s.log.OutputPath()
	if w != nil {
		i.PID = w.proc.pid
		i.MemoryBytes = w.proc.MemoryBytes()
	}
	return i, nil
}

// Events is session.Session's.
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

// Submit is session.Session's. The error may be session.ErrStart.
func (s *Session) Submit(ctx context.Context, code string) (uint64, error) {
	return s.submitAs(ctx, "", code)
}

func (s *Session) submitAs(ctx context.Context, author, code string) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if len(code) > MaxInputBytes {
		return 0, session.Errorf(session.KindTooLarge, "the input is too large: it has %d bytes, and at most %d fit", len(code), MaxInputBytes)
	}
	t := &turn{s: s, input: []byte(code), author: author}
	t.lastLine = lastLineOf(code)
	known := s.terminalReaders()
	s.missFiles()
	s.mu.Lock()
	switch {
	case s.closed:
		s.mu.Unlock()
		return 0, session.ErrClosed
	case s.state == session.StateWaiting:
		err := session.Waiting(s.shown.Wait)
		s.mu.Unlock()
		return 0, err
	case s.state == session.StateRunning, s.state == session.StateStopping, s.held != nil, s.turn != nil && s.turn.joined != nil:
		err := s.busyLocked()
		s.mu.Unlock()
		return 0, err
	}
	s.lastTurn++
	t.id = s.lastTurn
	s.rememberLocked(t)
	number := t.id // the turn's own may change under the lock
	t.before = s.log.Last()
	if s.state == session.StateIdle {
		s.worker.known = known
		s.beginLocked(t)
		s.mu.Unlock()
		return number, nil
	}
	s.held = t
	if s.state != session.StateEnded {
		s.mu.Unlock()
		return number, nil
	}
	s.moveLocked(session.StateStarting)
	started := s.asideLocked(func() error { return s.start(context.Background()) })
	s.mu.Unlock()
	select {
	case err := <-started:
		if err != nil {
			return 0, err
		}
	case <-ctx.Done():
		if s.withdraw(t) {
			return 0, ctx.Err()
		}
	}
	return number, nil
}

// asideLocked does what no caller's context ends, and returns where its error comes.
func (s *Session) asideLocked(do func() error) <-chan error {
	result := make(chan error, 1)
	s.starts.Go(func() { result <- do() })
	return result
}

// withdraw takes back a held input, unless it is too late.
func (s *Session) withdraw(t *turn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held == t {
		s.dropHeldLocked(timeline.OutcomeEnded)
		s.lastTurn-- // nobody was given its number
	}
	return t.outcome == timeline.OutcomeEnded && t.started.IsZero()
}

// missFiles says once that the session's directory is not there any more, which tidy
// programs may have removed.
func (s *Session) missFiles() {
	if _, err := os.Lstat(filepath.Join(s.dir, lockName)); !errors.Is(err, fs.ErrNotExist) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.missed && !s.closed {
		s.missed = true
		s.appendLocked(timeline.Notice{Message: "the session's directory " + s.dir + " was removed: what was kept there is lost, such as older output; the session goes on"})
	}
}

func (s *Session) busyLocked() error {
	if s.turn == nil {
		return session.Busy(s.state, 0, time.Since(s.since))
	}
	begun := s.since
	if !s.turn.started.IsZero() {
		begun = s.turn.started
	}
	return session.Busy(s.state, s.turn.id, time.Since(begun))
}

// beginLocked sends a turn to the idle worker.
func (s *Session) beginLocked(t *turn) {
	w := s.worker
	t.started = time.Now()
	s.turn = t
	s.lastLine = s.lastLine[:0]
	s.appendLocked(timeline.TurnStarted{Input: clip(t.input, timeline.MaxInputBytes), Bytes: len(t.input), Author: t.author})
	s.moveLocked(session.StateRunning)
	w.watchTerminal()
	if signals := w.proc.SignalsSent(); signals != nil {
		t.unsent = true
		s.wg.Go(func() { w.sendBehind(t, signals) })
		return
	}
	w.sendLocked(t)
}

// endLocked ends the active turn and whatever was tied to it.
func (s *Session) endLocked(outcome timeline.Outcome, e *ipc.RuntimeError, prompt string) {
	t := s.turn
	if t == nil {
		return
	}
	s.stopRetriesLocked()
	s.dropWaitsLocked()
	s.dropInputLocked()
	if !t.started.IsZero() {
		t.elapsed = time.Since(t.started)
	}
	if t.id > 0 {
		ended := timeline.TurnEnded{Outcome: outcome, Prompt: prompt, Elapsed: t.elapsed}
		if e != nil {
			ended.Name, ended.Message = e.Name, e.Message
		}
		s.appendLocked(ended)
	}
	s.turn, s.previous = nil, t
	t.finishLocked(outcome)
	if t.joined != nil {
		t.joined.elapsed, t.joined.bytes = t.elapsed, t.bytes
		t.joined.finishLocked(outcome)
	}
}

func (t *turn) finishLocked(outcome timeline.Outcome) {
	t.outcome, t.input = outcome, nil
	t.s.signalLocked()
}

// dropWaitsLocked forgets every wait: they are over, answered or not.
func (s *Session) dropWaitsLocked() {
	if s.shown != nil {
		s.appendLocked(timeline.WaitEnded{Wait: s.shown.ID})
	}
	s.shown, s.asked = nil, nil
	clear(s.fed)
}

// moveLocked is the only place that changes the state.
func (s *Session) moveLocked(to session.State) {
	if !legal(s.state, to) {
		panic(fmt.Sprintf("supervisor: impossible move of session %q: %s to %s", s.name, s.state, to))
	}
	s.state, s.since = to, time.Now()
	s.signalLocked()
}

// changedLocked is closed at the next change.
func (s *Session) changedLocked() <-chan struct{} {
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}

func (s *Session) signalLocked() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// appendLocked records a structural event. The timeline holds back only text
// and images when its disk is slow, so this never blocks.
func (s *Session) appendLocked(body timeline.Body) timeline.Event {
	if _, line := body.(timeline.InputLine); !line {
		s.tellLinesLocked()
	}
	e := timeline.Event{Generation: s.generation, Body: body}
	if s.turn != nil {
		e.Turn = s.turn.id
	} else {
		e.Turn, e.Between = s.lastTurn, true
	}
	return s.log.Append(e)
}

// Notify records a sentence for whoever reads the session next.
func (s *Session) Notify(message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.appendLocked(timeline.Notice{Message: message})
}

// Resize is session.Session's.
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

// Reset ends the worker, whatever it does, and starts a new generation. It
// returns when the new worker's process exists, or when ctx ends: what has begun
// by then goes on.
func (s *Session) Reset(ctx context.Context) error {
	if err := s.acquire(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		s.release()
		return session.ErrClosed
	}
	reset := s.asideLocked(func() error {
		s.stopWorker("reset")
		s.release()
		return s.start(context.Background())
	})
	s.mu.Unlock()
	select {
	case err := <-reset:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close ends the session for good: when it returns, no process of it is left
// and its files are gone. It takes Options.StopGrace at most, and 6 s more where
// the kernel cannot end a process or the disk does not answer. ctx bounds only the wait for another Reset or Close.
func (s *Session) Close(ctx context.Context) error {
	if err := s.acquire(ctx); err != nil {
		return err
	}
	defer s.starts.Wait() // they see that it is closed
	defer s.release()
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	s.stopWorker("closed")
	s.wg.Wait()
	s.forget()
	err := s.log.Close()
	return errors.Join(err, s.lock.Close(), discard(s.dir)) // Windows moves no open file
}

// StoppedBy names the rung of the stop ladder that ended the last worker:
// "shutdown", "channel", "SIGHUP", "SIGTERM", "SIGKILL"; "" when it ended by itself.
func (s *Session) StoppedBy() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rung
}

func (s *Session) acquire(ctx context.Context) error {
	select {
	case s.lifecycle <- struct{}{}:
		return nil // also when ctx has ended: nothing has to be waited for
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

// start starts a worker unless there is one. ctx is for its preparation only: a
// start that others may already count on is bounded by itself and not given up.
func (s *Session) start(ctx context.Context) error {
	_ = s.acquire(context.Background())
	defer s.release()
	s.mu.Lock()
	if s.worker != nil {
		s.mu.Unlock()
		return nil
	}
	if s.closed {
		s.failedLocked(session.ErrClosed)
		s.mu.Unlock()
		return session.ErrClosed
	}
	if s.state == session.StateEnded {
		s.moveLocked(session.StateStarting)
	}
	s.generation++
	s.rung = ""
	s.turn = &turn{s: s, before: s.log.Last(), started: time.Now()}
	s.appendLocked(timeline.GenerationStarted{Worker: s.spec.Name + " " + s.spec.Path})
	generation, size := s.generation, s.o.Size
	if generation == 1 && s.lost != nil {
		s.appendLocked(timeline.Notice{Message: s.lost.notice(s.o.Recover)})
	}
	s.mu.Unlock()

	w, err := s.launch(ctx, generation, size)

	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		err = startError(s.name, err)
		s.failedLocked(err)
		return err
	}
	s.worker = w
	w.begin()
	return nil
}

// failedLocked records that no worker could be started.
func (s *Session) failedLocked(err error) {
	if s.state != session.StateStarting || s.worker != nil {
		return
	}
	if s.turn != nil {
		s.appendLocked(timeline.GenerationEnded{Reason: err.Error(), Code: -1, Unready: true})
	}
	s.endLocked(timeline.OutcomeEnded, nil, "")
	s.dropHeldLocked(timeline.OutcomeEnded)
	s.moveLocked(session.StateEnded)
}

// dropHeldLocked ends an input that never ran.
func (s *Session) dropHeldLocked(outcome timeline.Outcome) {
	if t := s.held; t != nil {
		s.held = nil
		t.finishLocked(outcome)
	}
}

// stopWorker climbs the stop ladder; the caller holds lifecycle.
func (s *Session) stopWorker(why string) {
	s.mu.Lock()
	w := s.worker
	if w == nil {
		s.mu.Unlock()
		return
	}
	busy := s.state != session.StateIdle && w.end == nil && (s.shown == nil || s.shown.Terminal)
	w.stopping = why
	s.stopRetriesLocked()
	if s.state == session.StateStopping { // it is on its way out already
		s.signalLocked()
	} else {
		s.moveLocked(session.StateStopping)
	}
	s.mu.Unlock()
	rung := w.stop(s.o.StopGrace, busy)
	s.mu.Lock()
	s.rung = rung
	s.mu.Unlock()
}

// clip is a copy of at most n bytes of b.
func clip(b []byte, n int) []byte { return bytes.Clone(b[:min(len(b), n)]) }

// lastLineOf is the last line of code that is not blank, bounded.
func lastLineOf(code string) string {
	code = strings.TrimRight(code[max(0, len(code)-4*maxPrompt):], " \t\r\n")
	line := strings.TrimSpace(code[strings.LastIndexByte(code, '\n')+1:])
	return strings.ToValidUTF8(line[:min(len(line), maxPrompt)], "")
}
