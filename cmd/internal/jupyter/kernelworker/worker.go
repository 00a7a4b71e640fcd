package kernelworker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/turnstone-repl/turnstone/cmd/internal/jupyter/kernelspec"
	"github.com/turnstone-repl/turnstone/cmd/internal/jupyter/wire"
	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/ipc"
)

const (
	// exitGracePeriod is how long a kernel may take to end after its own code has requested the exit.
	exitGracePeriod = 2 * time.Second

	// drainTimeout is how long the messages of a dead kernel are read. A child that outlives it may
	// hold its sockets open.
	drainTimeout = time.Second

	// interruptDelay is how long an interrupt waits after the kernel has reported that it is busy. It
	// is for kernels that do not ignore interrupts before they run code.
	interruptDelay = 250 * time.Millisecond

	// interruptPollInterval is the pause between two checks whether an interrupt can be sent.
	interruptPollInterval = 5 * time.Millisecond

	// firstWakeup is the pause between an interrupt and the first wake-up of the kernel. Each later
	// pause is twice as long, so maxWakeups take 20 s. A busy machine may suspend the kernel for as long.
	firstWakeup = 20 * time.Millisecond
	maxWakeups  = 10

	// infoRetryInterval is the pause between two kernel_info requests. They are repeated until the
	// kernel has answered one and a message has arrived on iopub, because messages before the
	// subscription are lost.
	infoRetryInterval = 200 * time.Millisecond
)

// Options say which kernel Run starts, and where it keeps its files.
type Options struct {
	Spec    kernelspec.KernelSpec
	Dir     string // a private directory, or "" for a temporary one
	Version string // of this program
}

// A worker is the state of the loop that translates between a kernel and the supervisor.
type worker struct {
	Options
	conn     *ipc.Conn
	terminal terminalWriter
	kernel   *kernelProcess

	frames                       chan receivedFrame
	shell, iopub, stdin, control chan wire.Message // each closed with its socket
	connected                    chan connectResult

	kernelInfo       *infoReply  // nil until the kernel has described itself
	sawIOPub         bool        // a message has arrived on iopub
	isReady          bool        // the idle frame of turn 0 was sent
	ignoresWhileIdle bool        // the kernel ignores SIGINT while it runs no code; false if the system does not show it
	turn             *activeTurn // nil between turns
	queries          map[string]ipc.Query
	inputRequest     *openInputRequest // nil unless the kernel asks for input
	lastRequest      uint64
	exitMode         *exitMode        // nil until the kernel is asked to end
	exitDeadline     <-chan time.Time // when a kernel that was asked to end must have ended
	closeDeadline    <-chan time.Time // when a kernel that closed a socket must have ended
	terminated       bool             // the kernel was killed, because it closed a socket
	interruptPoll    <-chan time.Time // when to check again whether queued interrupts can be sent
	wakeup           <-chan time.Time // when to wake an interrupted kernel
}

// A receivedFrame is the result of one read from the supervisor's channel.
type receivedFrame struct {
	message ipc.Message
	err     error
}

// A connectResult is the result of the connection to the kernel's sockets.
type connectResult struct {
	sockets *kernelSockets
	err     error
}

// An activeTurn tracks the turn that runs, which is an execute_request to the kernel.
type activeTurn struct {
	id               uint64
	noExit           bool            // an exit is an error, and the kernel keeps running
	request          string          // its msg_id
	reply            *executeReply   // nil until it has arrived
	sawIdle          bool            // the status idle has arrived
	kernelStarted    bool            // the kernel has started to handle the request
	codeEchoed       bool            // the kernel has published the code, as it does when it handles the request
	started          time.Time       // when kernelStarted was set
	queuedInterrupts []ipc.Interrupt // interrupts that the kernel cannot take yet, not acknowledged
	lastInterrupt    uint64          // the number of the last interrupt that was sent
	interrupted      bool            // the kernel was interrupted during the turn
	wakeups          int             // wake-ups since the last interrupt
	probeID          string          // msg_id of the kernel_info request that follows an interrupt
}

// An openInputRequest is a request of the kernel for a line of input, not answered yet.
type openInputRequest struct {
	number  uint64
	request wire.Header // of the input_request
	prompt  string
	secret  bool
}

