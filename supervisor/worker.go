package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/turnstone-repl/turnstone/ipc"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor/internal/host"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"
)

const (
	// lastWords is how long the terminal and the channel of a dead worker are
	// read before they are closed, should something keep them open.
	lastWords = 500 * time.Millisecond

	// endGrace is how long a process may take to end after session_end: a
	// runtime has much memory to give back, perhaps.
	endGrace = 10 * time.Second
)

// A worker is one generation: a process, its channel and its terminal.
//
// Four goroutines belong to it. frames and terminal read the two channels and
// deliver, in order, through the fence; watch waits for the process to end; the
// connection has its writer. All end when the process does.
type worker struct {
	s          *Session
	generation uint64
	files      string // its private directory
	proc       *launched
	conn       *ipc.Conn
	fence      *fence
	readers    sync.WaitGroup // frames and terminal
	deaf       chan struct{}  // closed when nothing that arrives matters any more
	done       chan struct{}  // closed when the session knows that the worker ended

	active atomic.Int64 // when the worker last said anything, in Unix nanoseconds
	slow   atomic.Bool  // terminal readers are looked for seldom

	// The rest is guarded by s.mu.
	ready             ipc.WorkerReady
	isReady           bool
	startTimer        *time.Timer
	userHandlesSigint bool
	stopping          string          // why we end it; "" when we do not
	cause             error           // what it did wrong; nil when nothing
	end               *ipc.SessionEnd // its last frame
	endTimer          *time.Timer     // runs from then on; nil before
	meals             []session.Input // for the terminal, the first is being fed
	watching          *time.Timer     // looks for terminal readers; nil where they cannot be seen
	armed             bool            // watching is set
	pause             time.Duration   // until it looks again
	known             map[string]bool // terminal readers that blocked before the turn began
}

// launch starts a worker process. ctx ends its preparation, and nothing later.
func (s *Session) launch(ctx context.Context, generation uint64, size session.Size) (*worker, error) {
	ctx, cancel := context.WithTimeout(ctx, s.o.StartTimeout)
	defer cancel()
	source, err := s.spec.Prepared(ctx, s.Notify)
	if err != nil {
		return nil, err
	}
	files := filepath.Join(s.dir, fmt.Sprintf("files-%d", generation))
	if err := writeFiles(files, source); err != nil {
		return nil, err
	}
	expand := func(in []string) []string {
		out := make([]string, len(in))
		for i, a := range in {
			out[i] = strings.ReplaceAll(a, workers.FilesDir, files)
		}
		return out
	}
	changes := append([]string{"LISTEN_FDS", "LISTEN_PID", "TERM=dumb", "PAGER=cat"}, expand(s.spec.Env)...)
	if !strings.ContainsFunc(files, unicode.IsSpace) {
		changes = append(changes, expand(s.spec.PlainEnv)...)
	}
	proc, err := s.launcher(&host.Command{
		Path: s.spec.Path,
		Args: expand(s.spec.Args),
		Env:  workerEnv(s.o.Env, s.o.ScrubEnv, changes, host.FoldEnv),
		Dir:  s.spec.Dir,
		Size: host.Size(size),

		MemoryLimit: s.spec.MemoryLimit,
		Timeout:     s.o.StartTimeout,
	})
	if err != nil {
		return nil, err
	}
	w := &worker{
		s:          s,
		generation: generation,
		files:      files,
		proc:       proc,
		conn:       ipc.NewConn(proc.channel, ipc.FromWorker),
		deaf:       make(chan struct{}),
		done:       make(chan struct{}),
	}
	w.fence = newFence(proc.nonce, proc.terminal.TryRead, w.text, w.frame)
	w.fence.settle = proc.terminal.Sync
	return w, nil
}

