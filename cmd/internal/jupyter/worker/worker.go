package worker

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
	"unicode/utf8"

	"github.com/turnstone-repl/turnstone/cmd/internal/jupyter/specs"
	"github.com/turnstone-repl/turnstone/cmd/internal/jupyter/wire"
	"github.com/turnstone-repl/turnstone/ipc"
)

const (
	// leaveGrace is how long a kernel may take to end when its own code has asked for it.
	leaveGrace = 2 * time.Second

	// lastWords is how long the messages of a dead kernel are read. A child that it left may hold
	// its sockets open.
	lastWords = time.Second

	// firstMoments is how long an interrupt waits behind the word that it is busy of a kernel that does
	// not ignore interrupts before it runs code.
	firstMoments = 250 * time.Millisecond

	// lookPause is the pause before the next look whether an interrupt can be sent.
	lookPause = 5 * time.Millisecond

	// askAgain is the pause between two questions for the kernel's information, until it has
	// answered one and been heard on iopub: what it published before our subscription is lost.
	askAgain = 200 * time.Millisecond
)

// Options of Run.
type Options struct {
	Spec    specs.Spec
	Dir     string // private, or "" for one of our own
	Version string // of this program
}

// A worker is the loop's state.
type worker struct {
	Options
	conn     *ipc.Conn
	terminal terminal
	kernel   *kernel

	frames                       chan received
	shell, iopub, stdin, control chan wire.Message // closed when the socket is
	connected                    chan connected

	info    *infoReply // nil until the kernel has said what it is
	heard   bool       // something came on iopub
	ready   bool       // idle of turn 0 was sent
	ignores bool       // it ignores SIGINT while it runs no code, as far as the system tells
	turn    *turn      // nil when there is none
	queries map[string]ipc.Query
	wait    *wait // nil when the kernel asks for nothing
	waits   uint64
	leaving *leaving         // nil until the kernel is asked to end
	due     <-chan time.Time // when leaving is over
	lost    <-chan time.Time // when a kernel without a socket must have ended
	broken  bool             // it had to be ended, because it closed a socket
	look    <-chan time.Time // when to look whether held interrupts can be sent
}

// received is what the channel gave.
type received struct {
	message ipc.Message
	err     error
}

// connected is what an attempt to connect gave.
type connected struct {
	sockets *sockets
	err     error
}

// A turn is one execute_request.
type turn struct {
	id      uint64
	noExit  bool            // an exit is an error, and the kernel stays
	request string          // its msg_id
	reply   *executeReply   // nil until it is there
	idle    bool            // the status idle came
	begun   bool            // the kernel is at it
	echoed  bool            // the kernel has repeated the code, which it does in the handler of the request
	since   time.Time       // when it began
	held    []ipc.Interrupt // interrupts that wait until it can take them, not acknowledged yet
	acted   uint64          // the last interrupt
	felt    bool            // the kernel was interrupted in it
	probe   string          // msg_id of the question that follows an interrupt
}

// A wait is the kernel's question for a line.
type wait struct {
	number  uint64
	request wire.Header // of the input_request
	prompt  string
	secret  bool
}

// leaving says how the session ends once the kernel has.
type leaving struct {
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
		terminal: terminal{out: os.Stdout, nonce: nonce},
		frames:   make(chan received), connected: make(chan connected, 1),
		shell: make(chan wire.Message), iopub: make(chan wire.Message), stdin: make(chan wire.Message), control: make(chan wire.Message),
		queries: make(map[string]ipc.Query),
	}
	catchInterrupts()
	if err == nil {
		w.kernel, err = launch(&o.Spec, o.Dir)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "The kernel %s cannot be started: %v\n", o.Spec.Name, err)
		return 1
	}
	status := w.loop()
	terminate(w.kernel.cmd)
	_ = w.conn.Close() // writes the last frame; if it cannot be written, there is nobody to tell
	return status
}

