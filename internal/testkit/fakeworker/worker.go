package fakeworker

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
	"github.com/turnstone-repl/turnstone/ipc"
)

// A fakeWorker is the state of a fake worker's process. The main goroutine runs turns; others receive
// frames and signals.
type fakeWorker struct {
	in             *ipc.Conn // for receiving
	nonce          string
	mergesText     bool
	query          bool
	functions      bool
	interruptsSelf bool
	starts         chan ipc.TurnStart // closed when no more turns can come
	shutdown       chan struct{}      // closed by a shutdown

	// sending is locked while a frame and its marker, or a piece of text, is written. It guards the
	// order of the two streams, so I/O under it is intended.
	sending sync.Mutex
	out     *os.File // frames
	tty     *os.File // text and markers: a private duplicate of the terminal
	mark    uint64   // the last one
	ended   bool     // session_end was sent: it is the last frame

	mu          sync.Mutex
	active      *workerTurn                    // guarded by mu; nil when idle
	openRequest *pendingRequest                // guarded by mu; nil when no input is requested
	lastRequest uint64                         // guarded by mu; the last one
	calls       uint64                         // guarded by mu; the last one
	results     map[uint64]chan ipc.CallResult // guarded by mu; of open calls
	groups      []string                       // guarded by mu; groups with functions
	owner       ipc.SigintOwner                // guarded by mu
	stuck       bool                           // guarded by mu; received frames have no effect
	lateTexts   []string                       // main goroutine only: printed after idle
}

// A workerTurn is interruptible work: a turn, the start-up, or a query.
type workerTurn struct {
	id            uint64
	silent        bool
	noExit        bool
	dialect       ipc.InputDialect
	ignoresLevel1 bool            // level 1 has no effect
	stop          chan struct{}   // closed by an interrupt
	answered      map[uint64]bool // handled interrupts by seq
}

// A pendingRequest is a request of the code for input, with a channel for its answer.
type pendingRequest struct {
	turn, id uint64
	question ipc.StdinWait
	answer   chan ipc.TurnInput // of capacity 1
}

func newWorkerTurn(id uint64) *workerTurn {
	return &workerTurn{id: id, stop: make(chan struct{}), answered: map[uint64]bool{}}
}

// interruptLocked ends the turn, unless it has ended. The caller holds the worker's mu.
func (t *workerTurn) interruptLocked() {
	select {
	case <-t.stop:
	default:
		close(t.stop)
	}
}

func (t *workerTurn) isInterrupted() bool {
	select {
	case <-t.stop:
		return true
	default:
		return false
	}
}

// openWorker takes over the channel that REPL_IPC names. Children inherit it only if leak is set.
func openWorker(channel string, offer []string, leak bool) (*fakeWorker, error) {
	parts := strings.Split(channel, ",")
	if len(parts) != 3 {
		return nil, fmt.Errorf("REPL_IPC is %q, want <in>,<out>,<nonce>", channel)
	}
	in, err := openChannelEnd(parts[0], os.O_RDONLY, leak)
	if err != nil {
		return nil, err
	}
	out, err := openChannelEnd(parts[1], os.O_WRONLY, leak)
	if err != nil {
		return nil, err
	}
	tty, err := privateTerminal()
	if err != nil {
		return nil, err
	}
	return &fakeWorker{
		in:             ipc.NewConn(receiveOnly{in}, ipc.FromSupervisor),
		nonce:          parts[2],
		mergesText:     slices.Contains(offer, "fence"),
		query:          slices.Contains(offer, "query"),
		functions:      slices.Contains(offer, "functions"),
		interruptsSelf: slices.Contains(offer, "self"),
		starts:         make(chan ipc.TurnStart, 1),
		shutdown:       make(chan struct{}),
		out:            out,
		tty:            tty,
		owner:          ipc.SigintOurs,
	}, nil
}

// receiveOnly restricts the channel of the worker to reading. The worker writes frames itself, so that
// each is on the channel before its next action.
type receiveOnly struct{ *os.File }

func (receiveOnly) Write([]byte) (int, error) { return 0, os.ErrInvalid }

