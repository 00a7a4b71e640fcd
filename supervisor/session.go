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
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"
)

// A Session is a named REPL that outlives its workers. It is made by
// Supervisor.Open and safe for concurrent use. No method waits for a running
// turn but Wait, Reset and Close, and Interrupt for a second.
type Session struct {
	name   string
	spec   workers.Spec
	o      Options
	dir    string   // private; removed by Close
	lock   *os.File // says that dir is in use
	log    *timeline.Log
	opened time.Time
	lost   *LostSession   // that this one comes after; nil when nothing was lost
	forget func()         // takes the session out of its supervisor
	wg     sync.WaitGroup // every goroutine of every worker
	starts sync.WaitGroup // starts that a caller's context does not end; grows under mu, and not once closed

	// lifecycle holds one token, taken by whoever starts or ends a worker.
	lifecycle chan struct{}

	mu         sync.Mutex
	state      State         // guarded by mu, like all that follows; moved by moveLocked
	since      time.Time     // when state was reached
	changed    chan struct{} // closed at the next change that a waiter may want; nil when nobody waits
	closed     bool
	missed     bool   // it was said that dir is gone
	rung       string // the rung of the stop ladder that ended the last worker
	generation uint64
	worker     *worker // nil when ended
	prompt     string
	lastTurn   uint64
	turn       *Turn // active; also the start-up, as turn 0
	previous   *Turn // the last one that was active
	held       *Turn // submitted while starting
	asked      []ask // the runtime's waits that are not answered, in order
	shown      *ask  // the wait that clients see
	queue      inputQueue
	lastLine   []byte          // of the active turn's output, unterminated; bounded
	fed        map[string]bool // terminal readers that are known or answered, by key
	queries    map[uint64]chan ipc.QueryResult
	lastQuery  uint64
	interrupts *time.Timer // retries of the last interrupt; nil when none
}

// An ask is a wait together with what it takes to answer it.
type ask struct {
	Wait
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

// Info describes a session at one moment.
type Info struct {
	Name        string
	State       State
	Since       time.Time // when State was reached
	Generation  uint64
	Turn        uint64        // the active turn, or the last one
	Running     time.Duration // how long the active turn has run; 0 when none is
	Wait        *Wait         // set when State is StateWaiting
	Prompt      string
	Opened      time.Time
	PID         int // of the worker; 0 when there is none
	MemoryBytes int64
	Worker      ipc.Worker // zero until the worker is ready
	Executable  string
	Why         string // how Executable was chosen
	Notice      string // what is to be known of that, see workers.Spec
	Dir         string // the workers' directory
	OutputPath  string // the rendered transcript; "" when there is none
	Lost        string // that of the session before it, which was lost when its program was killed; else ""
	LastSeq     timeline.Seq
}

// Info describes the session now.
func (s *Session) Info() Info {
	s.mu.Lock()
	i := Info{
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
	if s.state == StateWaiting {
		w := s.shown.Wait
		i.Wait = &w
	}
	w := s.worker
	if w != nil {
		i.Worker = w.ready.Worker
	}
	s.mu.Unlock()
	i.OutputPath = s.log.OutputPath()
	if w != nil {
		i.PID = w.proc.PID()
		i.MemoryBytes = w.proc.MemoryBytes()
	}
	return i
}

// Events is every event after the cursor, and then each one as it happens,
// until ctx ends or the session is closed. A reader that falls behind sees a
// timeline.Gap; it never holds the session up.
func (s *Session) Events(ctx context.Context, after timeline.Seq) iter.Seq[timeline.Event] {
	return s.log.Follow(ctx, after)
}

// Current is the active turn, the start-up (turn 0) included, or nil.
func (s *Session) Current() *Turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.turn
}

// Wait is Turn.Wait for whatever turn is active. It returns at once when none is.
func (s *Session) Wait(ctx context.Context, opts *WaitOptions) (Reply, error) {
	return s.wait(ctx, nil, opts)
}

// Submit starts a turn, and only that: it refuses an input with a *BusyError
// or a *WaitingError while one is active, and never queues one. While the
// session starts, one input is held; it runs when the worker is ready. When the
// last worker has ended, Submit starts the next generation. ctx governs the
// call, not the turn, nor the start: when it ends before the worker's process
// exists, the input is withdrawn, and the start goes on for the next caller.
func (s *Session) Submit(ctx context.Context, code string) (*Turn, error) {
	return s.SubmitAs(ctx, "", code)
}

// SubmitAs is Submit in the name of author, who is recorded with the turn.
func (s *Session) SubmitAs(ctx context.Context, author, code string) (*Turn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if len(code) > MaxInputBytes {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(code), MaxInputBytes)
	}
	t := &Turn{s: s, done: make(chan struct{}), input: []byte(code), author: author}
	t.lastLine = lastLineOf(code)
	known := s.terminalReaders()
	s.missFiles()
	s.mu.Lock()
	switch {
	case s.closed:
		s.mu.Unlock()
		return nil, ErrClosed
	case s.state == StateWaiting:
		err := &WaitingError{Wait: s.shown.Wait}
		s.mu.Unlock()
		return nil, err
	case s.state == StateRunning, s.state == StateStopping, s.held != nil, s.turn != nil && s.turn.joined != nil:
		err := s.busyLocked()
		s.mu.Unlock()
		return nil, err
	}
	s.lastTurn++
	t.id = s.lastTurn
	t.before = s.log.Last()
	if s.state == StateIdle {
		s.worker.known = known
		s.beginLocked(t)
		s.mu.Unlock()
		return t, nil
	}
	s.held = t
	if s.state != StateEnded {
		s.mu.Unlock()
		return t, nil
	}
	s.moveLocked(StateStarting)
	started := s.asideLocked(func() error { return s.start(context.Background()) })
	s.mu.Unlock()
	select {
	case err := <-started:
		if err != nil {
			return nil, err
		}
	case <-ctx.Done():
		if s.withdraw(t) {
			return nil, ctx.Err()
		}
	}
	return t, nil
}