// catchInterrupts lets the signals pass that are meant for the kernel. It gets them with their
// default, because a handler is not inherited.
func catchInterrupts() {
	ignored := make(chan os.Signal, 1)
	signal.Notify(ignored, stopSignal)
}

// loop handles what comes until the worker is over, and returns the exit status.
func (w *worker) loop() int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go w.receive()
	go func() {
		all, err := w.kernel.connect(ctx)
		w.connected <- connected{all, err}
	}()
	ask := time.NewTicker(askAgain)
	defer ask.Stop()
	for {
		var err error
		select {
		case f := <-w.frames:
			if f.err != nil {
				return w.hungUp(f.err)
			}
			err = w.take(f.message)
		case c := <-w.connected:
			if err = c.err; err == nil {
				w.listen(c.sockets)
				err = w.askInfo()
			}
		case <-ask.C:
			err = w.askInfo()
			if w.ready {
				ask.Stop()
			}
		case m, ok := <-w.iopub:
			err = w.published(m, ok)
		case m, ok := <-w.shell:
			err = w.replied(m, ok)
		case m, ok := <-w.stdin:
			err = w.asked(m, ok)
		case _, ok := <-w.control:
			if !ok {
				w.control = nil
			}
		case <-w.kernel.exited:
			return w.died()
		case <-w.look:
			err = w.release()
		case <-w.due:
			terminate(w.kernel.cmd)
		case <-w.lost:
			w.broken = true
			terminate(w.kernel.cmd)
		}
		if err != nil && !errors.Is(err, errLost) {
			fmt.Fprintf(os.Stderr, "repl: the worker of the kernel %s: %v\n", w.Spec.Name, err)
			return 1
		}
	}
}

func (w *worker) receive() {
	for {
		m, err := w.conn.Receive()
		w.frames <- received{m, err}
		if err != nil {
			return
		}
	}
}

// listen begins to read the kernel's sockets.
func (w *worker) listen(to *sockets) {
	k := w.kernel
	k.sockets = to
	go k.receive(k.iopub, w.iopub)
	go k.receive(k.shell, w.shell)
	go k.receive(k.stdin, w.stdin)
	go k.receive(k.control, w.control)
}

// request sends a message on the shell channel and returns its id.
func (w *worker) request(kind string, content any) (string, error) {
	return w.kernel.send(w.kernel.shell, kind, content, nil)
}

// askInfo asks the kernel what it is, as long as that is not known or nothing was heard on iopub.
func (w *worker) askInfo() error {
	if w.ready || w.kernel.sockets == nil {
		return nil
	}
	_, err := w.request("kernel_info_request", struct{}{})
	return err
}

// sendMarked sends a frame that has a place among the text.
func (w *worker) sendMarked(make func(mark uint64) ipc.Message) error {
	mark, err := w.terminal.next()
	if err != nil {
		return err
	}
	return w.conn.SendWithRoom(make(mark))
}

// take handles a frame of the supervisor.
func (w *worker) take(m ipc.Message) error {
	switch m := m.(type) {
	case ipc.TurnStart:
		return w.begin(m)
	case ipc.TurnInput:
		return w.answer(m)
	case ipc.Interrupt:
		return w.interrupt(m)
	case ipc.Query:
		return w.query(m)
	case ipc.Shutdown:
		return w.shutdown(time.Duration(m.GraceMS) * time.Millisecond)
	}
	return nil // what we did not offer to take
}

// hungUp ends the worker when the channel has.
func (w *worker) hungUp(err error) int {
	var wrong *ipc.ProtocolError
	if errors.As(err, &wrong) {
		w.end(ipc.EndProtocolError, nil, wrong.Error())
		return 1
	}
	return 0
}

// end sends the last frame.
func (w *worker) end(reason ipc.EndReason, code *int64, message string) {
	// If it cannot be sent, there is nobody to tell.
	_ = w.sendMarked(func(mark uint64) ipc.Message {
		return ipc.SessionEnd{Reason: reason, Code: code, Message: clip(message), Mark: mark}
	})
}

