package mcpserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/turnstone-repl/turnstone/cmd/internal/mcpserver/backend"
	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/timeline/render"
)

// renderReply makes a result of new events: text and images in order, then one bracketed line if
// the caller must know more.
func (sc *sessionCall) renderReply(ctx context.Context, r session.Reply) *mcp.CallToolResult {
	if !sc.call.clientProfile().ShowsRawResult {
		r.Events = rasterizeDrawings(ctx, r.Events)
	}
	if rewrite := sc.session.RewriteEvent; rewrite != nil {
		events := make([]timeline.Event, len(r.Events))
		for i, e := range r.Events {
			events[i] = rewrite(e)
		}
		r.Events = events
	}
	sc.hasOutput = hasEvent[timeline.Text](r)
	r.Events, sc.fullScreen = withoutAlternateScreen(dropRepeatedStarts(r.Events, sc.caller.hasFailedStart()), sc.fullScreen)
	rendering := sc.renderText(r)
	c := content{noImages: sc.call.clientProfile().ShowsRawResult}
	if sc.firstLine != "" {
		c.addLine("[" + sc.firstLine + "]")
	}
	for _, p := range rendering.Parts {
		if p.Image != nil {
			c.addImage(p.Image, sc.imageSide, sc.caller.imageStore())
		} else {
			c.addLine(p.Text)
		}
	}
	c.addUnnamedCount(sc.caller.imageStore())
	if r.InputRequest != nil {
		c.trimPrompt(timeline.TerminalText(r.InputRequest.Prompt)) // the state line shows it
	}
	failure := unseenError(r, rendering)
	dead := r.State == session.StateEnded && hasFailedStart(r)
	if dead && sc.ran {
		sc.refuseInput("no interpreter is available")
	}
	switch state := sc.stateLine(r); {
	case state != "":
		c.addLine(state)
	case failure != "":
		c.addLine(failure)
	case sc.isSilent(r):
		c.addLine("[" + doneText(r) + ", no output]")
	case len(c.blocks) > 0:
	case sc.ran, r.Outcome != "" && hasEvent[timeline.TurnEnded](r): // clients and models mishandle an empty result
		c.addLine("[" + doneText(r) + ", no output]")
	case sc.restarted: // a later call was faster
		c.addLine("[session restarted: state lost; another reply also reports this]")
	default:
		c.addLine("[" + r.State.String() + ", nothing new]")
	}
	result := &mcp.CallToolResult{Content: c.blocks, IsError: sc.refused || dead, Meta: mcp.Meta{
		"turnstone/session":     sc.caller.name,
		"turnstone/generation":  r.Generation,
		"turnstone/turn":        r.Turn,
		"turnstone/state":       r.State.String(),
		"turnstone/duration_ms": r.Elapsed.Milliseconds(),
		"turnstone/next_seq":    r.Next,
		"turnstone/elided":      rendering.Omitted,
	}}
	if r.Outcome != "" {
		result.Meta["turnstone/outcome"] = r.Outcome
	}
	if r.Prompt != "" {
		result.Meta["turnstone/prompt"] = r.Prompt
	}
	if r.InputRequest != nil {
		result.Meta["turnstone/wait"] = r.InputRequest.ID
	}
	return result
}

// isSilent reports whether the reply ends a turn without output. Everything else in the reply is
// then about the session, or an earlier turn.
func (sc *sessionCall) isSilent(r session.Reply) bool {
	if r.Outcome != timeline.OutcomeOK || !sc.ran && !hasEvent[timeline.TurnEnded](r) {
		return false
	}
	return !slices.ContainsFunc(r.Events, func(e timeline.Event) bool {
		switch e.Body.(type) {
		case timeline.Text, timeline.Display:
			return e.Turn == r.Turn
		}
		return false
	})
}

// reservedStateChars and reservedImageChars are reserved in a budget, for the state line and for
// the line about each image.
const (
	reservedStateChars = 1000
	reservedImageChars = 160
)

// renderText renders the text of a reply, within the client's budget.
func (sc *sessionCall) renderText(r session.Reply) render.Rendering {
	most := sc.call.replyBudget()
	rest := reservedStateChars
	for _, e := range r.Events {
		if d, ok := e.Body.(timeline.Display); ok && hasImage(d) {
			rest = min(rest+reservedImageChars, reservedStateChars+(maxImages+maxNamedImages)*reservedImageChars)
		}
	}
	if areLinesAlike(r.Events) {
		most.Chars = min(most.Chars, maxAlikeChars+rest)
	}
	o := render.Options{
		MaxChars:   most.Chars - rest,
		OutputPath: sc.session.TranscriptName(),
		Self:       sc.session.Author(),
		FoldFrames: true,
	}
	for {
		rendering := render.Events(r.Events, &o)
		size := 0
		for _, p := range rendering.Parts {
			size += len(p.Text)
		}
		// A character has at most four bytes, so a quarter of the bound always fits.
		if most.Bytes == 0 || size <= most.Bytes-rest || o.MaxChars < most.Bytes/4 {
			return rendering
		}
		o.MaxChars = o.MaxChars * 3 / 4
	}
}

