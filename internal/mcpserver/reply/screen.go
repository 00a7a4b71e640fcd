package reply

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/turnstone-repl/turnstone/internal/mcpserver/clientprofile"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// alternateScreen matches the switches of a terminal's mode for full-screen programs. On a real
// terminal, their drawing also disappears when they leave it.
var alternateScreen = regexp.MustCompile(`\x1b\[\?(?:1049|1047|47)([hl])`)

// A mainScreen has the events without the text on the alternate screen.
type mainScreen struct {
	events     []timeline.Event
	now        bool // the terminal is on its alternate screen at their end
	hasDrawing bool // text was left out
}

// withoutAlternateScreen removes the text on the alternate screen from events. before is the mode
// of the terminal at their start. A switch in omitted text is not seen, and then the drawing is
// shown.
func withoutAlternateScreen(events []timeline.Event, before bool) mainScreen {
	var rest []timeline.Event
	now, drawing := before, false
	for i, e := range events {
		text, ok := e.Body.(timeline.Text)
		_, ended := e.Body.(timeline.TurnEnded)
		switch {
		case ended: // and so has the program that drew
			now = false
		case ok && (now || alternateScreen.Match(text.Data)):
			if rest == nil {
				rest = append(make([]timeline.Event, 0, len(events)), events[:i]...)
			}
			rest, now = appendMainScreen(rest, e, text, now)
			drawing = true
			continue
		}
		if rest != nil {
			rest = append(rest, e)
		}
	}
	if rest == nil {
		rest = events
	}
	return mainScreen{rest, now, drawing}
}

// appendMainScreen adds the pieces of a text that are not on the alternate screen.
func appendMainScreen(to []timeline.Event, e timeline.Event, text timeline.Text, drawing bool) ([]timeline.Event, bool) {
	data, line := text.Data, e.Line
	for {
		end, next := len(data), len(data)
		switched := alternateScreen.FindSubmatchIndex(data)
		if switched != nil {
			end, next = switched[0], switched[1]
		}
		if !drawing && end > 0 {
			e.Line = line
			e.Body = timeline.Text{Stream: text.Stream, Data: data[:end]}
			to = append(to, e)
		}
		if switched == nil {
			return to, drawing
		}
		drawing = data[switched[2]] == 'h'
		if line > 0 {
			line += bytes.Count(data[:next], []byte("\n"))
		}
		data = data[next:]
	}
}

// minTextChars characters of a budget are left for text with a screen.
const minTextChars = 1000

// drawnScreen returns the screen of the full-screen program that draws at the end of a reply, or "".
// It stands for the text that was removed, and shows a caller the effect of its own input. Keys
// need no switch of modes among the events, which may be too old to be seen.
func (s *CallState) drawnScreen(ctx context.Context, r session.Reply, hasDrawing bool) string {
	wanted := s.TypesKeys && !s.Refused || s.FullScreen && (s.Ran || hasDrawing)
	if s.ReadScreen == nil || !wanted || !r.State.IsActive() {
		return ""
	}
	screen, err := s.ReadScreen(ctx)
	if err != nil || !screen.FullScreen { // the program has ended since
		return ""
	}
	s.showsDrawn = true
	most := s.Profile.ReplyBudget()
	most.Chars -= minTextChars
	if most.Bytes > 0 {
		most.Bytes -= minTextChars
	}
	return ScreenText(screen, most)
}

// ScreenText returns the text of a screen. Lines in its middle are left out if they exceed the
// budget.
func ScreenText(screen session.Screen, most clientprofile.TextBudget) string {
	lines := screen.Lines
	chars, size := most.Chars-ReservedStateChars, most.Bytes-ReservedStateChars
	take := func(line string) bool {
		chars -= utf8.RuneCountInString(line) + 1
		size -= len(line) + 1
		return chars >= 0 && (most.Bytes == 0 || size >= 0)
	}
	first, last := 0, len(lines)
	for first < last && take(lines[first]) {
		if first++; first == last || !take(lines[last-1]) {
			break
		}
		last--
	}
	if first < last {
		screen.Lines = slices.Concat(lines[:first], []string{fmt.Sprintf("… %d lines of the screen are left out …", last-first)}, lines[last:])
	}
	return screen.RenderText()
}

// typedWithoutEnter starts the notice of a session that it has typed an answer without Enter.
const typedWithoutEnter = "typed without Enter: "

// withKeysHint says in the notices of a session how a model types Enter.
func withKeysHint(events []timeline.Event) []timeline.Event {
	isAbout := func(e timeline.Event) bool {
		b, ok := e.Body.(timeline.Notice)
		return ok && strings.HasPrefix(b.Message, typedWithoutEnter)
	}
	if !slices.ContainsFunc(events, isAbout) {
		return events
	}
	events = slices.Clone(events)
	for i, e := range events {
		if isAbout(e) {
			message := e.Body.(timeline.Notice).Message
			events[i].Body = timeline.Notice{Message: strings.Replace(message, "type <Enter>", enterHint, 1)}
		}
	}
	return events
}

// enterHint is how a model types Enter.
const enterHint = `keys: "<Enter>"`