// begin runs an input.
func (w *worker) begin(m ipc.TurnStart) error {
	if w.leaving != nil {
		return nil
	}
	w.turn = &turn{id: m.Turn, noExit: m.NoExit}
	id, err := w.request("execute_request", executeRequest{
		Code: strings.ToValidUTF8(string(m.Input), "\uFFFD"), Silent: m.Silent, Store: !m.Silent,
		Expressions: map[string]string{}, Stdin: true,
	})
	w.turn.request = id
	return err
}

// replied handles a reply on the shell channel.
func (w *worker) replied(m wire.Message, open bool) error {
	if !open {
		w.shell, w.lost = nil, time.After(lastWords)
		return nil
	}
	if q, ok := w.queries[m.Parent.ID]; ok {
		delete(w.queries, m.Parent.ID)
		return w.answerQuery(q, m)
	}
	switch m.Header.Type {
	case "kernel_info_reply":
		if t := w.turn; t != nil && m.Parent.ID == t.probe {
			return w.passedOver()
		}
		if w.info == nil {
			w.info = new(infoReply)
			_ = json.Unmarshal(m.Content, w.info) // what is missing is unknown
		}
		return w.maybeReady()
	case "execute_reply":
		if t := w.turn; t != nil && m.Parent.ID == t.request && t.reply == nil {
			t.reply = new(executeReply)
			if err := json.Unmarshal(m.Content, t.reply); err != nil {
				t.reply.Status, t.reply.Name, t.reply.Value = "error", "KernelError", "the kernel's reply cannot be read: "+err.Error()
			}
			return w.maybeOver()
		}
	}
	return nil
}

// maybeReady tells the supervisor that the kernel is ready, once it has answered and was heard.
func (w *worker) maybeReady() error {
	if w.ready || w.info == nil || !w.heard {
		return nil
	}
	w.ready, w.ignores = true, ignoresInterrupts(w.kernel.cmd.Process.Pid)
	err := w.conn.Send(ipc.WorkerReady{
		Protocol: ipc.Protocol{Name: ipc.ProtocolName, Version: ipc.ProtocolVersion},
		Worker: ipc.Worker{
			Name: clip("jupyter:" + w.Spec.Name), Version: w.Version,
			Language:       clip(cmp.Or(w.info.Language.Name, w.Spec.Language)),
			RuntimeVersion: clip(w.info.Language.Version),
			Executable:     clip(w.kernel.cmd.Path), PID: uint64(w.kernel.cmd.Process.Pid),
		},
		Capabilities: ipc.Capabilities{Images: true, Fence: true, Query: true, Display: true, Interrupt: ipc.InterruptBySelf},
	})
	if err != nil {
		return err
	}
	return w.idle(0, ipc.OutcomeOK, nil)
}

func (w *worker) idle(turn uint64, outcome ipc.Outcome, failure *ipc.RuntimeError) error {
	return w.sendMarked(func(mark uint64) ipc.Message {
		return ipc.Idle{Turn: turn, Prompt: "> ", Outcome: outcome, Error: failure, Mark: mark}
	})
}

// maybeOver ends the turn if both its reply and its idle are there.
func (w *worker) maybeOver() error {
	t := w.turn
	if t == nil || t.reply == nil || !t.idle {
		return nil
	}
	for _, p := range t.reply.Payload {
		switch {
		case p.Source == "ask_exit" && !p.Keep && !t.noExit:
			return w.leave()
		case p.Source == "ask_exit" && !p.Keep:
			t.reply.Status, t.reply.Name = "error", "SystemExit"
			if err := w.terminal.write("SystemExit\n[an exit ends the input, not the session: all variables are there]\n", tracebackText); err != nil {
				return err
			}
		case p.Source == "page":
			if err := w.terminal.write(line(p.Data[plainType]), plainText); err != nil {
				return err
			}
		case p.Source == "set_next_input":
			if err := w.terminal.write(line("[The kernel suggests as the next input:]\n"+p.Text), plainText); err != nil {
				return err
			}
		}
	}
	w.turn, w.wait = nil, nil
	for _, m := range t.held {
		if err := w.acknowledge(m, ipc.InterruptStale); err != nil {
			return err
		}
	}
	outcome, failure := t.outcome()
	return w.idle(t.id, outcome, failure)
}