// An exitMode holds the reason that the worker reports once the kernel has ended.
type exitMode struct {
	reason ipc.EndReason
}

// Run runs a kernel as the worker of a session, on the process's streams, and returns the process's
// exit status.
func Run(o Options) int {
	channel, nonce, err := openChannel()
	if err != nil {
		fmt.Fprintf(os.Stderr, "repl: kernel-worker: %v\n", err)
		return 2
	}
	if o.Dir == "" {
		if o.Dir, err = os.MkdirTemp("", "turnstone-kernel-"); err == nil {
			defer os.RemoveAll(o.Dir)
		}
	}
	w := &worker{
		Options:  o,
		conn:     ipc.NewConn(channel, ipc.FromSupervisor),
		terminal: terminalWriter{out: os.Stdout, nonce: nonce},
		frames:   make(chan receivedFrame), connected: make(chan connectResult, 1),
		shell: make(chan wire.Message), iopub: make(chan wire.Message), stdin: make(chan wire.Message), control: make(chan wire.Message),
		queries: make(map[string]ipc.Query),
	}
	catchInterrupts()
	if err == nil {
		w.kernel, err = launchKernel(&o.Spec, o.Dir)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "Cannot start the kernel %s: %v\n", o.Spec.Name, err)
		return 1
	}
	status := w.runLoop()
	killProcess(w.kernel.cmd)
	_ = w.conn.Close() // writes the last frame; an error cannot be reported any more
	return status
}

// catchInterrupts discards signals that are meant for the kernel. The kernel gets them with their
// default disposition, because a handler is not inherited.
func catchInterrupts() {
	ignored := make(chan os.Signal, 1)
	signal.Notify(ignored, stopSignal)
}

// runLoop handles events until the worker ends, and returns the exit status.
func (w *worker) runLoop() int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go w.receiveFrames()
	go func() {
		all, err := w.kernel.connectSockets(ctx)
		w.connected <- connectResult{all, err}
	}()
	ask := time.NewTicker(infoRetryInterval)
	defer ask.Stop()
	for {
		var err error
		select {
		case f := <-w.frames:
			if f.err != nil {
				return w.channelClosed(f.err)
			}
			err = w.handleFrame(f.message)
		case c := <-w.connected:
			if err = c.err; err == nil {
				w.startReaders(c.sockets)
				err = w.requestInfo()
			}
		case <-ask.C:
			err = w.requestInfo()
			if w.isReady {
				ask.Stop()
			}
		case m, ok := <-w.iopub:
			err = w.handleIOPub(m, ok)
		case m, ok := <-w.shell:
			err = w.handleShellReply(m, ok)
		case m, ok := <-w.stdin:
			err = w.handleInputRequest(m, ok)
		case _, ok := <-w.control:
			if !ok {
				w.control = nil
			}
		case <-w.kernel.exited:
			return w.handleKernelExit()
		case <-w.interruptPoll:
			err = w.sendQueuedInterrupts()
		case <-w.wakeup:
			w.wakeInterrupted()
		case <-w.exitDeadline:
			killProcess(w.kernel.cmd)
		case <-w.closeDeadline:
			w.terminated = true
			killProcess(w.kernel.cmd)
		}
		if err != nil && !errors.Is(err, errUnreachable) {
			fmt.Fprintf(os.Stderr, "repl: worker of the kernel %s: %v\n", w.Spec.Name, err)
			return 1
		}
	}
}

func (w *worker) receiveFrames() {
	for {
		m, err := w.conn.Receive()
		w.frames <- receivedFrame{m, err}
		if err != nil {
			return
		}
	}
}

// startReaders starts to read the kernel's sockets.
func (w *worker) startReaders(to *kernelSockets) {
	k := w.kernel
	k.kernelSockets = to
	go k.receiveMessages(k.iopub, w.iopub)
	go k.receiveMessages(k.shell, w.shell)
	go k.receiveMessages(k.stdin, w.stdin)
	go k.receiveMessages(k.control, w.control)
}

// sendRequest sends a message on the shell channel and returns its id.
func (w *worker) sendRequest(kind string, content any) (string, error) {
	return w.kernel.sendMessage(w.kernel.shell, kind, content, nil)
}