func writeFiles(dir string, files map[string][]byte) error {
	if len(files) == 0 {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// begin starts the worker's goroutines; s.mu is held.
func (w *worker) begin() {
	s := w.s
	if !w.proc.staged {
		s.appendLocked(timeline.Notice{Message: "the worker runs without the stage: programs that it leaves behind may outlive the session (call supervisor.StageMain first in main)"})
	}
	w.startTimer = time.AfterFunc(s.o.StartTimeout, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !w.isReady { // else the timer was too late to be stopped
			w.failLocked(fmt.Errorf("it was not ready after %s", s.o.StartTimeout))
		}
	})
	w.readers.Go(w.frames)
	w.readers.Go(w.terminal)
	s.wg.Go(w.watch)
	if w.proc.readers != nil {
		w.armed, w.pause = true, quiet
		w.watching = time.AfterFunc(quiet, w.look)
	}
}

// frames reads the channel until it ends.
func (w *worker) frames() {
	for {
		m, err := w.conn.Receive()
		if err != nil {
			w.lost(err)
			return
		}
		w.heard()
		w.fence.frame(m)
	}
}

// lost takes in that the channel ended, which says nothing about the process.
func (w *worker) lost(err error) {
	var bad *ipc.ProtocolError
	w.s.mu.Lock()
	stopping := w.stopping != ""
	w.s.mu.Unlock()
	switch {
	case stopping: // the ladder closes the channel itself
	case errors.As(err, &bad):
		w.fail(bad)
	case errors.Is(err, io.EOF):
		// The process closes it by ending, which is about to be reported. One
		// that lives on cannot be reached any more.
		select {
		case <-w.proc.Exited():
		case <-w.deaf:
		case <-time.After(w.s.o.StopGrace):
			w.fail(errors.New("it closed its channel"))
		}
	default:
		w.fail(fmt.Errorf("its channel broke: %w", err))
	}
}

// terminal reads the terminal until it ends.
func (w *worker) terminal() {
	for {
		var end error
		err := w.proc.terminal.Await(func() bool {
			any, err := w.fence.text(w.deaf)
			if any {
				w.heard()
			}
			end = err
			return any || err != nil
		})
		if err != nil || end != nil {
			return
		}
	}
}

// text is called by the fence, in order.
func (w *worker) text(stream timeline.Stream, b []byte) {
	w.record(timeline.Text{Stream: stream, Data: b}, b)
}

// record appends what the runtime put out; text is its bytes, if it is text.
// The timeline holds the caller back when its disk is slow, so no lock is held.
func (w *worker) record(body timeline.Body, text []byte) {
	s := w.s
	e := timeline.Event{Generation: w.generation, Body: body}
	s.mu.Lock()
	s.tellLinesLocked()
	if t := s.turn; t != nil {
		e.Turn = t.id
		t.bytes += int64(len(text))
		s.lastLine = lastLine(s.lastLine, text)
	} else {
		e.Turn, e.Between = s.lastTurn, true
	}
	s.mu.Unlock()
	s.log.Append(e)
}

// frame is called by the fence, in order.
func (w *worker) frame(m ipc.Message) {
	s := w.s
	if _, ok := m.(ipc.Idle); ok {
		// Before anybody can start the next turn on it.
		_ = w.proc.terminal.Restore()
	}
	s.mu.Lock()
	output, err := w.handleLocked(m)
	if err != nil {
		w.failLocked(err)
	}
	s.mu.Unlock()
	switch m := output.(type) {
	case ipc.Output:
		stream := timeline.Stdout
		if m.Stream == ipc.Stderr {
			stream = timeline.Stderr
		}
		w.text(stream, m.Data)
	case ipc.Image:
		w.record(timeline.Image{MIME: m.MIME, Data: m.Data, Source: m.Source, Update: m.Update, Title: m.Title}, nil)
	}
}

// handleLocked acts on one frame. It returns the frame if it is to be recorded
// without the lock. An error is a violation of the protocol.
func (w *worker) handleLocked(m ipc.Message) (output ipc.Message, err error) {
	s := w.s
	if w.cause != nil {
		return nil, nil // it is being ended; nothing that it says counts any more
	}
	if w.end != nil {
		return nil, fmt.Errorf("%s after session_end", m.Type())
	}
	if ready, ok := m.(ipc.WorkerReady); ok {
		return nil, w.readyLocked(ready)
	}
	if !w.isReady {
		return nil, fmt.Errorf("its first message is %s, not worker_ready", m.Type())
	}
	switch m := m.(type) {
	case ipc.Output, ipc.Image:
		return m, nil
	case ipc.SessionEnd:
		w.sessionEndLocked(m)
		return nil, nil
	}
	if s.state == session.StateStopping {
		return nil, nil // the ladder decides now
	}
	switch m := m.(type) {
	case ipc.Idle:
		return nil, s.idleLocked(m)
	case ipc.StdinWait:
		return nil, s.stdinWaitLocked(m)
	case ipc.InputLine:
		s.lastLine = s.lastLine[:0]
		author := s.queue.author
		if m.Line > 0 && s.turn != nil {
			author = s.turn.author
			s.turn.took = append(s.turn.took[:min(len(s.turn.took), 1)], m)
		}
		s.appendLocked(timeline.InputLine{Prompt: m.Prompt, Text: m.Text, Secret: m.Secret, Author: author})
	case ipc.InterruptAck:
		if s.turn != nil && m.Turn == s.turn.id && m.Seq == s.turn.interrupts {
			s.ackedLocked(s.turn)
		}
	case ipc.Sigint:
		w.userHandlesSigint = m.Owner != ipc.SigintOurs
		if w.userHandlesSigint && s.turn != nil {
			s.askAgainLocked(s.turn) // no interrupt ends a wait any more
		}
	case ipc.Progress:
		p := timeline.Progress{Progress: m.Progress, Message: m.Message}
		if m.Total != nil {
			p.Total = *m.Total
		}
		s.appendLocked(p)
	case ipc.QueryResult:
		if answer, ok := s.queries[m.ID]; ok {
			delete(s.queries, m.ID)
			answer <- m
		}
	default:
		return nil, fmt.Errorf("%s is not for the supervisor", m.Type())
	}
	return nil, nil
}

// sessionEndLocked takes in the last frame: the process is about to end, and
// takes no more input.
func (w *worker) sessionEndLocked(m ipc.SessionEnd) {
	s := w.s
	w.end = &m
	if s.state != session.StateStopping {
		s.stopRetriesLocked()
		s.moveLocked(session.StateStopping)
	}
	w.endTimer = time.AfterFunc(endGrace, func() {
		w.fail(errors.New("it lives on after session_end"))
	})
}

func (w *worker) readyLocked(m ipc.WorkerReady) error {
	switch {
	case w.isReady:
		return errors.New("worker_ready twice")
	case m.Protocol.Name != ipc.ProtocolName || m.Protocol.Version != ipc.ProtocolVersion:
		return fmt.Errorf("it speaks %q version %d, not %q version %d",
			m.Protocol.Name, m.Protocol.Version, ipc.ProtocolName, ipc.ProtocolVersion)
	}
	w.startTimer.Stop()
	w.ready, w.isReady = m, true
	return nil
}

// idleLocked ends the active turn, or the start-up.
func (s *Session) idleLocked(m ipc.Idle) error {
	if s.turn == nil || s.turn.id != m.Turn {
		return fmt.Errorf("idle names turn %d, which is not active", m.Turn)
	}
	s.prompt = s.log.Hidden(m.Prompt)
	if m.Unrun > 0 {
		s.appendLocked(timeline.Notice{Message: unrun(m)})
	}
	s.endLocked(timeline.Outcome(m.Outcome), m.Error, m.Prompt)
	s.moveLocked(session.StateIdle)
	if t := s.held; t != nil {
		s.held = nil
		s.beginLocked(t)
	}
	return nil
}

// unrun says how much of a turn's input was left alone: its output may not show
// where a worker stopped.
func unrun(m ipc.Idle) string {
	lines, were, cause := "lines", "were", "error"
	if m.Unrun == 1 {
		lines, were = "line", "was"
	}
	if m.Outcome == ipc.OutcomeInterrupted {
		cause = "interrupt"
	}
	return fmt.Sprintf("%d %s after the %s %s not run", m.Unrun, lines, cause, were)
}

// fail ends the worker because of what it did.
func (w *worker) fail(cause error) {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	w.failLocked(cause)
}

func (w *worker) failLocked(cause error) {
	if w.cause == nil {
		w.cause = cause
	}
	w.proc.Kill() // does not wait
}

// watch waits for the process to end and tells the session.
func (w *worker) watch() {
	for running := true; running; {
		select {
		case notice, ok := <-w.proc.Notices():
			if ok {
				w.s.Notify(notice)
			}
			running = ok
		case <-w.proc.Exited():
			running = false
		}
	}
	<-w.proc.Exited()
	w.proc.Kill() // whatever it left behind
	select {
	case <-w.proc.Gone():
	case <-time.After(w.s.o.StopGrace):
	}
	// Everything that could write is dead, so both channels end by themselves,
	// and only then is all of it known.
	heard := make(chan struct{})
	w.s.wg.Go(func() {
		w.readers.Wait()
		close(heard)
	})
	select {
	case <-heard:
	case <-time.After(lastWords):
	}
	close(w.deaf)
	_ = w.proc.Close()
	_ = w.conn.Close()
	<-heard
	w.fence.flush()
	report := w.s.ended(w)
	if onEnd := w.s.o.OnEnd; onEnd != nil {
		onEnd(w.s.name, report)
	}
	_ = removeTree(w.files) // what is left is tried again when the session is closed
	close(w.done)
}

// ended takes in that the worker is gone.
func (s *Session) ended(w *worker) timeline.GenerationEnded {
	exit := w.proc.Exit()
	s.mu.Lock()
	defer s.mu.Unlock()
	w.startTimer.Stop()
	if w.endTimer != nil {
		w.endTimer.Stop()
	}
	if w.watching != nil {
		w.watching.Stop()
	}
	for id, answer := range s.queries {
		delete(s.queries, id)
		close(answer)
	}
	report := timeline.GenerationEnded{Reason: exit.String(), Code: exit.Code, Signal: exit.Signal, PeakRSS: exit.PeakRSS}
	report.Unready = s.turn != nil && s.turn.id == 0 && w.stopping == ""
	switch {
	case w.stopping != "":
		report.Reason, report.Clean = w.stopping, true
	case w.cause != nil:
		report.Reason = "worker failed: " + w.cause.Error()
	case w.end != nil:
		report.Clean = exit.Signal == "" && w.end.Reason != ipc.EndCrash
		report.Message = w.end.Message
	}
	if remains := w.proc.Remains(); len(remains) > 0 {
		s.appendLocked(timeline.Notice{Message: fmt.Sprintf("processes that were killed and had not ended yet: %v", remains)})
	}
	if s.turn != nil && s.turn.id > 0 && !report.Clean {
		report.LastLine = s.turn.lastLine
	}
	s.endLocked(timeline.OutcomeEnded, nil, "")
	s.appendLocked(report)
	s.dropHeldLocked(timeline.OutcomeEnded)
	s.worker = nil
	s.prompt = ""
	s.moveLocked(session.StateEnded)
	return report
}

// feedLocked gives input to whoever reads the terminal, in the order of calls.
func (w *worker) feedLocked(data []byte, eof bool) {
	w.meals = append(w.meals, session.Input{Data: data, EOF: eof})
	if len(w.meals) == 1 {
		w.s.wg.Go(w.feed)
	}
}

func (w *worker) feed() {
	s := w.s
	s.mu.Lock()
	for len(w.meals) > 0 {
		meal := w.meals[0]
		s.mu.Unlock()
		err := w.proc.terminal.Feed(meal.Data, meal.EOF)
		w.active.Store(time.Now().UnixNano())
		s.mu.Lock()
		if err != nil {
			s.appendLocked(timeline.Notice{Message: fmt.Sprintf("input for the terminal was lost: %v", err)})
		}
		w.meals = w.meals[1:]
	}
	w.watchTerminal()
	s.mu.Unlock()
	// While there is more, a reader that wants it says so within microseconds: it
	// is looked for at once, a few times.
	for range eagerLooks {
		s.mu.Lock()
		more := w.watching != nil && !s.queue.empty() && len(w.meals) == 0
		s.mu.Unlock()
		if !more {
			return
		}
		w.active.Store(0)
		w.look()
	}
}

// lastLine keeps the end of the output that has no newline yet, at most maxPrompt bytes.
func lastLine(line, b []byte) []byte {
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] == '\n' {
			line, b = line[:0], b[i+1:]
			break
		}
		if len(b)-i > maxPrompt {
			line, b = line[:0], b[i:]
			break
		}
	}
	line = append(line, b...)
	return line[max(0, len(line)-maxPrompt):]
}