// unseenError returns an error of the turn that its output does not show, because user code has
// closed or replaced the stream.
func unseenError(r session.Reply, seen render.Rendering) string {
	if r.Outcome != timeline.OutcomeError {
		return ""
	}
	for _, e := range slices.Backward(r.Events) {
		end, ok := e.Body.(timeline.TurnEnded)
		if !ok || e.Turn != r.Turn {
			continue
		}
		short := end.Name[strings.LastIndexByte(end.Name, '.')+1:] // without its module, as in tracebacks
		if end.Name == "" || strings.Contains(seen.Text(), short) {
			return ""
		}
		line := strings.TrimSuffix(end.Name+": "+end.Message, ": ")
		return "[error: " + text.Shorten(withoutControls(line), maxPromptChars) + "]"
	}
	return ""
}

// content collects the blocks of a result and counts its images.
type content struct {
	blocks      []mcp.Content
	images      int
	namedImages int // images that are not shown
	bytes       int // of the shown images

	readingTime time.Duration // spent on decoding images

	noImages bool // no image may be shown
}

// addLine adds text on a new line.
func (c *content) addLine(text string) {
	text = strings.TrimSuffix(text, "\n")
	if n := len(c.blocks); n > 0 {
		if last, ok := c.blocks[n-1].(*mcp.TextContent); ok {
			last.Text += "\n" + text
			return
		}
	}
	c.blocks = append(c.blocks, &mcp.TextContent{Text: text})
}

// trimPrompt removes a prompt from the end.
func (c *content) trimPrompt(prompt string) {
	n := len(c.blocks)
	if n == 0 {
		return
	}
	last, ok := c.blocks[n-1].(*mcp.TextContent)
	if !ok {
		return
	}
	last.Text = strings.TrimSuffix(last.Text, prompt)
	if last.Text == "" {
		c.blocks = c.blocks[:n-1]
	}
	last.Text = strings.TrimSuffix(last.Text, "\n")
}

// doneText says how a turn ended, and how long it took if that was a second or more.
func doneText(r session.Reply) string {
	text := map[timeline.Outcome]string{
		timeline.OutcomeOK: "done", timeline.OutcomeError: "an error ended it", timeline.OutcomeEnded: "the session ended",
	}[r.Outcome]
	if r.Elapsed >= time.Second {
		text += fmt.Sprintf(" after %.1f s", r.Elapsed.Seconds())
	}
	return text
}

// stateLine returns the bracketed line of a reply; it may be "". A refused input comes first,
// because otherwise a model would take the rest for the result of its own code.
func (sc *sessionCall) stateLine(r session.Reply) string {
	state, advice := sc.stateAndAdvice(r)
	var facts []string
	if sc.refused {
		reason := sc.refusal
		if reason == "" && state == "" {
			reason = "other code was running, and has ended since: send it again"
		}
		if reason == "" {
			reason, state = state, ""
		}
		facts = append(facts, inputNotRun+": "+reason)
	}
	if state != "" {
		facts = append(facts, state)
	}
	facts = append(facts, sc.notices...)
	if notice := sc.outageNotice(); notice != "" {
		facts = append(facts, notice)
	}
	if sc.deniedReads > 0 {
		facts = append(facts, "standard input is at its end: --stdin deny")
	}
	if len(facts) == 0 {
		return ""
	}
	if state == "" && !sc.refused && sc.isSilent(r) {
		facts = append([]string{doneText(r) + ", no output"}, facts...)
	}
	return "[" + strings.Join(facts, "; ") + advice + "]"
}

// inputNotRun starts the line about a refused input.
const inputNotRun = "your input was NOT run"

