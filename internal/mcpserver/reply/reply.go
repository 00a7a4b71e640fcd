package reply

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/turnstone-repl/turnstone/internal/mcpserver/clientprofile"
	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/timeline/render"
)

// A CallState is what a reply says besides the events: facts about a call, its caller and its
// session.
type CallState struct {
	Session        string // its name
	TranscriptName string // how replies name the rendered transcript
	Author         string // of the caller's turns

	// RewriteEvent adapts an event of the session for this client; it may be nil.
	RewriteEvent func(timeline.Event) timeline.Event

	Profile   clientprofile.Profile
	Images    *ImageStore
	ImageSide int

	FirstLine     string   // of the reply; may be ""
	Facts         []string // for the state line
	RequestAdvice string   // what the model can do about an input request that it must not answer

	FullScreen  bool // before the events, the terminal is on its alternate screen
	StartFailed bool // the last worker before the events did not start

	Ran               bool   // the call started or continued a turn
	Started           bool   // the call started the turn
	Restarted         bool   // the call has restarted the interpreter
	Refused           bool   // the input was not used
	Refusal           string // why, if the state does not say it
	IgnoredInterrupts int    // ineffective interrupts of the running turn

	hasOutput bool // the reply has output, even if it is not shown
}

// A Rendered is a result, and what the server must remember of it.
type Rendered struct {
	Result     *mcp.CallToolResult
	FullScreen bool // after the events, the terminal is on its alternate screen
	Refused    bool // the result says that the input was not used
}

// Render makes a result of new events: text and images in order, then one bracketed line if
// the caller must know more.
func Render(ctx context.Context, state CallState, r session.Reply) Rendered {
	s := &state
	if !s.Profile.ShowsRawResult {
		r.Events = rasterizeDrawings(ctx, r.Events)
	}
	if rewrite := s.RewriteEvent; rewrite != nil {
		events := make([]timeline.Event, len(r.Events))
		for i, e := range r.Events {
			events[i] = rewrite(e)
		}
		r.Events = events
	}
	s.hasOutput = HasEvent[timeline.Text](r)
	r.Events, s.FullScreen = withoutAlternateScreen(dropRepeatedStarts(r.Events, s.StartFailed), s.FullScreen)
	rendering := s.renderText(r)
	c := content{noImages: s.Profile.ShowsRawResult}
	if s.FirstLine != "" {
		c.addLine("[" + s.FirstLine + "]")
	}
	for _, p := range rendering.Parts {
		if p.Image != nil {
			c.addImage(p.Image, s.ImageSide, s.Images)
		} else {
			c.addLine(p.Text)
		}
	}
	c.addUnnamedCount(s.Images)
	if r.InputRequest != nil {
		c.trimPrompt(timeline.TerminalText(r.InputRequest.Prompt)) // the state line shows it
	}
	failure := unseenError(r, rendering)
	dead := r.State == session.StateEnded && HasFailedStart(r)
	if dead && s.Ran {
		s.Refused, s.Refusal = true, "no interpreter is available"
	}
	switch line := s.stateLine(r); {
	case line != "":
		c.addLine(line)
	case failure != "":
		c.addLine(failure)
	case s.isSilent(r):
		c.addLine("[" + doneText(r) + ", no output]")
	case len(c.blocks) > 0:
	case s.Ran, r.Outcome != "" && HasEvent[timeline.TurnEnded](r): // clients and models mishandle an empty result
		c.addLine("[" + doneText(r) + ", no output]")
	case s.Restarted: // a later call was faster
		c.addLine("[session restarted: state lost; another reply also reports this]")
	default:
		c.addLine("[" + r.State.String() + ", nothing new]")
	}
	result := &mcp.CallToolResult{Content: c.blocks, IsError: s.Refused || dead, Meta: mcp.Meta{
		"turnstone/session":     s.Session,
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
	return Rendered{Result: result, FullScreen: s.FullScreen, Refused: s.Refused}
}

// isSilent reports whether the reply ends a turn without output. Everything else in the reply is
// then about the session, or an earlier turn.
func (s *CallState) isSilent(r session.Reply) bool {
	if r.Outcome != timeline.OutcomeOK || !s.Ran && !HasEvent[timeline.TurnEnded](r) {
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

// ReservedStateChars characters of a budget are reserved for the state line, and reservedImageChars
// for the line about each image.
const (
	ReservedStateChars = 1000
	reservedImageChars = 160
)

// renderText renders the text of a reply, within the client's budget.
func (s *CallState) renderText(r session.Reply) render.Rendering {
	most := s.Profile.ReplyBudget()
	rest := ReservedStateChars
	for _, e := range r.Events {
		if d, ok := e.Body.(timeline.Display); ok && hasImage(d) {
			rest = min(rest+reservedImageChars, ReservedStateChars+(maxImages+maxNamedImages)*reservedImageChars)
		}
	}
	if areLinesAlike(r.Events) {
		most.Chars = min(most.Chars, maxAlikeChars+rest)
	}
	o := render.Options{
		MaxChars:   most.Chars - rest,
		OutputPath: s.TranscriptName,
		Self:       s.Author,
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
func (c *content) addLine(text string) { c.blocks = AddLine(c.blocks, text) }

// AddLine adds text on a new line to the content of a result.
func AddLine(blocks []mcp.Content, text string) []mcp.Content {
	text = strings.TrimSuffix(text, "\n")
	if n := len(blocks); n > 0 {
		if last, ok := blocks[n-1].(*mcp.TextContent); ok {
			last.Text += "\n" + text
			return blocks
		}
	}
	return append(blocks, &mcp.TextContent{Text: text})
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

// HasFailedStart reports whether the last worker in r ended before it was ready.
func HasFailedStart(r session.Reply) bool {
	for _, e := range slices.Backward(r.Events) {
		if end, ok := e.Body.(timeline.WorkerExited); ok {
			return end.NeverReady
		}
	}
	return false
}

// HasEvent reports whether a reply has an event of this kind.
func HasEvent[B timeline.Body](r session.Reply) bool {
	return slices.ContainsFunc(r.Events, func(e timeline.Event) bool {
		_, ok := e.Body.(B)
		return ok
	})
}

func hasImage(d timeline.Display) bool {
	_, _, ok := d.ImageData()
	return ok
}