// outcome says how a turn ended. Kernels call an interrupted one "error", "abort" or "aborted".
func (t *turn) outcome() (ipc.Outcome, *ipc.RuntimeError) {
	if t.reply.Status == "ok" {
		return ipc.OutcomeOK, nil
	}
	failure := &ipc.RuntimeError{Name: clip(t.reply.Name), Message: clip(t.reply.Value)}
	if t.felt {
		return ipc.OutcomeInterrupted, failure
	}
	if failure.Name == "" {
		failure.Name = clip(cmp.Or(t.reply.Status, "error"))
	}
	return ipc.OutcomeError, failure
}

// published handles a message of the iopub channel.
func (w *worker) published(m wire.Message, open bool) error {
	if !open {
		w.iopub, w.lost = nil, time.After(lastWords)
		return nil
	}
	if !w.heard {
		w.heard = true
		if err := w.maybeReady(); err != nil {
			return err
		}
	}
	switch m.Header.Type {
	case "status":
		return w.status(m)
	case "execute_input":
		if w.started(m.Parent.ID); w.turn != nil && w.turn.request == m.Parent.ID {
			w.turn.echoed = true
		}
		return nil
	case "stream":
		var c streamContent
		if json.Unmarshal(m.Content, &c) != nil {
			return nil
		}
		return w.terminal.write(c.Text, map[bool]string{true: errorText, false: plainText}[c.Name == "stderr"])
	case "error":
		var c errorContent
		if json.Unmarshal(m.Content, &c) != nil {
			return nil
		}
		return w.terminal.write(c.text(), tracebackText)
	case "display_data", "update_display_data", "execute_result":
		var c displayContent
		if json.Unmarshal(m.Content, &c) != nil {
			return nil
		}
		kind := ipc.DisplayShown
		if m.Header.Type == "execute_result" {
			kind = ipc.DisplayResult
		}
		return w.show(&c, kind, m.Header.Type == "update_display_data")
	case "clear_output":
		var c clearContent
		_ = json.Unmarshal(m.Content, &c)
		return w.sendMarked(func(mark uint64) ipc.Message { return ipc.Clear{Wait: c.Wait, Mark: mark} })
	}
	return nil // comms, and what we do not know
}

// status takes in what the kernel says of itself. Only what it says of the turn's request counts.
func (w *worker) status(m wire.Message) error {
	t := w.turn
	if t == nil || m.Parent.ID != t.request {
		return nil
	}
	var c statusContent
	if json.Unmarshal(m.Content, &c) != nil {
		return nil
	}
	switch c.State {
	case "busy":
		w.started(t.request)
	case "idle":
		t.idle = true
		return w.maybeOver()
	}
	return nil
}

// started takes in that the kernel is at a request.
func (w *worker) started(request string) {
	if t := w.turn; t != nil && t.request == request && !t.begun {
		t.begun, t.since = true, time.Now()
	}
}

// asked handles a question of the kernel for a line.
func (w *worker) asked(m wire.Message, open bool) error {
	if !open {
		w.stdin = nil
		return nil
	}
	var c inputRequest
	if m.Header.Type != "input_request" || json.Unmarshal(m.Content, &c) != nil {
		return nil
	}
	w.wait = &wait{request: m.Header, prompt: c.Prompt, secret: c.Password}
	if w.turn == nil {
		return w.handOver("", true) // there is nobody to ask
	}
	return w.ask()
}

// ask tells the supervisor that the kernel waits.
func (w *worker) ask() error {
	w.waits++
	w.wait.number = w.waits
	kind := ipc.WaitLine
	if w.wait.secret {
		kind = ipc.WaitSecret
	}
	return w.sendMarked(func(mark uint64) ipc.Message {
		return ipc.StdinWait{Turn: w.turn.id, Wait: w.waits, Prompt: clip(w.wait.prompt), Kind: kind, Want: ipc.WantLine, Mark: mark}
	})
}

