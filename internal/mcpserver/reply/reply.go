package reply

import (
	"context"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/timeline/render"
)

// A Rendered is a result, with the facts that the server must remember about it.
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
	rest := withoutAlternateScreen(dropRepeatedStarts(r.Events, s.StartFailed), s.FullScreen)
	r.Events, s.FullScreen = withKeysHint(rest.events), rest.now
	screen := s.drawnScreen(ctx, r, rest.hasDrawing)
	rendering := s.renderText(r, screen)
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
	if screen != "" {
		c.addLine(screen)
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

// ReservedStateChars characters of a budget are reserved for the state line, and reservedImageChars
// for the line about each image.
const (
	ReservedStateChars = 1000
	reservedImageChars = 160
)

// renderText renders the text of a reply, within what a screen leaves of the client's budget.
func (s *CallState) renderText(r session.Reply, screen string) render.Rendering {
	most := s.Profile.ReplyBudget()
	most.Chars -= utf8.RuneCountInString(screen)
	if most.Bytes > 0 {
		most.Bytes -= len(screen)
	}
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