// asideLocked does what no caller's context ends, and returns where its error comes.
func (s *Session) asideLocked(do func() error) <-chan error {
	result := make(chan error, 1)
	s.starts.Go(func() { result <- do() })
	return result
}

// withdraw takes back a held input, unless it is too late.
func (s *Session) withdraw(t *Turn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held == t {
		s.dropHeldLocked("ended")
		s.lastTurn-- // its number was never used
	}
	return t.outcome == "ended" && t.started.IsZero()
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

func (s *Session) busyLocked() *BusyError {
	e := &BusyError{State: s.state, For: time.Since(s.since)}
	if s.turn != nil {
		e.Turn = s.turn.id
		if !s.turn.started.IsZero() {
			e.For = time.Since(s.turn.started)
		}
	}
	return e
}

// beginLocked sends a turn to the idle worker.
func (s *Session) beginLocked(t *Turn) {
	w := s.worker
	t.started = time.Now()
	s.turn = t
	s.lastLine = s.lastLine[:0]
	s.appendLocked(timeline.TurnStarted{Input: clip(t.input, timeline.MaxInputBytes), Bytes: len(t.input), Author: t.author})
	s.moveLocked(StateRunning)
	w.watchTerminal()
	if err := w.conn.Send(ipc.TurnStart{Turn: t.id, Input: t.input}); err != nil {
		w.failLocked(fmt.Errorf("cannot send the input: %w", err))
	}
	t.input = nil
}

// endLocked ends the active turn and whatever was tied to it.
func (s *Session) endLocked(outcome string, e *ipc.RuntimeError, prompt string) {
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

func (t *Turn) finishLocked(outcome string) {
	t.outcome, t.input = outcome, nil
	close(t.done)
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
func (s *Session) moveLocked(to State) {
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

// Resize sets the size of the worker's terminal.
func (s *Session) Resize(size Size) error {
	s.mu.Lock()
	s.o.Size = size
	w := s.worker
	s.mu.Unlock()
	if w == nil {
		return nil
	}
	return w.proc.Terminal().Resize(size)
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
		return ErrClosed
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
		s.failedLocked(ErrClosed)
		s.mu.Unlock()
		return ErrClosed
	}
	if s.state == StateEnded {
		s.moveLocked(StateStarting)
	}
	s.generation++
	s.rung = ""
	s.turn = &Turn{s: s, done: make(chan struct{}), before: s.log.Last(), started: time.Now()}
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
		err = &StartError{Session: s.name, Err: err}
		s.failedLocked(err)
		return err
	}
	s.worker = w
	w.begin()
	return nil
}

// failedLocked records that no worker could be started.
func (s *Session) failedLocked(err error) {
	if s.state != StateStarting || s.worker != nil {
		return
	}
	if s.turn != nil {
		s.appendLocked(timeline.GenerationEnded{Reason: err.Error(), Code: -1, Unready: true})
	}
	s.endLocked("ended", nil, "")
	s.dropHeldLocked("ended")
	s.moveLocked(StateEnded)
}

// dropHeldLocked ends an input that never ran.
func (s *Session) dropHeldLocked(outcome string) {
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
	busy := s.state != StateIdle && w.end == nil && (s.shown == nil || s.shown.Terminal)
	w.stopping = why
	s.stopRetriesLocked()
	if s.state == StateStopping { // it is on its way out already
		s.signalLocked()
	} else {
		s.moveLocked(StateStopping)
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