// requestInfo sends a kernel_info request, unless the kernel has answered one and iopub works.
func (w *worker) requestInfo() error {
	if w.isReady || w.kernel.kernelSockets == nil {
		return nil
	}
	_, err := w.sendRequest("kernel_info_request", struct{}{})
	return err
}

// sendMarked sends a frame together with a marker at its position in the text.
func (w *worker) sendMarked(make func(mark uint64) ipc.Message) error {
	mark, err := w.terminal.writeFrameMarker()
	if err != nil {
		return err
	}
	return w.conn.SendWithRoom(make(mark))
}

// handleFrame handles a frame of the supervisor.
func (w *worker) handleFrame(m ipc.Message) error {
	switch m := m.(type) {
	case ipc.TurnStart:
		return w.startTurn(m)
	case ipc.TurnInput:
		return w.answerKernel(m)
	case ipc.Interrupt:
		return w.handleInterrupt(m)
	case ipc.Query:
		return w.forwardQuery(m)
	case ipc.Shutdown:
		return w.shutdownKernel(time.Duration(m.GraceMS) * time.Millisecond)
	}
	return nil // a frame for a capability that this worker does not offer
}

// channelClosed returns the exit status of a worker whose channel has ended.
func (w *worker) channelClosed(err error) int {
	var wrong *ipc.ProtocolError
	if errors.As(err, &wrong) {
		w.sendSessionEnd(ipc.EndProtocolError, nil, wrong.Error())
		return 1
	}
	return 0
}

// sendSessionEnd sends the last frame of the session.
func (w *worker) sendSessionEnd(reason ipc.EndReason, code *int64, message string) {
	// An error cannot be reported any more.
	_ = w.sendMarked(func(mark uint64) ipc.Message {
		return ipc.SessionEnd{Reason: reason, Code: code, Message: clipText(message), Mark: mark}
	})
}

// startTurn sends the input of a turn to the kernel.
func (w *worker) startTurn(m ipc.TurnStart) error {
	if w.exitMode != nil {
		return nil
	}
	w.examineIdleKernel()
	w.turn = &activeTurn{id: m.Turn, noExit: m.NoExit}
	id, err := w.sendRequest("execute_request", executeRequest{
		Code: strings.ToValidUTF8(string(m.Input), "\uFFFD"), Silent: m.Silent, Store: !m.Silent,
		Expressions: map[string]string{}, Stdin: true,
	})
	w.turn.request = id
	return err
}

// handleShellReply handles a reply on the shell channel.
func (w *worker) handleShellReply(m wire.Message, open bool) error {
	if !open {
		w.shell, w.closeDeadline = nil, time.After(drainTimeout)
		return nil
	}
	if q, ok := w.queries[m.Parent.ID]; ok {
		delete(w.queries, m.Parent.ID)
		return w.answerQuery(q, m)
	}
	switch m.Header.Type {
	case "kernel_info_reply":
		if t := w.turn; t != nil && m.Parent.ID == t.probeID {
			return w.endSkippedTurn()
		}
		if w.kernelInfo == nil {
			w.kernelInfo = new(infoReply)
			_ = json.Unmarshal(m.Content, w.kernelInfo) // missing fields stay unknown
		}
		return w.sendReadyOnce()
	case "execute_reply":
		if t := w.turn; t != nil && m.Parent.ID == t.request && t.reply == nil {
			t.reply = new(executeReply)
			if err := json.Unmarshal(m.Content, t.reply); err != nil {
				t.reply.Status, t.reply.Name, t.reply.Value = "error", "KernelError", "cannot parse the kernel's reply: "+err.Error()
			}
			return w.endTurnIfOver()
		}
	}
	return nil
}

// sendReadyOnce reports the kernel as ready, once it has answered and a message came on iopub.
func (w *worker) sendReadyOnce() error {
	if w.isReady || w.kernelInfo == nil || !w.sawIOPub {
		return nil
	}
	w.isReady = true
	w.examineIdleKernel()
	err := w.conn.Send(ipc.WorkerReady{
		Protocol: ipc.Protocol{Name: ipc.ProtocolName, Version: ipc.ProtocolVersion},
		Worker: ipc.Worker{
			Name: clipText("jupyter:" + w.Spec.Name), Version: w.Version,
			Language:       clipText(cmp.Or(w.kernelInfo.Language.Name, w.Spec.Language)),
			RuntimeVersion: clipText(w.kernelInfo.Language.Version),
			Executable:     clipText(w.kernel.cmd.Path), PID: uint64(w.kernel.cmd.Process.Pid),
		},
		Capabilities: ipc.Capabilities{Images: true, Fence: true, Query: true, Display: true, Interrupt: ipc.InterruptBySelf},
	})
	if err != nil {
		return err
	}
	return w.sendIdle(0, ipc.OutcomeOK, nil)
}

