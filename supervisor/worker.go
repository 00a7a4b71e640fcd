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
	// drainTimeout is how long the terminal and the channel of a dead worker are
	// read before they are closed, should something keep them open.
	drainTimeout = 500 * time.Millisecond

	// signalTimeout is how long a turn waits for the signals of the one before, which
	// takes the stage some microseconds. Then the turn is not run, and says so.
	signalTimeout = 10 * time.Second
)

// A worker is one generation: a process, its channel and its terminal. It hands the
// session's machine what comes from there, performs what that decides, and decides
// nothing itself.
//
// Four goroutines belong to it. frames and terminal read the two channels and
// deliver, in order, through the fence; watch waits for the process to end; the
// connection has its writer. All end when the process does.
type worker struct {
	s                 *Session
	log               *slog.Logger
	filesDir          string          // its private directory
	sandboxNotices    []string        // of its sandbox, for whoever uses the session
	missingGrants     []session.Grant // what its sandbox was to have, and lacks
	hiddenPaths       []string        // what its sandbox hides
	unshownPaths      []string        // what it does not show, and could
	plan              *confine.Plan   // of its sandbox; nil without one
	withheldVariables []string        // variables that it does not have
	privateDirs       privateDirs
	mechanism         workers.SandboxMechanism
	proc              *launchResult
	conn              *ipc.Conn
	merger            *streamMerger
	readers           sync.WaitGroup // frames and terminal
	stopReading       chan struct{}  // closed when arriving bytes no longer matter
	done              chan struct{}  // closed when the session knows that the worker ended

	generation uint64
	calls      *workerCalls

	lastOutput  atomic.Int64 // when the worker last said anything, in Unix nanoseconds
	scansSlowly atomic.Bool  // look for terminal readers less often

	limitedWorker *limitedWorker // its limits of memory and processes; nil without any; set by begin

	// The rest is guarded by s.mu.
	onEnd          []func()        // to be called when it has ended
	terminalInput  []session.Input // for the terminal, the first is being fed
	readerTimer    *time.Timer     // looks for terminal readers; nil where they cannot be seen
	readerTimerSet bool            // watching is set
	scanInterval   time.Duration   // until it looks again
	lateScans      int             // how often it looked again for a frame that is late
}

