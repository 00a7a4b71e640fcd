package supervisor

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/turnstone-repl/turnstone/ipc"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor/internal/confine"
	"github.com/turnstone-repl/turnstone/supervisor/internal/host"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"
)

const (
	// lastWords is how long the terminal and the channel of a dead worker are
	// read before they are closed, should something keep them open.
	lastWords = 500 * time.Millisecond

	// sendLimit is how long a turn waits for the signals of the one before, which
	// takes the stage some microseconds. Then the turn is not run, and says so.
	sendLimit = 10 * time.Second
)

// A worker is one generation: a process, its channel and its terminal. It hands the
// session's machine what comes from there, performs what that decides, and decides
// nothing itself.
//
// Four goroutines belong to it. frames and terminal read the two channels and
// deliver, in order, through the fence; watch waits for the process to end; the
// connection has its writer. All end when the process does.
type worker struct {
	s           *Session
	log         *slog.Logger
	files       string          // its private directory
	told        []string        // of its sandbox, for whoever uses the session
	missing     []session.Grant // what its sandbox was to have, and lacks
	hidden      []string        // what its sandbox hides
	unshown     []string        // what it does not show, and could
	plan        *confine.Plan   // of its sandbox; nil without one
	withheld    []string        // variables that it does not have
	private     private
	heldBy      workers.SandboxMechanism
	proc        *launched
	conn        *ipc.Conn
	fence       *fence
	readers     sync.WaitGroup // frames and terminal
	stopReading chan struct{}  // closed when arriving bytes no longer matter
	done        chan struct{}  // closed when the session knows that the worker ended

	generation uint64
	calls      *calls

	active atomic.Int64 // when the worker last said anything, in Unix nanoseconds
	slow   atomic.Bool  // look for terminal readers less often

	ward *ward // its limits of memory and processes; nil without any; set by begin

	// The rest is guarded by s.mu.
	atEnd    []func()        // to be called when it has ended
	input    []session.Input // for the terminal, the first is being fed
	watching *time.Timer     // looks for terminal readers; nil where they cannot be seen
	armed    bool            // watching is set
	pause    time.Duration   // until it looks again
	late     int             // how often it looked again for a frame that is late
}

// startWorker starts a worker process.
func (s *Session) startWorker(spec workers.Spec, given []session.Grant, generation uint64, size session.Size) (*worker, error) {
	return eachWay(spec.Sandbox, func(by workers.SandboxMechanism) (*worker, error) {
		return s.startWorkerBy(by, spec, given, generation, size)
	})
}