// runWorker runs the worker and returns its exit status.
func (w *fakeWorker) runWorker(start string) int {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt)
	listenConsole(w.nonce, signals)
	go w.handleSigint(signals)

	zero := newWorkerTurn(0)
	w.active = zero
	if status, ended := w.sendReady(start); ended {
		return status
	}
	go w.readFrames()
	failure, unrun := w.runScript(zero, startScript(start))
	w.finishTurn(zero, failure, unrun)
	for {
		select {
		case next, ok := <-w.starts:
			if !ok {
				return 0
			}
			w.mu.Lock()
			t := w.active
			w.mu.Unlock()
			failure, unrun := w.runScript(t, string(next.Input))
			w.finishTurn(t, failure, unrun)
			if w.isStopping() {
				return w.sendSessionEnd(ipc.EndShutdown, nil)
			}
		case <-w.shutdown:
			return w.sendSessionEnd(ipc.EndShutdown, nil)
		}
	}
}

// sendReady sends the first frame, or whatever the start option sends instead.
func (w *fakeWorker) sendReady(start string) (status int, ended bool) {
	version := uint64(ipc.ProtocolVersion)
	name, argument, _ := strings.Cut(start, " ")
	switch name {
	case "silent":
		testexec.BlockForever()
	case "early":
		_, _ = os.Stdin.Read(make([]byte, 1))
		testexec.BlockForever()
	case "garbage":
		w.writeRaw(encodeFrame("garbage"))
	case "wrongfirst":
		w.sendFrame(ipc.Idle{Outcome: ipc.OutcomeOK})
	case "wrongversion":
		version++
	case "exit":
		status, _ = strconv.Atoi(argument)
		return status, true
	}
	executable, _ := os.Executable()
	mode := ipc.InterruptBySignal
	if w.interruptsSelf {
		mode = ipc.InterruptBySelf
	}
	w.sendFrame(ipc.WorkerReady{
		Protocol: ipc.Protocol{Name: ipc.ProtocolName, Version: version},
		Worker: ipc.Worker{
			Name: "fake", Version: "1", Language: "fake", RuntimeVersion: "1",
			Executable: executable, PID: uint64(os.Getpid()),
		},
		Capabilities: ipc.Capabilities{Images: true, Display: true, Fence: w.mergesText, Query: w.query, Variables: w.query, Functions: w.functions, Tables: w.query, Interrupt: mode},
	})
	return 0, false
}

// startScript returns the script of the start-up.
func startScript(start string) string {
	switch start {
	case "print":
		return "print profile"
	case "prompt":
		return "wait profile? "
	case "ttyprompt":
		return "readtty"
	case "sleep":
		return "sleep"
	}
	return ""
}

// finishTurn ends a turn by idle, and then prints the late texts.
func (w *fakeWorker) finishTurn(t *workerTurn, failure *ipc.RuntimeError, unrun int) {
	m := ipc.Idle{Turn: t.id, Prompt: "fake> ", Outcome: ipc.OutcomeOK, Error: failure, Unrun: uint64(unrun)}
	w.mu.Lock()
	w.active = nil
	if failure != nil {
		m.Outcome = ipc.OutcomeError
	}
	if t.isInterrupted() {
		m.Outcome = ipc.OutcomeInterrupted
	}
	w.mu.Unlock()
	w.sendFrame(m)
	for _, text := range w.lateTexts {
		w.printText(ipc.Stdout, text+"\n")
	}
	w.lateTexts = nil
}

// sendSessionEnd sends the last frame.
func (w *fakeWorker) sendSessionEnd(reason ipc.EndReason, code *int64) int {
	w.sendFrame(ipc.SessionEnd{Reason: reason, Code: code})
	if code != nil {
		return int(*code)
	}
	return 0
}

// readFrames handles frames until the channel closes.
func (w *fakeWorker) readFrames() {
	defer close(w.starts)
	for {
		m, err := w.in.Receive()
		w.mu.Lock()
		stuck, busy := w.stuck, w.active != nil && w.openRequest == nil
		w.mu.Unlock()
		switch {
		case err != nil && stuck:
			testexec.BlockForever()
		case err != nil && busy:
			return // the process that closed the channel ends a busy worker
		case err == io.EOF:
			os.Exit(0)
		case err != nil:
			w.sendSessionEnd(ipc.EndProtocolError, nil)
			os.Exit(1)
		case stuck:
			continue
		}
		switch m := m.(type) {
		case ipc.TurnStart:
			w.mu.Lock()
			busy := w.active != nil
			w.active = newWorkerTurn(m.Turn)
			w.active.silent, w.active.noExit, w.active.dialect = m.Silent, m.NoExit, m.Dialect
			w.mu.Unlock()
			if busy {
				w.sendSessionEnd(ipc.EndProtocolError, nil)
				os.Exit(1)
			}
			w.starts <- m
		case ipc.TurnInput:
			w.deliverInput(m)
		case ipc.Interrupt:
			w.handleInterrupt(m)
		case ipc.Query:
			w.answerQuery(m)
		case ipc.CallResult:
			w.deliverResult(m)
		case ipc.Functions:
			w.addFunctions(m)
		case ipc.Shutdown:
			w.stopTurn()
		}
	}
}