// stateAndAdvice describes the state of the session, and what the model can do; both may be "".
func (sc *sessionCall) stateAndAdvice(r session.Reply) (state, advice string) {
	switch {
	case r.InputRequest != nil:
		if !sc.stdin.allowsModel(r.InputRequest) {
			advice = sc.requestAdvice(r.InputRequest)
		}
		return inputRequestText(r.InputRequest, sc.fullScreen), advice
	case r.State == session.StateEnded && hasFailedStart(r):
		return startAdvice, ""
	case r.State == session.StateEnded:
		if !hasEvent[timeline.WorkerExited](r) {
			return "the session ended: input starts a new one", ""
		}
	case r.Outcome == timeline.OutcomeInterrupted && (sc.ran || hasEvent[timeline.TurnEnded](r)):
		return fmt.Sprintf("interrupted after %.1f s", r.Elapsed.Seconds()) + sc.outputElsewhere(r), ""
	case r.Outcome != "":
		// The text of the turn shows how it ended, if it is in this reply.
		if where := sc.outputElsewhere(r); where != "" {
			return doneText(r) + where, ""
		}
	case r.State == session.StateStarting:
		return fmt.Sprintf("starting %.1f s", r.Elapsed.Seconds()), ": call repl_output to wait, repl_reset to start again"
	case r.State == session.StateRunning && sc.ignoredInterrupts == 1:
		return "still running " + progressText(r) + ": the interrupt had no effect yet", ". Interrupt again, which is harder to ignore, or repl_reset"
	case r.State == session.StateRunning && sc.ignoredInterrupts > 1:
		return fmt.Sprintf("still running %s: %d interrupts had no effect", progressText(r), sc.ignoredInterrupts), ". repl_reset ends it, and its variables are lost"
	case r.State == session.StateRunning, r.State == session.StateStopping:
		state = r.State.String() + " " + progressText(r)
		if sc.refused && sc.refusal == "" {
			state = "the session is still " + state
		}
		return state, ": call repl_output to wait, repl_interrupt to stop"
	}
	return "", ""
}

// outputElsewhere reports that another call has received all output of the turn that this call
// started. Each piece is delivered once.
func (sc *sessionCall) outputElsewhere(r session.Reply) string {
	if !sc.started || r.OutputBytes == 0 || sc.hasOutput {
		return ""
	}
	return "; its output is in the reply to another call"
}

// dropRepeatedStarts removes the events of a worker that did not start if the next one did not
// start either, because they say the same. It also removes the start of that next worker: nothing
// was restarted, and no state is lost. before is true if the last worker before events did not
// start.
func dropRepeatedStarts(events []timeline.Event, before bool) []timeline.Event {
	neverReady := make(map[uint64]bool)
	for _, e := range events {
		switch b := e.Body.(type) {
		case timeline.WorkerStarted:
			if _, known := neverReady[e.Generation-1]; !known && before {
				neverReady[e.Generation-1] = true
			}
		case timeline.WorkerExited:
			neverReady[e.Generation] = b.NeverReady
		}
	}
	if len(neverReady) == 0 {
		return events
	}
	return slices.DeleteFunc(slices.Clone(events), func(e timeline.Event) bool {
		if _, started := e.Body.(timeline.WorkerStarted); started && neverReady[e.Generation-1] {
			return true
		}
		return neverReady[e.Generation] && neverReady[e.Generation+1]
	})
}

// hasFailedStart reports whether the last worker in r ended before it was ready.
func hasFailedStart(r session.Reply) bool {
	for _, e := range slices.Backward(r.Events) {
		if end, ok := e.Body.(timeline.WorkerExited); ok {
			return end.NeverReady
		}
	}
	return false
}

// hasEvent reports whether a reply has an event of this kind.
func hasEvent[B timeline.Body](r session.Reply) bool {
	return slices.ContainsFunc(r.Events, func(e timeline.Event) bool {
		_, ok := e.Body.(B)
		return ok
	})
}

// inputRequestText describes an input request. It leaves out the drawing of a full-screen
// program, which is not a prompt.
func inputRequestText(w *session.InputRequest, fullScreen bool) string {
	switch {
	case w.Permission != nil:
		return permissionText(w)
	case w.Form != nil:
		return "waiting for the user: " + oneLine(w.Form.Question())
	}
	if fullScreen && w.Terminal && !w.Secret {
		return "waiting for input (full-screen program " + w.Reader + "): answer with keys, or repl_interrupt"
	}
	state := "waiting for input"
	if w.Secret {
		state = "waiting for a secret"
	}
	var about []string
	if w.Terminal && w.Reader != "" {
		about = append(about, w.Reader)
	}
	if w.Kind == timeline.InputKindDebugger || w.Kind == timeline.InputKindContinue {
		about = append(about, string(w.Kind))
	}
	if len(about) > 0 {
		state += " (" + strings.Join(about, ", ") + ")"
	}
	if prompt := timeline.TerminalText(w.Prompt); prompt != "" {
		state += fmt.Sprintf(": %q", text.ShortenStart(prompt, maxPromptChars))
	}
	return state
}