func (s *Session) startWorkerBy(by workers.SandboxMechanism, spec workers.Spec, given []session.Grant, generation uint64, size session.Size) (*worker, error) {
	files := filepath.Join(s.dir, fmt.Sprintf("files-%d", generation))
	if err := writeFiles(files, spec.Files); err != nil {
		return nil, err
	}
	expand := func(in []string) []string {
		out := make([]string, len(in))
		for i, a := range in {
			out[i] = strings.ReplaceAll(a, workers.FilesDir, files)
		}
		return out
	}
	sandbox, missing, gone := s.o.withGiven(&spec, given)
	spec.Sandbox = sandbox
	box, err := confinementOf(&spec, &s.o, by, s.dir, files)
	if err != nil {
		return nil, err
	}
	changes := []string{"LISTEN_FDS", "LISTEN_PID"}
	if !spec.UserTerminal {
		changes = append(changes, "TERM=dumb", host.Pager)
	}
	changes = append(changes, box.env...)
	changes = append(changes, expand(spec.Env)...)
	if !strings.ContainsFunc(files, unicode.IsSpace) {
		changes = append(changes, expand(spec.PlainEnv)...)
	}
	env := workerEnv(s.o.Env, s.o.ScrubEnv, changes, host.FoldEnv)
	env = append(env, fewerBuffers(env, s.keeper.mostMemory(spec.Limits), runtime.NumCPU())...)
	log := s.workerLog(generation)
	proc, err := s.launcher(&host.Command{
		Path: spec.Path,
		Args: expand(spec.Args),
		Env:  env,
		Dir:  spec.Dir,
		Size: host.Size(size),

		Person:      spec.UserTerminal,
		Stdin:       spec.Program.Stdin,
		PipedOutput: spec.Program.PipedOutput,

		Limits:   host.Limits{Memory: spec.Limits.Memory, Processes: s.keeper.mostTasks(spec.Limits), CPUs: spec.Limits.CPUs, Files: spec.Limits.Files, Disk: spec.Limits.Disk},
		CPUs:     s.keeper.cpus,
		Services: variable(s.o.Env, "XDG_RUNTIME_DIR"),
		Sandbox:  box.sandbox,
		Denied:   func(d host.Denial) { s.denied(generation, d) },
		Timeout:  s.o.StartTimeout,
		Logger:   log,
	})
	if err != nil {
		box.ended()
		return nil, err
	}
	var uncounted []string
	if proc.leaves != "" {
		uncounted = append(uncounted, proc.leaves)
	}
	w := &worker{
		s:           s,
		log:         log,
		files:       files,
		told:        slices.Concat(box.notices, gone, uncounted),
		missing:     missing,
		atEnd:       []func(){box.ended},
		hidden:      box.hidden,
		unshown:     box.unshown,
		plan:        box.plan,
		withheld:    box.withheld,
		private:     box.private,
		heldBy:      by,
		generation:  generation,
		calls:       newCalls(),
		proc:        proc,
		conn:        ipc.NewConn(proc.channel, ipc.FromWorker),
		stopReading: make(chan struct{}),
		done:        make(chan struct{}),
	}
	log.Info("a worker starts", "worker_pid", proc.pid, "name", spec.Name)
	w.conn.LogTo(log)
	w.fence = newFence(proc.nonce, proc.terminal.TryRead, w.text, w.frame)
	w.fence.sync = proc.terminal.Sync
	if spec.UserTerminal {
		w.fence.screen, w.fence.onScreen = proc.terminal.Screen, w.screen
	}
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
		s.m.notice("the worker runs without the stage: programs that it leaves behind may outlive the session (call supervisor.StageMain first in main)")
	}
	if !slices.Equal(w.told, s.told) { // said once, not again for each worker
		for _, told := range w.told {
			s.m.notice("%s", told)
		}
		s.told = w.told
	}
	for _, g := range w.missing {
		s.m.leaveOut(g)
	}
	told := s.m.private.told
	s.m.hidden, s.m.unshown, s.m.private = w.hidden, w.unshown, w.private
	s.m.private.told = told
	s.m.launched()
	s.keeper.keep(w)
	for _, d := range s.early {
		s.m.denied(d, session.Grant{}) // nobody is asked during a start
	}
	s.early = nil
	w.readers.Go(w.frames)
	w.readers.Go(w.terminal)
	s.wg.Go(w.watch)
	if out := w.proc.outlet; out != nil {
		s.wg.Go(func() { s.network.Serve(out) })
	}
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
		w.noteOutput()
		switch m := m.(type) {
		case ipc.CallCancel:
			w.cancel(m.ID)
			continue
		case ipc.Call:
			if m.Mark == 0 {
				w.take(m)
				continue
			}
		}
		w.fence.frame(m)
	}
}