// deliverInput passes input to the input request that it answers. Other input is late.
func (w *fakeWorker) deliverInput(m ipc.TurnInput) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a := w.openRequest; a != nil && a.turn == m.Turn && a.id == m.Wait {
		w.openRequest = nil
		a.answer <- m
	}
}

// handleInterrupt acknowledges every interrupt and acts once on each seq.
func (w *fakeWorker) handleInterrupt(m ipc.Interrupt) {
	w.mu.Lock()
	t := w.active
	if t != nil && t.id != m.Turn {
		t = nil
	}
	result := ipc.InterruptRaised
	switch {
	case t == nil:
		result = ipc.InterruptStale
	case w.owner != ipc.SigintOurs || t.ignoresLevel1 && m.Level < 2:
		result = ipc.InterruptPending
	}
	again := t != nil && t.answered[m.Seq]
	if t != nil {
		t.answered[m.Seq] = true
	}
	request := w.openRequest
	w.mu.Unlock()

	if w.interruptsSelf && t != nil && !again {
		signalGroup() // before the acknowledgement: after it, a child that still reads counts as unaffected
	}
	w.sendFrame(ipc.InterruptAck{Turn: m.Turn, Seq: m.Seq, Result: result})
	if t == nil || again {
		return
	}
	if request != nil && t.ignoresLevel1 && m.Level < 2 {
		w.sendFrame(request.question) // the request has outlived the interrupt
	}
	if result == ipc.InterruptRaised {
		w.mu.Lock()
		t.interruptLocked()
		w.mu.Unlock()
	}
}

// stopTurn ends an active turn for a shutdown: a reader gets the end of the file.
func (w *fakeWorker) stopTurn() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a := w.openRequest; a != nil {
		w.openRequest = nil
		a.answer <- ipc.TurnInput{EOF: true}
	} else if w.active != nil {
		w.active.interruptLocked()
	}
	if !w.isStopping() {
		close(w.shutdown)
	}
}

// isStopping reports whether a shutdown was requested. The script stops there.
func (w *fakeWorker) isStopping() bool {
	select {
	case <-w.shutdown:
		return true
	default:
		return false
	}
}

// handleSigint is user code's handler of SIGINT, if user code owns the signal.
func (w *fakeWorker) handleSigint(signals <-chan os.Signal) {
	for range signals {
		w.mu.Lock()
		owner := w.owner
		w.mu.Unlock()
		if owner == ipc.SigintUser {
			w.printText(ipc.Stdout, "caught\n")
		}
	}
}

// requestInput reads standard input for the runtime. A nil result means the end of the file; false
// means that it was interrupted.
func (w *fakeWorker) requestInput(t *workerTurn, prompt string, kind ipc.WaitKind, want ipc.InputAmount) ([]byte, bool) {
	w.mu.Lock()
	if t.isInterrupted() {
		w.mu.Unlock()
		return nil, false
	}
	w.lastRequest++
	a := &pendingRequest{turn: t.id, id: w.lastRequest, answer: make(chan ipc.TurnInput, 1)}
	a.question = ipc.StdinWait{Turn: a.turn, Wait: a.id, Prompt: prompt, Kind: kind, Want: want}
	w.openRequest = a
	w.mu.Unlock()

	w.sendFrame(a.question)
	select {
	case m := <-a.answer:
		secret := kind == ipc.WaitSecret
		line := ipc.InputLine{Turn: t.id, Prompt: prompt, Secret: secret}
		if !secret {
			line.Text = strings.ToValidUTF8(strings.TrimSuffix(string(m.Input), "\n"), "\uFFFD")
		}
		if m.EOF && len(m.Input) == 0 {
			return nil, true
		}
		w.sendFrame(line)
		return append([]byte{}, m.Input...), true
	case <-t.stop:
		w.mu.Lock()
		w.openRequest = nil
		w.mu.Unlock()
		return nil, false
	}
}