func (w *worker) sendIdle(turn uint64, outcome ipc.Outcome, failure *ipc.RuntimeError) error {
	return w.sendMarked(func(mark uint64) ipc.Message {
		return ipc.Idle{Turn: turn, Prompt: "> ", Outcome: outcome, Error: failure, Mark: mark}
	})
}

// endTurnIfOver ends the turn if both its reply and its idle status have arrived.
func (w *worker) endTurnIfOver() error {
	t := w.turn
	if t == nil || t.reply == nil || !t.sawIdle {
		return nil
	}
	for _, p := range t.reply.Payload {
		switch {
		case p.Source == "ask_exit" && !p.Keep && !t.noExit:
			return w.exitKernel()
		case p.Source == "ask_exit" && !p.Keep:
			t.reply.Status, t.reply.Name = "error", "SystemExit"
			if err := w.terminal.writeText("SystemExit\n[an exit ends the input, not the session: all variables are there]\n", tracebackText); err != nil {
				return err
			}
		case p.Source == "page":
			if err := w.terminal.writeText(withNewline(p.Data[plainType]), plainText); err != nil {
				return err
			}
		case p.Source == "set_next_input":
			if err := w.terminal.writeText(withNewline("[The kernel suggests this next input:]\n"+p.Text), plainText); err != nil {
				return err
			}
		}
	}
	w.turn, w.inputRequest = nil, nil
	for _, m := range t.queuedInterrupts {
		if err := w.acknowledgeInterrupt(m, ipc.InterruptStale); err != nil {
			return err
		}
	}
	outcome, failure := t.turnOutcome()
	return w.sendIdle(t.id, outcome, failure)
}

// turnOutcome returns how a turn ended. The status of an interrupted one is "error", "abort" or "aborted".
func (t *activeTurn) turnOutcome() (ipc.Outcome, *ipc.RuntimeError) {
	if t.reply.Status == "ok" {
		return ipc.OutcomeOK, nil
	}
	failure := &ipc.RuntimeError{Name: clipText(t.reply.Name), Message: clipText(t.reply.Value)}
	if t.interrupted {
		return ipc.OutcomeInterrupted, failure
	}
	if failure.Name == "" {
		failure.Name = clipText(cmp.Or(t.reply.Status, "error"))
	}
	return ipc.OutcomeError, failure
}

// handleIOPub handles a message of the iopub channel.
func (w *worker) handleIOPub(m wire.Message, open bool) error {
	if !open {
		w.iopub, w.closeDeadline = nil, time.After(drainTimeout)
		return nil
	}
	if !w.sawIOPub {
		w.sawIOPub = true
		if err := w.sendReadyOnce(); err != nil {
			return err
		}
	}
	switch m.Header.Type {
	case "status":
		return w.handleStatus(m)
	case "execute_input":
		if w.markStarted(m.Parent.ID); w.turn != nil && w.turn.request == m.Parent.ID {
			w.turn.codeEchoed = true
		}
		return nil
	case "stream":
		var c streamContent
		if json.Unmarshal(m.Content, &c) != nil {
			return nil
		}
		return w.terminal.writeText(c.Text, map[bool]string{true: errorText, false: plainText}[c.Name == "stderr"])
	case "error":
		var c errorContent
		if json.Unmarshal(m.Content, &c) != nil {
			return nil
		}
		return w.terminal.writeText(c.tracebackText(), tracebackText)
	case "display_data", "update_display_data", "execute_result":
		var c displayContent
		if json.Unmarshal(m.Content, &c) != nil {
			return nil
		}
		kind := ipc.DisplayShown
		if m.Header.Type == "execute_result" {
			kind = ipc.DisplayResult
		}
		return w.showDisplay(&c, kind, m.Header.Type == "update_display_data")
	case "clear_output":
		var c clearContent
		_ = json.Unmarshal(m.Content, &c)
		return w.sendMarked(func(mark uint64) ipc.Message { return ipc.Clear{Wait: c.Wait, Mark: mark} })
	}
	return nil // comms, and unknown types
}