// answer hands a line to the kernel.
func (w *worker) answer(m ipc.TurnInput) error {
	if w.wait == nil || w.turn == nil || len(w.turn.held) > 0 || m.Turn != w.turn.id || m.Wait != w.wait.number {
		return nil // it has crossed the end of the wait, or an interrupt
	}
	text := strings.TrimSuffix(strings.TrimSuffix(string(m.Input), "\n"), "\r")
	asked := *w.wait
	if err := w.handOver(text, m.EOF && len(m.Input) == 0); err != nil {
		return err
	}
	if asked.secret {
		text = ""
	}
	return w.sendMarked(func(mark uint64) ipc.Message {
		return ipc.InputLine{Turn: m.Turn, Prompt: clip(asked.prompt), Text: strings.ToValidUTF8(text, "\uFFFD"), Secret: asked.secret, Mark: mark}
	})
}

// endOfFile is what kernels on ipykernel take for the end of file: Ctrl-D. Jupyter has no other.
const endOfFile = "\x04"

// handOver answers the kernel's question, which is over then.
func (w *worker) handOver(text string, eof bool) error {
	request := w.wait.request
	w.wait = nil
	if eof {
		text = endOfFile
	}
	_, err := w.kernel.send(w.kernel.stdin, "input_reply", map[string]string{"status": "ok", "value": text}, &request)
	return err
}

// interrupt acts on an interrupt of the active turn. It waits until the kernel runs the code of the
// turn: one that is still at a query before it would swallow the signal, or die of it. The next
// interrupt waits for nothing.
func (w *worker) interrupt(m ipc.Interrupt) error {
	t := w.turn
	switch {
	case m.Turn == 0 && !w.ready:
		return errors.Join(w.acknowledge(m, ipc.InterruptRaised), interruptGroup())
	case m.Turn == 0:
		return errors.Join(w.acknowledge(m, ipc.InterruptRaised), w.dropQueries())
	case t == nil || m.Turn != t.id:
		return w.acknowledge(m, ipc.InterruptStale)
	case t.reply != nil: // what is missing is the kernel's word that it is idle
		return w.acknowledge(m, ipc.InterruptPending)
	case m.Seq <= t.acted:
		return w.acknowledge(m, ipc.InterruptRaised)
	}
	again := len(t.held) > 0 && t.held[0].Seq != m.Seq
	t.held = append(t.held, m)
	if again || w.canStrike() {
		return w.strikeHeld()
	}
	w.look = time.After(lookPause)
	return nil
}

func (w *worker) acknowledge(m ipc.Interrupt, result ipc.InterruptResult) error {
	return w.conn.Send(ipc.InterruptAck{Turn: m.Turn, Seq: m.Seq, Result: result})
}

// canStrike reports whether the kernel runs the code of the turn. Kernels say that they are busy some
// moments before they can be interrupted. IRkernel dies of an interrupt in them. ipykernel ignores it,
// but for the last of them, between its last word to the system and its handler: there it dies, too.
func (w *worker) canStrike() bool {
	t := w.turn
	switch pid := w.kernel.cmd.Process.Pid; {
	case w.wait != nil: // it asks, so it is at it
		return true
	case !t.begun || w.Spec.ByMessage:
		return t.begun
	case w.ignores && ignoresInterrupts(pid):
		return false
	}
	return w.ignores && t.echoed || time.Since(t.since) >= firstMoments
}

// release sends the interrupts that were held, if the kernel can take them now.
func (w *worker) release() error {
	w.look = nil
	switch {
	case w.turn == nil || len(w.turn.held) == 0:
		return nil
	case w.canStrike():
		return w.strikeHeld()
	}
	w.look = time.After(lookPause)
	return nil
}

