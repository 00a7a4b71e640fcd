package supervisor

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/turnstone-repl/turnstone/internal/environ"
	"github.com/turnstone-repl/turnstone/internal/userdirs"
	"github.com/turnstone-repl/turnstone/ipc"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor/internal/launch"
	"github.com/turnstone-repl/turnstone/supervisor/internal/monitorproto"
	"github.com/turnstone-repl/turnstone/supervisor/internal/proctree"
	"github.com/turnstone-repl/turnstone/supervisor/internal/pty"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"
)

// drainTimeout is how long the terminal and the channel of an exited worker are read before
// they are closed, in case something keeps them open.
const drainTimeout = 500 * time.Millisecond

// A worker is a generation of a session: a process, its channel and its terminal. It passes their
// input to the session's machine and performs the machine's effects. It decides nothing itself.
//
// It has four goroutines. readFrames and readTerminal read the two channels and deliver in order
// through the stream merger. watchProcess waits for the process to exit. The connection has a
// writer. All end when the process does.
type worker struct {
	s              *Session
	log            *slog.Logger
	filesDir       string          // its private directory
	sandboxNotices []string        // notices about its sandbox, for the session's users
	missingGrants  []session.Grant // grants that its sandbox lacks
	sandboxView
	mechanism   sandbox.Mechanism
	proc        *launchResult
	conn        *ipc.Conn
	merger      *streamMerger
	readers     sync.WaitGroup // counts readFrames and readTerminal
	stopReading chan struct{}  // closed when arriving bytes no longer matter
	done        chan struct{}  // closed when the session knows that the worker ended

	generation uint64
	codeObjects

	display *display
	typing  workerTyping

	lastOutput  atomic.Int64 // time of the worker's last output, in Unix nanoseconds
	scansSlowly atomic.Bool  // look for terminal readers less often

	limitedWorker *limitedWorker // its memory and process limits; nil without limits; set by startGoroutines

	// The rest is guarded by s.mu.
	onEnd          []func()      // called when the worker has ended
	readerTimer    *time.Timer   // scans for terminal readers; nil where they cannot be detected
	readerTimerSet bool          // readerTimer is set
	scanInterval   time.Duration // time until the next scan
	lateScans      int           // scans repeated because of a late frame
}

// codeObjects holds what the code of a worker has outside of its turns.
type codeObjects struct {
	calls *workerCalls
	comms *commTable // guarded by Session.mu
}

// startWorker starts a worker process.
func (s *Session) startWorker(spec workers.Spec, grants []session.Grant, generation uint64, size session.Size) (*worker, error) {
	return eachMechanism(spec.Sandbox, func(by sandbox.Mechanism) (*worker, error) {
		return s.startWorkerBy(by, spec, grants, generation, size)
	})
}