// examineIdleKernel finds out whether the kernel ignores SIGINT while it runs no code. A kernel may
// already handle its next request: ipykernel then takes interrupts, also while it sends the reply to a
// kernel_info request. So one look can miss it, and only a positive one is final.
func (w *worker) examineIdleKernel() {
	if !w.ignoresWhileIdle {
		w.ignoresWhileIdle = ignoresInterrupts(w.kernel.cmd.Process.Pid)
	}
}

// handleStatus handles a status of the kernel. Only the statuses of the turn's request count.
func (w *worker) handleStatus(m wire.Message) error {
	var c statusContent
	if json.Unmarshal(m.Content, &c) != nil {
		return nil
	}
	if c.State == "idle" {
		w.examineIdleKernel()
	}
	t := w.turn
	if t == nil || m.Parent.ID != t.request {
		return nil
	}
	switch c.State {
	case "busy":
		w.markStarted(t.request)
	case "idle":
		t.sawIdle = true
		return w.endTurnIfOver()
	}
	return nil
}

// markStarted records that the kernel has started to handle a request.
func (w *worker) markStarted(request string) {
	if t := w.turn; t != nil && t.request == request && !t.kernelStarted {
		t.kernelStarted, t.started = true, time.Now()
	}
}

// handleInputRequest handles a request of the kernel for a line of input.
func (w *worker) handleInputRequest(m wire.Message, open bool) error {
	if !open {
		w.stdin = nil
		return nil
	}
	var c inputRequestContent
	if m.Header.Type != "input_request" || json.Unmarshal(m.Content, &c) != nil {
		return nil
	}
	w.inputRequest = &openInputRequest{request: m.Header, prompt: c.Prompt, secret: c.Password}
	if w.turn == nil {
		return w.sendInputReply("", true) // no turn is running, so no client could answer
	}
	return w.sendInputRequest()
}

// sendInputRequest reports to the supervisor that the kernel waits for input.
func (w *worker) sendInputRequest() error {
	w.lastRequest++
	w.inputRequest.number = w.lastRequest
	kind := ipc.WaitLine
	if w.inputRequest.secret {
		kind = ipc.WaitSecret
	}
	return w.sendMarked(func(mark uint64) ipc.Message {
		return ipc.StdinWait{Turn: w.turn.id, Wait: w.lastRequest, Prompt: clipText(w.inputRequest.prompt), Kind: kind, Want: ipc.WantLine, Mark: mark}
	})
}

// answerKernel passes a line of input to the kernel.
func (w *worker) answerKernel(m ipc.TurnInput) error {
	if w.inputRequest == nil || w.turn == nil || len(w.turn.queuedInterrupts) > 0 || m.Turn != w.turn.id || m.Wait != w.inputRequest.number {
		return nil // it was sent before the request ended or was interrupted
	}
	text := strings.TrimSuffix(strings.TrimSuffix(string(m.Input), "\n"), "\r")
	request := *w.inputRequest
	if err := w.sendInputReply(text, m.EOF && len(m.Input) == 0); err != nil {
		return err
	}
	if request.secret {
		text = ""
	}
	return w.sendMarked(func(mark uint64) ipc.Message {
		return ipc.InputLine{Turn: m.Turn, Prompt: clipText(request.prompt), Text: strings.ToValidUTF8(text, "\uFFFD"), Secret: request.secret, Mark: mark}
	})
}

// endOfFile is Ctrl-D, which kernels based on ipykernel treat as the end of file. Jupyter defines
// no end of file.
const endOfFile = "\x04"

// sendInputReply answers the kernel's input request, and ends it.
func (w *worker) sendInputReply(text string, eof bool) error {
	request := w.inputRequest.request
	w.inputRequest = nil
	if eof {
		text = endOfFile
	}
	_, err := w.kernel.sendMessage(w.kernel.stdin, "input_reply", map[string]string{"status": "ok", "value": text}, &request)
	return err
}

// clipText cuts and cleans a text of the kernel so that a frame may contain it.
func clipText(s string) string { return text.Truncate(s, ipc.MaxTextBytes) }

var _ io.Writer = (*outputTail)(nil)