// progressText describes the progress of a turn.
func progressText(r session.Reply) string {
	output := "no output so far"
	if r.OutputBytes > 0 {
		output = timeline.FormatBytes(r.OutputBytes) + " so far"
	}
	return fmt.Sprintf("%.1f s, %s%s", r.Elapsed.Seconds(), output, openCallsText(r.PendingCalls))
}

// openCallsText names the host functions that a turn waits for. It skips functions that return
// quickly.
func openCallsText(list []session.PendingCall) string {
	const slow, most = 500 * time.Millisecond, 3
	list = slices.DeleteFunc(slices.Clone(list), func(c session.PendingCall) bool { return time.Since(c.Since) < slow })
	text := ""
	for i, c := range list[:min(len(list), most)] {
		text += ", "
		if i == 0 {
			text += "calling "
		}
		text += c.Name
		if c.Running > 1 {
			text += fmt.Sprintf(" × %d", c.Running)
		}
		text += fmt.Sprintf(" for %.1f s", time.Since(c.Since).Seconds())
	}
	if len(list) > most {
		text += fmt.Sprintf(" and %d more", len(list)-most)
	}
	return text
}

// lastOutputLine returns the last line of the turn's output for a user: short, and without
// control characters.
func lastOutputLine(r session.Reply) string {
	const maxBytes, maxChars = 4 << 10, 120 // examined bytes, shown characters
	var output []byte
	for _, e := range slices.Backward(r.Events) {
		if b, ok := e.Body.(timeline.Text); ok && e.Turn == r.Turn && !e.BetweenTurns {
			output = slices.Concat(b.Data[max(0, len(b.Data)-maxBytes):], output)
		}
		if len(output) >= maxBytes {
			_, output, _ = bytes.Cut(output, []byte("\n")) // the first line lacks its beginning
			break
		}
	}
	lines := strings.FieldsFunc(timeline.TerminalText(string(output)), func(c rune) bool { return c == '\n' })
	for _, line := range slices.Backward(lines) {
		line = strings.TrimSpace(strings.Map(func(c rune) rune {
			if unicode.Is(unicode.Cf, c) || unicode.IsControl(c) {
				return -1
			}
			return c
		}, line))
		if line != "" {
			return ": " + text.Shorten(line, maxChars)
		}
	}
	return ""
}

// textResult returns a result with one text.
func textResult(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}

// resultText returns the text of a result that starts with one.
func resultText(r *mcp.CallToolResult) string {
	if t, ok := r.Content[0].(*mcp.TextContent); ok {
		return t.Text
	}
	return ""
}

// maxErrorChars bounds the text of an error, which may quote an argument of any size.
const maxErrorChars = 4000

// errorResult returns an error of this server, or about the arguments, in a form that a model can
// act on.
func errorResult(err error) *mcp.CallToolResult {
	message := text.Shorten(err.Error(), maxErrorChars)
	if kind := session.KindOf(err); kind == session.KindStart || kind == session.KindSpec {
		message += "\n[" + startAdvice + "]"
	}
	result := textResult(message)
	result.IsError = true
	return result
}

// sessionErrorResult returns the result for an error of the session, or nil if ctx ended. It
// forgets a session that no longer exists, so the next call creates another.
func (sc *sessionCall) sessionErrorResult(ctx context.Context, err error) *mcp.CallToolResult {
	switch {
	case ctx.Err() != nil:
		return nil
	case errors.Is(err, session.ErrClosed):
		sc.sessions.removeSession(sc.caller)
		return errorResult(errors.New("this session no longer exists, and its variables are lost: it was closed, or its daemon ended; the next call starts a new one"))
	}
	return errorResult(err)
}

// startAdvice tells the model what to do without an interpreter.
const startAdvice = "the next input tries again; if that fails too, tell the user to run repl doctor in a terminal"

// openErrorResult returns why a session could not be opened.
func (s *server) openErrorResult(err error) *mcp.CallToolResult {
	if failed, ok := errors.AsType[*backend.PrepareError](err); ok {
		return errorResult(fmt.Errorf("%w\n[no session was opened and nothing was run. The next call tries again; if that fails too, tell the user, who chose this when starting the server (--with)]", failed))
	}
	if !errors.Is(err, session.ErrLimit) {
		return errorResult(err)
	}
	var names []string
	for _, v := range s.sessions.allSessions() {
		names = append(names, v.name)
	}
	if len(names) == 0 {
		return errorResult(errors.New("too many sessions: all belong to other clients; call again when one of them has ended"))
	}
	return errorResult(fmt.Errorf("too many sessions: use one of %s, or close one (repl_reset, close: true)", joinNames(names, "or", "")))
}

func hasImage(d timeline.Display) bool {
	_, _, ok := d.ImageData()
	return ok
}