// strikeHeld interrupts the kernel for all interrupts that were held. It answers the kernel's question
// with an empty line, because some kernels feel an interrupt only then; kernels on ipykernel drop it.
func (w *worker) strikeHeld() error {
	t := w.turn
	err := w.strike()
	for _, m := range t.held {
		t.acted = m.Seq
		err = errors.Join(err, w.acknowledge(m, ipc.InterruptRaised))
	}
	t.held = nil
	if err == nil && w.ignores {
		t.probe, err = w.request("kernel_info_request", struct{}{})
	}
	if err == nil && w.wait != nil {
		err = w.handOver("", false)
	}
	return err
}

// passedOver takes in that the kernel has answered what it was asked after the interrupt of a turn. An
// ipykernel that feels an interrupt between two steps of its own drops the request, and never answers it.
// It answers in order, so a turn without a reply is over.
func (w *worker) passedOver() error {
	t := w.turn
	if t.reply != nil {
		return nil
	}
	t.reply, t.idle = &executeReply{Status: "error", Name: "KeyboardInterrupt", Value: "the kernel was interrupted before it ran the code"}, true
	return w.maybeOver()
}

// strike interrupts what the kernel runs.
func (w *worker) strike() error {
	w.turn.felt = true
	if w.Spec.ByMessage {
		_, err := w.kernel.send(w.kernel.control, "interrupt_request", struct{}{}, nil)
		return err
	}
	return interruptGroup()
}

// query passes a query on. The kernel answers when it can.
func (w *worker) query(m ipc.Query) error {
	cursor := utf8.RuneCountInString(m.Text[:min(m.Cursor, uint64(len(m.Text)))])
	var id string
	var err error
	switch m.Kind {
	case ipc.QueryComplete:
		id, err = w.request("complete_request", map[string]any{"code": m.Text, "cursor_pos": cursor})
	case ipc.QueryParse:
		id, err = w.request("is_complete_request", map[string]any{"code": m.Text})
	case ipc.QueryInspect:
		id, err = w.request("inspect_request", map[string]any{"code": m.Text, "cursor_pos": cursor, "detail_level": 0})
	}
	if err != nil || id == "" {
		return errors.Join(err, w.conn.Send(ipc.QueryResult{ID: m.ID, Status: ipc.StatusTimeout}))
	}
	w.queries[id] = m
	return nil
}

// dropQueries answers what the supervisor does not wait for any more. The kernel is left alone: its
// first completion may load for seconds, and would never be done if it were interrupted.
func (w *worker) dropQueries() error {
	var err error
	for id, q := range w.queries {
		delete(w.queries, id)
		err = errors.Join(err, w.conn.Send(ipc.QueryResult{ID: q.ID, Status: ipc.StatusTimeout}))
	}
	return err
}

// answerQuery passes the kernel's answer on.
func (w *worker) answerQuery(q ipc.Query, m wire.Message) error {
	result := ipc.QueryResult{ID: q.ID, Status: ipc.StatusOK}
	switch q.Kind {
	case ipc.QueryComplete:
		var c completeReply
		_ = json.Unmarshal(m.Content, &c)
		result.Start, result.Matches = c.matches(q)
	case ipc.QueryParse:
		var c isCompleteReply
		_ = json.Unmarshal(m.Content, &c)
		switch c.Status {
		case "incomplete":
			result.Status = ipc.StatusIncomplete
		case "invalid":
			result.Status = ipc.StatusInvalid
		default: // also "unknown": then the kernel decides when it runs it
			result.Status = ipc.StatusComplete
		}
	case ipc.QueryInspect:
		var c struct {
			Found bool                       `json:"found"`
			Data  map[string]json.RawMessage `json:"data"`
		}
		_ = json.Unmarshal(m.Content, &c)
		if c.Found {
			result.Data, _ = bundle(c.Data)
		}
	}
	return w.conn.Send(result)
}