// startWorker starts a worker process.
func (s *Session) startWorker(spec workers.Spec, given []session.Grant, generation uint64, size session.Size) (*worker, error) {
	return eachMechanism(spec.Sandbox, func(by workers.SandboxMechanism) (*worker, error) {
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
	sandbox, missing, gone := s.o.sandboxWithGrants(&spec, given)
	spec.Sandbox = sandbox
	box, err := newConfinement(&spec, &s.o, by, s.dir, files)
	if err != nil {
		return nil, err
	}
	changes := []string{"LISTEN_FDS", "LISTEN_PID"}
	if !spec.UserTerminal {
		changes = append(changes, "TERM=dumb", host.PagerEnv)
	}
	changes = append(changes, box.env...)
	changes = append(changes, expand(spec.Env)...)
	if !strings.ContainsFunc(files, unicode.IsSpace) {
		changes = append(changes, expand(spec.PlainEnv)...)
	}
	env := workerEnv(s.o.Env, s.o.ScrubEnv, changes, host.CaseInsensitiveEnv)
	env = append(env, openBLASEnv(env, s.limitEnforcer.memoryLimit(spec.Limits), runtime.NumCPU())...)
	log := s.workerLog(generation)
	proc, err := s.launcher(&host.Command{
		Path: spec.Path,
		Args: expand(spec.Args),
		Env:  env,
		Dir:  spec.Dir,
		Size: host.Size(size),

		Interactive: spec.UserTerminal,
		Stdin:       spec.Program.Stdin,
		PipedOutput: spec.Program.PipedOutput,

		Limits:     host.Limits{Memory: spec.Limits.Memory, Processes: s.limitEnforcer.taskLimit(spec.Limits), CPUs: spec.Limits.CPUs, Files: spec.Limits.Files, Disk: spec.Limits.Disk},
		CPUs:       s.limitEnforcer.cpus,
		RuntimeDir: envValue(s.o.Env, "XDG_RUNTIME_DIR"),
		Sandbox:    box.sandbox,
		OnDenial:   func(d host.Denial) { s.handleDenial(generation, d) },
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
		s:                 s,
		log:               log,
		filesDir:          files,
		sandboxNotices:    slices.Concat(box.notices, gone, uncounted),
		missingGrants:     missing,
		onEnd:             []func(){box.release},
		hiddenPaths:       box.hiddenPaths,
		unshownPaths:      box.unshownPaths,
		plan:              box.plan,
		withheldVariables: box.withheldVariables,
		privateDirs:       box.privateDirs,
		mechanism:         by,
		generation:        generation,
		calls:             newWorkerCalls(),
		proc:              proc,
		conn:              ipc.NewConn(proc.channel, ipc.FromWorker),
		stopReading:       make(chan struct{}),
		done:              make(chan struct{}),
	}
	log.Info("a worker starts", "worker_pid", proc.pid, "name", spec.Name)
	w.conn.LogTo(log)
	w.merger = newStreamMerger(proc.nonce, proc.terminal.TryRead, w.handleText, w.handleFrame)
	w.merger.syncTerminal = proc.terminal.SyncOutput
	if spec.UserTerminal {
		w.merger.isScreenOn, w.merger.onScreenChange = proc.terminal.IsRawMode, w.handleScreen
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

// startGoroutines starts the worker's goroutines; s.mu is held.
func (w *worker) startGoroutines() {
	s := w.s
	if !w.proc.monitored {
		s.m.recordNotice("the worker runs without the stage: programs that it leaves behind may outlive the session (call supervisor.StageMain first in main)")
	}
	if !slices.Equal(w.sandboxNotices, s.reportedNotices) { // said once, not again for each worker
		for _, told := range w.sandboxNotices {
			s.m.recordNotice("%s", told)
		}
		s.reportedNotices = w.sandboxNotices
	}
	for _, g := range w.missingGrants {
		s.m.markMissing(g)
	}
	told := s.m.privateDirs.reportedPaths
	s.m.hiddenPaths, s.m.unshownPaths, s.m.privateDirs = w.hiddenPaths, w.unshownPaths, w.privateDirs
	s.m.privateDirs.reportedPaths = told
	s.m.handleLaunched()
	s.limitEnforcer.add(w)
	for _, d := range s.earlyDenials {
		s.m.handleDenial(d, session.Grant{}) // nobody is asked during a start
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

// handleChannelEnd takes in that the channel ended, which says nothing about the process.
func (w *worker) handleChannelEnd(err error) {
	var bad *ipc.ProtocolError
	w.s.mu.Lock()
	stopping := w.s.m.isStopping()
	w.s.mu.Unlock()
	switch {
	case stopping: // the ladder closes the channel itself
	case errors.As(err, &bad):
		w.failWith(bad)
	case errors.Is(err, io.EOF), errors.Is(err, os.ErrClosed):
		// The process closes it by ending, which is about to be reported, or was before
		// this read began. One that lives on cannot be reached any more.
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
			any, err := w.merger.readText(w.stopReading)
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

// handleText is called by the fence, in order.
func (w *worker) handleText(stream timeline.Stream, kind timeline.TextKind, b []byte) {
	s := w.s
	s.mu.Lock()
	e := s.m.outputEvent(timeline.Text{Stream: stream, Data: b, Kind: kind}, b)
	s.unlock()
	s.log.Append(e)
}

// handleScreen is called by the fence, in order.
func (w *worker) handleScreen(on bool) {
	s := w.s
	s.mu.Lock()
	defer s.unlock()
	s.m.handleScreen(on)
}

// Keys types b for the program that has taken the keys of the session's terminal, see
// timeline.FullScreenChanged. ErrStale means that none has. It blocks while the program does not read, for a
// second at most; then the rest is lost, which is an error. Only a session whose Spec is a
// person's has such programs.
func (s *Session) Keys(b []byte) error {
	s.mu.Lock()
	w, taken := s.worker, s.m.keysTaken
	s.mu.Unlock()
	if w == nil || !taken {
		return session.Errorf(session.KindStale, "no program takes keys now")
	}
	return w.proc.terminal.TypeKeys(b)
}

// InterruptJob interrupts the job of a shell that the code has started, if that is in the
// foreground, and reports whether it is. As at any terminal, the shell and the code that waits for
// it go on.
func (s *Session) InterruptJob() bool {
	s.mu.Lock()
	w := s.worker
	s.mu.Unlock()
	return w != nil && w.proc.terminal.HasForegroundJob() && w.proc.Signal(host.Interrupt, host.Foreground) == nil
}

// handleFrame is called by the fence, in order.
func (w *worker) handleFrame(f ipc.Message) {
	s := w.s
	switch f := f.(type) {
	case ipc.WorkerReady:
		w.applyInitialLimits() // before anybody can start a turn
	case ipc.Idle:
		// Before anybody can start the next turn on it.
		_ = w.proc.terminal.Restore()
		w.proc.DrainDenials() // the turn's reply has its denials
		w.checkLimitsAtTurnEnd(f.Error)
	case ipc.Call:
		w.startCall(f)
		return
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

// performEffect performs one effect; s.mu is held. None waits for the worker.
func (w *worker) performEffect(e machineEffect) {
	s := w.s
	switch e.kind {
	case doSend:
		if err := w.conn.Send(e.message); err != nil {
			s.m.failWorker(fmt.Errorf("cannot send the input: %w", err))
		}
	case doInterrupt:
		w.sendInterrupt(e.message, host.Group)
		if m := e.message.(ipc.Interrupt); m.Level > 1 {
			w.cancelTurnCalls(m.Turn)
		}
	case doRepeatInterrupt: // so that at most one is on its way to a worker that has read a frame
		if w.proc.SignalsSent() == nil {
			w.sendInterrupt(e.message, host.Worker)
		}
	case doSignal:
		w.sendSignal(host.Group)
	case doAwaitSignals:
		notices, err := w.proc.RefreshSandbox()
		for _, n := range notices {
			s.m.recordNotice("%s", n)
		}
		if err != nil && !errors.Is(err, host.ErrEnded) {
			s.m.recordNotice("the sandbox does not follow what programs outside have replaced: %v", err)
		}
		if signals := w.proc.SignalsSent(); signals != nil {
			s.wg.Go(func() { w.awaitSignals(e.turn, signals) })
		} else {
			s.m.handleSignalsSent(e.turn, true)
		}
	case doResetDenials:
		if w.proc.control != nil { // otherwise nothing is told twice by anybody but us
			_ = w.proc.ForgetDenials() // fails only when the worker has ended
		}
	case doKill:
		w.proc.Kill()
	case doAnswerCall:
		if answer, ok := s.pendingDecisions[e.call]; ok {
			delete(s.pendingDecisions, e.call)
			answer <- userDecision{e.ok, e.form}
		} else if w.proc.control != nil {
			_ = w.proc.control.Permit(e.call, e.ok) // a call that is gone needs no answer
		}
	case doFeedTerminal:
		w.queueInputLocked(e.input)
	case doScanReaders:
		s.limitEnforcer.scheduleMeasure(w)
		w.startReaderScan()
	case doScanReadersLater:
		if w.readerTimer != nil {
			// Not at once: a program that dies of the interrupt is seen reading until it has.
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

// sendInterrupt sends the frame first, which names the turn, and then the signal, which
// wakes the runtime. The first goes to the whole foreground; retries go to the worker
// alone, since others would take them for new ones.
func (w *worker) sendInterrupt(m ipc.Message, to host.Target) {
	if err := w.conn.Send(m); err != nil {
		return // the worker is on its way out; its death is reported
	}
	w.sendSignal(to)
}

// sendSignal interrupts a worker that understands the signal.
func (w *worker) sendSignal(to host.Target) {
	if w.s.m.ready.Capabilities.Interrupt == ipc.InterruptBySelf {
		return
	}
	if to == host.Group {
		_ = w.proc.Signal(host.Interrupt, host.Foreground)
	}
	_ = w.proc.Signal(host.Interrupt, to)
}

// awaitSignals waits for the signals of the turn before t: what the worker reads of t finds
// them there, and none comes later.
func (w *worker) awaitSignals(t *turn, signals <-chan struct{}) {
	timer := time.NewTimer(signalTimeout)
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
	w.s.m.handleSignalsSent(t, sent)
}

// failWith ends the worker for a fault.
func (w *worker) failWith(cause error) {
	w.s.mu.Lock()
	defer w.s.unlock()
	w.s.m.failWorker(cause)
}

// watchProcess waits for the process to end and tells the session.
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
	w.proc.Kill() // whatever it left behind
	select {
	case <-w.proc.Done():
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
	for _, tell := range w.onEnd { // which nobody adds to any more
		tell()
	}
	logWorkerEnd(w.log, report)
	_ = removeTree(w.filesDir) // closing the session tries the rest again
	close(w.done)
}

// callWhenEnded has a function called when the worker has ended, or at once if it has.
func (w *worker) callWhenEnded(tell func()) {
	w.s.mu.Lock()
	over := w.s.worker != w
	if !over {
		w.onEnd = append(w.onEnd, tell)
	}
	w.s.mu.Unlock()
	if over {
		tell()
	}
}

// handleWorkerEnd takes in that the worker is gone.
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
		s.m.recordNotice("processes that were killed and had not ended yet: %v", remains)
	}
	s.worker = nil
	return s.m.handleExit(timeline.WorkerExited{Reason: exit.String(), ExitCode: exit.Code, Signal: exit.Signal, PeakRSSBytes: exit.PeakRSS})
}

// queueInputLocked gives input to the terminal's readers, in the order of calls.
func (w *worker) queueInputLocked(in session.Input) {
	w.terminalInput = append(w.terminalInput, in)
	if len(w.terminalInput) == 1 {
		w.s.wg.Go(w.feedTerminal)
	}
}

func (w *worker) feedTerminal() {
	s := w.s
	s.mu.Lock()
	for len(w.terminalInput) > 0 {
		in := w.terminalInput[0]
		s.mu.Unlock()
		err := w.proc.terminal.WriteInput(in.Data, in.EOF)
		w.lastOutput.Store(time.Now().UnixNano())
		s.mu.Lock()
		if err != nil {
			s.m.recordNotice("input for the terminal was lost: %v", err)
		}
		w.terminalInput = w.terminalInput[1:]
	}
	w.startReaderScan()
	s.mu.Unlock()
	// While there is more, a reader that wants it says so within microseconds: it
	// is looked for at once, a few times.
	for range maxEagerScans {
		s.mu.Lock()
		more := w.readerTimer != nil && !s.m.queue.isEmpty() && len(w.terminalInput) == 0
		s.mu.Unlock()
		if !more {
			return
		}
		w.lastOutput.Store(0)
		w.scanReaders()
	}
}

// appendLastLine keeps the end of the output that has no newline yet, at most maxPromptBytes bytes.
func appendLastLine(line, b []byte) []byte {
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] == '\n' {
			line, b = line[:0], b[i+1:]
			break
		}
		if len(b)-i > maxPromptBytes {
			line, b = line[:0], b[i:]
			break
		}
	}
	line = append(line, b...)
	return line[max(0, len(line)-maxPromptBytes):]
}