// lost takes in that the channel ended, which says nothing about the process.
func (w *worker) lost(err error) {
	var bad *ipc.ProtocolError
	w.s.mu.Lock()
	stopping := w.s.m.isStopped()
	w.s.mu.Unlock()
	switch {
	case stopping: // the ladder closes the channel itself
	case errors.As(err, &bad):
		w.fail(bad)
	case errors.Is(err, io.EOF), errors.Is(err, os.ErrClosed):
		// The process closes it by ending, which is about to be reported, or was before
		// this read began. One that lives on cannot be reached any more.
		select {
		case <-w.proc.Exited():
		case <-w.stopReading:
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
			any, err := w.fence.text(w.stopReading)
			if any {
				w.noteOutput()
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
func (w *worker) text(stream timeline.Stream, kind timeline.TextKind, b []byte) {
	s := w.s
	s.mu.Lock()
	e := s.m.output(timeline.Text{Stream: stream, Data: b, Kind: kind}, b)
	s.unlock()
	s.log.Append(e)
}

// screen is called by the fence, in order.
func (w *worker) screen(on bool) {
	s := w.s
	s.mu.Lock()
	defer s.unlock()
	s.m.screenTaken(on)
}

// Keys types b for the program that has taken the keys of the session's terminal, see
// timeline.FullScreenChanged. ErrStale means that none has. It blocks while the program does not read, for a
// second at most; then the rest is lost, which is an error. Only a session whose Spec is a
// person's has such programs.
func (s *Session) Keys(b []byte) error {
	s.mu.Lock()
	w, taken := s.worker, s.m.taken
	s.mu.Unlock()
	if w == nil || !taken {
		return session.Errorf(session.KindStale, "no program takes keys now")
	}
	return w.proc.terminal.Keys(b)
}

// InterruptJob interrupts the job of a shell that the code has started, if that is in the
// foreground, and reports whether it is. As at any terminal, the shell and the code that waits for
// it go on.
func (s *Session) InterruptJob() bool {
	s.mu.Lock()
	w := s.worker
	s.mu.Unlock()
	return w != nil && w.proc.terminal.Lent() && w.proc.Signal(host.Interrupt, host.Foreground) == nil
}

// frame is called by the fence, in order.
func (w *worker) frame(f ipc.Message) {
	s := w.s
	switch f := f.(type) {
	case ipc.WorkerReady:
		w.ready() // before anybody can start a turn
	case ipc.Idle:
		// Before anybody can start the next turn on it.
		_ = w.proc.terminal.Restore()
		w.proc.CatchUp() // the turn's reply has its denials
		w.rests(f.Error)
	case ipc.Call:
		w.take(f)
		return
	}
	s.mu.Lock()
	e := s.m.frame(f)
	if _, ok := f.(ipc.WorkerReady); ok && s.m.cause == nil {
		w.tellLocked()
	}
	s.unlock()
	if e.Body != nil {
		s.log.Append(e)
	}
}

// perform performs one effect; s.mu is held. None waits for the worker.
func (w *worker) perform(e effect) {
	s := w.s
	switch e.do {
	case doSend:
		if err := w.conn.Send(e.message); err != nil {
			s.m.fail(fmt.Errorf("cannot send the input: %w", err))
		}
	case doInterrupt:
		w.interrupt(e.message, host.Group)
		if m := e.message.(ipc.Interrupt); m.Level > 1 {
			w.cancelTurn(m.Turn)
		}
	case doRepeat: // so that at most one is on its way to a worker that has read a frame
		if w.proc.SignalsSent() == nil {
			w.interrupt(e.message, host.Worker)
		}
	case doSignal:
		w.signal(host.Group)
	case doAwait:
		notices, err := w.proc.Refresh()
		for _, n := range notices {
			s.m.notice("%s", n)
		}
		if err != nil && !errors.Is(err, host.ErrEnded) {
			s.m.notice("the sandbox does not follow what programs outside have replaced: %v", err)
		}
		if signals := w.proc.SignalsSent(); signals != nil {
			s.wg.Go(func() { w.await(e.turn, signals) })
		} else {
			s.m.cleared(e.turn, true)
		}
	case doForget:
		if w.proc.gate != nil { // otherwise nothing is told twice by anybody but us
			_ = w.proc.Forget() // fails only when the worker has ended
		}
	case doKill:
		w.proc.Kill()
	case doPermit:
		if answer, ok := s.held[e.call]; ok {
			delete(s.held, e.call)
			answer <- verdict{e.ok, e.form}
		} else if w.proc.gate != nil {
			_ = w.proc.gate.Permit(e.call, e.ok) // a call that is gone needs no answer
		}
	case doFeed:
		w.feedLocked(e.input)
	case doLook:
		s.keeper.wake(w)
		w.watchTerminal()
	case doLookLater:
		if w.watching != nil {
			// Not at once: a program that dies of the interrupt is seen reading until it has.
			w.pause = maxPause
			w.lookLaterLocked(maxPause)
		}
	case doReply:
		r := e.message.(ipc.QueryResult)
		if answer, ok := s.queries[r.ID]; ok {
			delete(s.queries, r.ID)
			answer <- r
		}
	}
}

// interrupt sends the frame first, which names the turn, and then the signal, which
// wakes the runtime. The first goes to the whole foreground; retries go to the worker
// alone, since others would take them for new ones.
func (w *worker) interrupt(m ipc.Message, to host.Target) {
	if err := w.conn.Send(m); err != nil {
		return // the worker is on its way out; its death is reported
	}
	w.signal(to)
}

// signal interrupts a worker that understands the signal.
func (w *worker) signal(to host.Target) {
	if w.s.m.ready.Capabilities.Interrupt == ipc.InterruptBySelf {
		return
	}
	if to == host.Group {
		_ = w.proc.Signal(host.Interrupt, host.Foreground)
	}
	_ = w.proc.Signal(host.Interrupt, to)
}

// await waits for the signals of the turn before t: what the worker reads of t finds
// them there, and none comes later.
func (w *worker) await(t *turn, signals <-chan struct{}) {
	timer := time.NewTimer(sendLimit)
	defer timer.Stop()
	sent := false
	select {
	case <-signals:
		sent = true
	case <-w.proc.Exited():
		return // which ends the turn
	case <-timer.C:
	}
	w.s.mu.Lock()
	defer w.s.unlock()
	w.s.m.cleared(t, sent)
}

// fail ends the worker for a fault.
func (w *worker) fail(cause error) {
	w.s.mu.Lock()
	defer w.s.unlock()
	w.s.m.fail(cause)
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
	drained := make(chan struct{})
	w.s.wg.Go(func() {
		w.readers.Wait()
		close(drained)
	})
	select {
	case <-drained:
	case <-time.After(lastWords):
	}
	close(w.stopReading)
	w.calls.end()
	_ = w.proc.Close()
	_ = w.conn.Close()
	<-drained
	w.fence.flush()
	w.s.keeper.release(w)
	report := w.s.ended(w)
	for _, tell := range w.atEnd { // which nobody adds to any more
		tell()
	}
	logEnd(w.log, report)
	_ = removeTree(w.files) // closing the session tries the rest again
	close(w.done)
}

// whenEnded has a function called when the worker has ended, or at once if it has.
func (w *worker) whenEnded(tell func()) {
	w.s.mu.Lock()
	over := w.s.worker != w
	if !over {
		w.atEnd = append(w.atEnd, tell)
	}
	w.s.mu.Unlock()
	if over {
		tell()
	}
}

// ended takes in that the worker is gone.
func (s *Session) ended(w *worker) timeline.WorkerExited {
	exit := w.proc.Exit()
	s.mu.Lock()
	defer s.unlock()
	if w.watching != nil {
		w.watching.Stop()
	}
	for id, answer := range s.queries {
		delete(s.queries, id)
		close(answer)
	}
	if remains := w.proc.Remains(); len(remains) > 0 {
		s.m.notice("processes that were killed and had not ended yet: %v", remains)
	}
	s.worker = nil
	return s.m.exited(timeline.WorkerExited{Reason: exit.String(), ExitCode: exit.Code, Signal: exit.Signal, PeakRSSBytes: exit.PeakRSS})
}

// feedLocked gives input to the terminal's readers, in the order of calls.
func (w *worker) feedLocked(in session.Input) {
	w.input = append(w.input, in)
	if len(w.input) == 1 {
		w.s.wg.Go(w.feed)
	}
}

func (w *worker) feed() {
	s := w.s
	s.mu.Lock()
	for len(w.input) > 0 {
		in := w.input[0]
		s.mu.Unlock()
		err := w.proc.terminal.Feed(in.Data, in.EOF)
		w.active.Store(time.Now().UnixNano())
		s.mu.Lock()
		if err != nil {
			s.m.notice("input for the terminal was lost: %v", err)
		}
		w.input = w.input[1:]
	}
	w.watchTerminal()
	s.mu.Unlock()
	// While there is more, a reader that wants it says so within microseconds: it
	// is looked for at once, a few times.
	for range eagerLooks {
		s.mu.Lock()
		more := w.watching != nil && !s.m.queue.empty() && len(w.input) == 0
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