// printText writes text as the runtime would: to the terminal, or in frames.
func (w *fakeWorker) printText(stream ipc.Stream, text string) { w.printAs(stream, "", text) }

// printAs is printText for text that is more than output.
func (w *fakeWorker) printAs(stream ipc.Stream, kind ipc.TextKind, text string) {
	w.printPart(ipc.Output{Stream: stream, Kind: kind, Data: []byte(text)})
}

// printPart prints what a frame would carry.
func (w *fakeWorker) printPart(o ipc.Output) {
	w.sending.Lock()
	defer w.sending.Unlock()
	stream, kind, text := o.Stream, o.Kind, string(o.Data)
	if !w.mergesText && !o.Begins {
		w.writeOutputLocked(stream, kind, o.Data)
		return
	}
	if !w.mergesText {
		w.sendLocked(o)
		return
	}
	code := map[ipc.TextKind]string{ipc.TextResult: "R", ipc.TextTraceback: "T"}[kind]
	if o.Begins {
		code = "B"
	}
	if code == "" && stream == ipc.Stderr {
		code = "E"
	}
	if code != "" {
		text = w.formatMarker(code) + text + w.formatMarker("O")
	}
	w.tty.WriteString(text)
}

// writeOutput writes text in frames, whatever the worker offers.
func (w *fakeWorker) writeOutput(stream ipc.Stream, text []byte) {
	w.sending.Lock()
	defer w.sending.Unlock()
	w.writeOutputLocked(stream, "", text)
}

func (w *fakeWorker) writeOutputLocked(stream ipc.Stream, kind ipc.TextKind, text []byte) {
	for part := range slices.Chunk(text, ipc.MaxOutputBytes) {
		w.sendLocked(ipc.Output{Stream: stream, Data: part, Kind: kind})
	}
}

func (w *fakeWorker) sendFrame(m ipc.Message) {
	w.sending.Lock()
	defer w.sending.Unlock()
	w.sendLocked(m)
}

// sendLocked writes a frame, and its marker after it. The caller holds sending.
func (w *fakeWorker) sendLocked(m ipc.Message) {
	if w.ended {
		return
	}
	_, w.ended = m.(ipc.SessionEnd)
	marked := m
	if w.mergesText {
		marked = withMark(m, w.mark+1)
	}
	frame, err := ipc.AppendFrame(nil, marked)
	if err != nil {
		panic(err)
	}
	w.out.Write(frame) // if no process reads any more, the next Receive reports it
	if w.mergesText && hasMark(m) {
		w.mark++
		w.tty.WriteString(w.formatMarker("#" + strconv.FormatUint(w.mark, 10)))
	}
}

// writeRaw sends arbitrary bytes.
func (w *fakeWorker) writeRaw(b []byte) {
	w.sending.Lock()
	defer w.sending.Unlock()
	w.out.Write(b)
}

func (w *fakeWorker) formatMarker(body string) string {
	return "\x1b_" + w.nonce + ";" + body + "\x1b\\"
}

// withMark returns m with this mark, if messages of its type have one.
func withMark(m ipc.Message, mark uint64) ipc.Message {
	switch m := m.(type) {
	case ipc.Output:
		m.Mark = mark
		return m
	case ipc.Image:
		m.Mark = mark
		return m
	case ipc.Display:
		m.Mark = mark
		return m
	case ipc.Clear:
		m.Mark = mark
		return m
	case ipc.InputLine:
		m.Mark = mark
		return m
	case ipc.StdinWait:
		m.Mark = mark
		return m
	case ipc.Idle:
		m.Mark = mark
		return m
	case ipc.SessionEnd:
		m.Mark = mark
		return m
	}
	return m
}

func hasMark(m ipc.Message) bool {
	switch m.(type) {
	case ipc.Output, ipc.Image, ipc.Display, ipc.Clear, ipc.InputLine, ipc.StdinWait, ipc.Idle, ipc.SessionEnd:
		return true
	}
	return false
}

// encodeFrame prefixes a payload with its length.
func encodeFrame(payload string) []byte {
	n := len(payload)
	return append([]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}, payload...)
}