// matches turns the kernel's answer, whose cursors count characters, into that of a query, whose
// matches replace what is before the cursor.
func (c *completeReply) matches(q ipc.Query) (start uint64, matches []string) {
	from := byteAt(q.Text, c.Start)
	if from > int(q.Cursor) || c.Status != "ok" {
		return q.Cursor, nil
	}
	behind := ""
	if end := byteAt(q.Text, c.End); end > int(q.Cursor) {
		behind = q.Text[q.Cursor:end]
	}
	for _, m := range c.Matches {
		if len(matches) < ipc.MaxMatches && len(m) <= ipc.MaxTextBytes {
			matches = append(matches, strings.ToValidUTF8(strings.TrimSuffix(m, behind), "\uFFFD"))
		}
	}
	return uint64(from), matches
}

// byteAt returns where the character with a number begins, in bytes.
func byteAt(text string, character int) int {
	for at := range text {
		if character <= 0 {
			return at
		}
		character--
	}
	return len(text)
}

// leave lets the kernel end, because its code has asked for it.
func (w *worker) leave() error {
	w.leaving = &leaving{ipc.EndExit}
	return w.askToEnd(leaveGrace)
}

// shutdown lets the kernel end, because the supervisor has asked for it, and interrupts its turn.
func (w *worker) shutdown(grace time.Duration) error {
	if w.leaving != nil {
		return nil
	}
	w.leaving = &leaving{ipc.EndShutdown}
	if w.turn != nil && w.turn.reply == nil {
		if err := w.strike(); err != nil && !errors.Is(err, errLost) {
			return err
		}
	}
	if w.wait != nil {
		_ = w.handOver("", true) // a kernel that is gone needs no answer
	}
	return w.askToEnd(min(grace/2, leaveGrace))
}

func (w *worker) askToEnd(grace time.Duration) error {
	w.due = time.After(grace)
	if w.kernel.sockets == nil {
		terminate(w.kernel.cmd)
		return nil
	}
	if _, err := w.kernel.send(w.kernel.control, "shutdown_request", map[string]bool{"restart": false}, nil); err != nil {
		terminate(w.kernel.cmd) // it has no socket that could be told
	}
	return nil
}

// died takes in that the kernel's process has ended, shows what it had sent, and tells why.
func (w *worker) died() int {
	w.drain()
	code, killed := exitOf(w.kernel.cmd.ProcessState)
	status := int64(code)
	switch {
	case w.leaving != nil && w.leaving.reason == ipc.EndShutdown:
		w.end(ipc.EndShutdown, nil, "")
		return 0
	case w.leaving != nil && killed != "":
		status, code = 0, 0 // it did not end by itself in time
		fallthrough
	case w.leaving != nil:
		w.end(ipc.EndExit, &status, "")
		return code
	}
	// Nobody will read what is written to the terminal if that fails.
	_ = w.terminal.write(line(w.kernel.lastLines()), errorText)
	if !w.ready {
		fmt.Fprintf(os.Stderr, "The kernel %s ended while it started (%s).\n", w.Spec.Name, cmp.Or(killed, fmt.Sprintf("exit status %d", code)))
		return max(code, 1)
	}
	if w.broken {
		w.end(ipc.EndCrash, nil, "the kernel closed a connection, or sent what no kernel may, and was ended")
		return 1
	}
	if killed != "" {
		w.end(ipc.EndCrash, nil, "the kernel's process died: "+killed)
		return code
	}
	w.end(ipc.EndExit, &status, fmt.Sprintf("the kernel's process ended by itself, with exit status %d", code))
	return code
}

// drain handles what the dead kernel had published.
func (w *worker) drain() {
	over := time.After(lastWords)
	for w.kernel.sockets != nil && w.iopub != nil {
		select {
		case m, ok := <-w.iopub:
			if m.Header.Type == "status" {
				continue
			}
			if err := w.published(m, ok); err != nil {
				return
			}
		case <-w.shell:
		case <-w.stdin:
		case <-w.control:
		case <-over:
			return
		}
	}
}

// clip makes a text of the kernel one that a frame may have.
func clip(text string) string {
	if len(text) > ipc.MaxTextBytes {
		text = text[:ipc.MaxTextBytes]
	}
	return strings.ToValidUTF8(text, "")
}

var _ io.Writer = (*tail)(nil)