func (s *Session) startWorkerBy(by sandbox.Mechanism, spec workers.Spec, grants []session.Grant, generation uint64, size session.Size) (*worker, error) {
	files := filepath.Join(s.dir, fmt.Sprintf("files-%d", generation))
	if err := writeFiles(files, spec.Files); err != nil {
		return nil, err
	}
	policy, missing, grantNotices := s.o.sandboxWithGrants(&spec, grants)
	spec.Sandbox = policy
	box, err := newConfinement(&spec, &s.o, by, s.dir, files)
	if err != nil {
		return nil, err
	}
	log := s.workerLog(generation)
	proc, err := s.launcher(&launch.StartConfig{
		Path: spec.Path,
		Args: expandFilesDir(spec.Args, files),
		Env:  s.newWorkerEnv(&spec, box.env, files),
		Dir:  spec.Dir,
		Size: pty.TerminalSize(size),

		Interactive: spec.UserTerminal || spec.Term != "",
		Stdin:       spec.Program.Stdin,
		PipedOutput: spec.Program.PipedOutput,

		Limits:     proctree.ProcessLimits{Memory: spec.Limits.Memory, Processes: s.limitEnforcer.taskLimit(spec.Limits), CPUs: spec.Limits.CPUs, Files: spec.Limits.Files, Disk: spec.Limits.Disk},
		CPUs:       s.limitEnforcer.cpus,
		RuntimeDir: userdirs.Runtime(environ.Getenv(s.o.Env)),
		Sandbox:    box.sandbox,
		OnDenial:   func(d monitorproto.Denial) { s.handleDenial(generation, d) },
		Timeout:    s.o.StartTimeout,
		Logger:     log,
	})
	if err != nil {
		box.release()
		return nil, err
	}
	var uncounted []string
	if proc.uncountedNote != "" {
		uncounted = append(uncounted, proc.uncountedNote)
	}
	w := &worker{
		s:              s,
		log:            log,
		filesDir:       files,
		sandboxNotices: slices.Concat(box.notices, grantNotices, uncounted),
		missingGrants:  missing,
		onEnd:          []func(){box.release},
		sandboxView:    box.sandboxView,
		mechanism:      by,
		generation:     generation,
		codeObjects:    codeObjects{newWorkerCalls(), newCommTable(generation)},
		proc:           proc,
		conn:           ipc.NewConn(proc.channel, ipc.FromWorker),
		stopReading:    make(chan struct{}),
		done:           make(chan struct{}),
	}
	log.Info("worker starting", "worker_pid", proc.pid, "name", spec.Name)
	w.conn.LogTo(log)
	w.merger = newStreamMerger(proc.nonce, proc.terminal.TryRead, w.handleText, w.handleFrame)
	w.merger.syncTerminal = proc.terminal.SyncOutput
	answer := w.answerQuery
	switch {
	case spec.UserTerminal:
		w.merger.isScreenOn, w.merger.onScreenChange = proc.terminal.IsRawMode, w.handleScreen
		answer = func([]byte) {} // the user's own terminal answers
	case spec.Term != "":
		w.merger.isScreenOn, w.merger.onScreenChange = proc.terminal.IsRawMode, func(bool) {}
	}
	w.display = newDisplay(pty.TerminalSize(size), proc.terminal.ReturnsOnNewline, answer)
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

// startGoroutines reports the launched worker to the machine and starts its goroutines; s.mu is
// held.
func (w *worker) startGoroutines() {
	s := w.s
	if !w.proc.monitored {
		s.m.recordNotice("the worker runs without the monitor: programs that it leaves behind may outlive the session (call supervisor.MonitorMain first in main)")
	}
	if !slices.Equal(w.sandboxNotices, s.reportedNotices) { // recorded once, not for each worker
		for _, notice := range w.sandboxNotices {
			s.m.recordNotice("%s", notice)
		}
		s.reportedNotices = w.sandboxNotices
	}
	for _, g := range w.missingGrants {
		s.m.markMissing(g)
	}
	reported := s.m.privateDirs.reportedPaths
	s.m.hiddenPaths, s.m.unshownPaths, s.m.privateDirs = w.hiddenPaths, w.unshownPaths, w.privateDirs
	s.m.privateDirs.reportedPaths = reported
	s.m.handleLaunched()
	s.limitEnforcer.add(w)
	for _, d := range s.earlyDenials {
		s.m.handleDenial(d, session.Grant{}) // no user is asked during a start
	}
	s.earlyDenials = nil
	w.readers.Go(w.readFrames)
	w.readers.Go(w.readTerminal)
	s.wg.Go(w.watchProcess)
	if out := w.proc.egressConn; out != nil {
		s.wg.Go(func() { s.egressPolicy.Serve(out) })
	}
	if w.proc.readers != nil {
		w.readerTimerSet, w.scanInterval = true, firstScanDelay
		w.readerTimer = time.AfterFunc(firstScanDelay, w.scanReaders)
	}
}

// readFrames reads the channel until it ends.
func (w *worker) readFrames() {
	for {
		m, err := w.conn.Receive()
		if err != nil {
			w.handleChannelEnd(err)
			return
		}
		w.noteOutput()
		switch m := m.(type) {
		case ipc.CallCancel:
			w.cancelCallByID(m.ID)
			continue
		case ipc.Call:
			if m.Mark == 0 {
				w.startCall(m)
				continue
			}
		}
		w.merger.mergeFrame(m)
	}
}

// handleChannelEnd handles the end of the channel, which says nothing about the process.
func (w *worker) handleChannelEnd(err error) {
	var bad *ipc.ProtocolError
	w.s.mu.Lock()
	stopping := w.s.m.isStopping()
	w.s.mu.Unlock()
	switch {
	case stopping: // the shutdown escalation closes the channel itself
	case errors.As(err, &bad):
		w.failWith(bad)
	case errors.Is(err, io.EOF), errors.Is(err, os.ErrClosed):
		// Usually the process closed it by exiting, which is about to be reported or was reported
		// before this read. A worker that stays alive without a channel is unreachable.
		select {
		case <-w.proc.Exited():
		case <-w.stopReading:
		case <-time.After(w.s.o.StopGrace):
			w.failWith(errors.New("it closed its channel"))
		}
	default:
		w.failWith(fmt.Errorf("its channel broke: %w", err))
	}
}

// readTerminal reads the terminal until it ends.
func (w *worker) readTerminal() {
	for {
		var end error
		err := w.proc.terminal.AwaitOutput(func() bool {
			hasText, err := w.merger.readText(w.stopReading)
			if hasText {
				w.noteOutput()
			}
			end = err
			return hasText || err != nil
		})
		if err != nil || end != nil {
			return
		}
	}
}

// handleText records text. The stream merger calls it in order.
func (w *worker) handleText(b timeline.Text) {
	s := w.s
	w.display.write(b.Data)
	s.mu.Lock()
	e := s.m.outputEvent(b, b.Data)
	s.unlock()
	s.log.Append(e)
}

// handleScreen handles a change of the screen. The stream merger calls it in order.
func (w *worker) handleScreen(on bool) {
	s := w.s
	s.mu.Lock()
	defer s.unlock()
	s.m.handleScreen(on)
}

// Keys types b for the program that has taken the keys of the session's terminal; see
// timeline.FullScreenChanged. The error is of kind session.KindStale if no program has. If the
// program does not read, Keys blocks for a second at most; then the rest is lost, which is an
// error. Only a session whose Spec.UserTerminal is set has such programs.
func (s *Session) Keys(b []byte) error {
	s.mu.Lock()
	w, taken := s.worker, s.m.keysTaken
	s.mu.Unlock()
	if w == nil || !taken {
		return session.Errorf(session.KindStale, "no program takes the terminal's keys now")
	}
	return w.proc.terminal.TypeKeys(b)
}

// InterruptJob interrupts the job of a shell that the code has started, if it is in the foreground,
// and reports whether it is. As at any terminal, the shell and the code that waits for it continue.
func (s *Session) InterruptJob() bool {
	s.mu.Lock()
	w := s.worker
	s.mu.Unlock()
	return w != nil && w.proc.terminal.HasForegroundJob() && w.proc.Signal(monitorproto.Interrupt, monitorproto.Foreground) == nil
}

// handleFrame handles a frame. The stream merger calls it in order.
func (w *worker) handleFrame(f ipc.Message) {
	s := w.s
	switch f := f.(type) {
	case ipc.WorkerReady:
		w.applyInitialLimits() // before any client can start a turn
	case ipc.Idle:
		// Before any client can start the next turn on it.
		w.endTyping()
		_ = w.proc.terminal.Restore()
		w.proc.DrainDenials() // the turn's reply has its denials
		w.checkLimitsAtTurnEnd(f.Error)
	case ipc.Output: // large text of the runtime itself
		w.display.write(f.Data)
	case ipc.Call:
		w.startCall(f)
		return
	case ipc.Display:
		if comm, ok := f.Data[commType]; ok {
			w.applyComm(comm)
			return
		}
	}
	s.mu.Lock()
	e := s.m.handleFrame(f)
	if _, ok := f.(ipc.WorkerReady); ok && s.m.fault == nil {
		w.sendFunctionsLocked()
	}
	s.unlock()
	if e.Body != nil {
		s.log.Append(e)
	}
}

// performEffect performs one effect; s.mu is held. No effect waits for the worker.
func (w *worker) performEffect(e machineEffect) {
	s := w.s
	switch e.kind {
	case doSend:
		if err := w.conn.Send(e.message); err != nil {
			s.m.failWorker(fmt.Errorf("cannot send the input: %w", err))
		}
	case doInterrupt:
		w.stopTypingLocked()
		w.sendInterrupt(e.message, monitorproto.Group)
		if m := e.message.(ipc.Interrupt); m.Level > 1 {
			w.cancelTurnCalls(m.Turn)
			w.endReadersLocked()
		}
	case doRepeatInterrupt: // at most one signal is in flight to a worker that has read a frame
		if w.proc.SignalsSent() == nil {
			w.sendInterrupt(e.message, monitorproto.Worker)
		}
	case doSignal:
		w.sendSignal(monitorproto.Group)
	case doAwaitSignals:
		notices, err := w.proc.RefreshSandbox()
		for _, n := range notices {
			s.m.recordNotice("%s", n)
		}
		if err != nil && !errors.Is(err, monitorproto.ErrEnded) {
			s.m.recordNotice("the sandbox may miss files that programs outside it replaced: %v", err)
		}
		if signals := w.proc.SignalsSent(); signals != nil {
			s.wg.Go(func() { w.awaitSignals(e.turn, signals) })
		} else {
			s.m.handleSignalsSent(e.turn, true)
		}
	case doResetDenials:
		if w.proc.control != nil { // otherwise only this process reports denials
			_ = w.proc.ForgetDenials() // fails only when the worker has ended
		}
	case doKill:
		w.proc.Kill()
	case doAnswerCall:
		if answer, ok := s.pendingDecisions[e.call]; ok {
			delete(s.pendingDecisions, e.call)
			answer <- userDecision{e.ok, e.form}
		} else if w.proc.control != nil {
			_ = w.proc.control.AnswerCall(e.call, e.ok) // a call that has ended needs no answer
		}
	case doType:
		w.queueInputLocked(e.typed)
	case doScanReaders:
		s.limitEnforcer.scheduleMeasure(w)
		w.startReaderScan()
	case doScanReadersLater:
		if w.readerTimer != nil {
			// Not at once: a program that the interrupt kills is seen reading until it has exited.
			w.scanInterval = maxScanInterval
			w.scheduleScanLocked(maxScanInterval)
		}
	case doAnswerQuery:
		r := e.message.(ipc.QueryResult)
		if answer, ok := s.queries[r.ID]; ok {
			delete(s.queries, r.ID)
			answer <- r
		}
	}
}

// sendInterrupt sends the frame, which names the turn, and then the signal, which wakes the
// runtime. The first signal goes to the whole foreground. Retries go to the worker alone, since
// other processes would take them for new interrupts.
func (w *worker) sendInterrupt(m ipc.Message, to monitorproto.Target) {
	if err := w.conn.Send(m); err != nil {
		return // the worker is ending; its exit is reported
	}
	w.sendSignal(to)
}

// sendSignal sends the interrupt signal to a worker that handles it.
func (w *worker) sendSignal(to monitorproto.Target) {
	if w.s.m.ready.Capabilities.Interrupt == ipc.InterruptBySelf {
		return
	}
	if to == monitorproto.Group {
		_ = w.proc.Signal(monitorproto.Interrupt, monitorproto.Foreground)
	}
	_ = w.proc.Signal(monitorproto.Interrupt, to)
}

// awaitSignals waits until the signals of the turn before t are sent. They then arrive before the
// worker reads anything of t, and none arrives later.
//
// The monitor confirms a signal after kill has returned. From then on the signal is pending. It is
// delivered before the worker returns from the system call that reads the next frame.
//
// The worker cannot decide itself which turn a signal belongs to. A decision by time delays each
// turn after an interrupt, and fails on a slow machine. Counting fails, because signals that arrive
// together are merged into one. The supervisor cannot send the signals itself either: it is not the
// parent, so the pid may belong to another process.
func (w *worker) awaitSignals(t *turn, signals <-chan struct{}) {
	timer := time.NewTimer(signalTimeout)
	defer timer.Stop()
	sent := false
	select {
	case <-signals:
		sent = true
	case <-w.proc.Exited():
		return // the exit ends the turn
	case <-timer.C:
	}
	w.s.mu.Lock()
	defer w.s.unlock()
	w.s.m.handleSignalsSent(t, sent)
}

// failWith kills the worker because of a fault.
func (w *worker) failWith(cause error) {
	w.s.mu.Lock()
	defer w.s.unlock()
	w.s.m.failWorker(cause)
}

// watchProcess waits for the process to exit and reports that to the session.
func (w *worker) watchProcess() {
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
	w.proc.Kill() // everything that it left behind
	select {
	case <-w.proc.Done():
	case <-time.After(w.s.o.StopGrace):
	}
	// Everything that could write is dead, so both channels end on their own. Only then is all of
	// the output known.
	drained := make(chan struct{})
	w.s.wg.Go(func() {
		w.readers.Wait()
		close(drained)
	})
	select {
	case <-drained:
	case <-time.After(drainTimeout):
	}
	close(w.stopReading)
	w.calls.cancelAll()
	_ = w.proc.Close()
	_ = w.conn.Close()
	<-drained
	w.merger.flush()
	w.s.limitEnforcer.remove(w)
	report := w.s.handleWorkerEnd(w)
	for _, f := range w.onEnd { // complete, because s.worker is nil now
		f()
	}
	logWorkerEnd(w.log, report)
	_ = removeTree(w.filesDir) // closing the session retries the rest
	close(w.done)
}

// callWhenEnded arranges for f to be called when the worker has ended, or calls it at once if it
// has.
func (w *worker) callWhenEnded(f func()) {
	w.s.mu.Lock()
	over := w.s.worker != w
	if !over {
		w.onEnd = append(w.onEnd, f)
	}
	w.s.mu.Unlock()
	if over {
		f()
	}
}

// handleWorkerEnd reports to the machine that the worker has ended.
func (s *Session) handleWorkerEnd(w *worker) timeline.WorkerExited {
	exit := w.proc.Exit()
	s.mu.Lock()
	defer s.unlock()
	if w.readerTimer != nil {
		w.readerTimer.Stop()
	}
	for id, answer := range s.queries {
		delete(s.queries, id)
		close(answer)
	}
	if remains := w.proc.Survivors(); len(remains) > 0 {
		s.m.recordNotice("processes were killed but have not exited yet: %v", remains)
	}
	s.worker = nil
	return s.m.handleExit(timeline.WorkerExited{Reason: exit.String(), ExitCode: exit.Code, Signal: exit.Signal, PeakRSSBytes: exit.PeakRSS})
}
