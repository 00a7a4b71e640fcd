package reply

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/turnstone-repl/turnstone/internal/mcpserver/clientprofile"
	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// alternateScreen matches the switches of a terminal's mode for full-screen programs. On a real
// terminal, their drawing also disappears when they leave it.
var alternateScreen = text.Pattern(`\x1b\[\?(?:1049|1047|47)([hl])`)

// A mainScreen has the events without the text on the alternate screen.
type mainScreen struct {
	events     []timeline.Event
	now        bool // the terminal is on its alternate screen at their end
	hasDrawing bool // text was left out
}

// withoutAlternateScreen removes the text on the alternate screen from events. before is the mode
// of the terminal at their start. A switch in omitted text is not seen, and then the drawing is
// shown. So is the text of a turn after the last switch, if the turn ends without leaving the
// alternate screen: its code may have printed a result there. Each turn starts on the main screen.
func withoutAlternateScreen(events []timeline.Event, before bool) mainScreen {
	var rest, behind []timeline.Event
	now, drawing := before, false
	for i, e := range events {
		text, ok := e.Body.(timeline.Text)
		switch {
		case endsScreen(e):
			rest = append(rest, plainTextOf(behind)...)
			now, behind = false, nil
		case ok && !e.BetweenTurns && (now || alternateScreen().Match(text.Data)):
			if rest == nil {
				rest = append(make([]timeline.Event, 0, len(events)), events[:i]...)
			}
			split := splitAtSwitches(e, text, now)
			rest = append(rest, split.main...)
			if split.switched {
				behind = nil
			}
			behind = append(behind, split.last...)
			now, drawing = split.now, true
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

// endsScreen reports whether the terminal is on its main screen after an event that is no text: the
// programs of a turn end with it.
func endsScreen(e timeline.Event) bool {
	switch e.Body.(type) {
	case timeline.TurnStarted, timeline.TurnEnded:
		return true
	}
	return false
}

// A splitText has the pieces of a text on each screen.
type splitText struct {
	main     []timeline.Event // on the main screen
	last     []timeline.Event // on the alternate screen, after the last switch
	switched bool             // the text has a switch
	now      bool             // the terminal is on its alternate screen at the end of the text
}

// splitAtSwitches splits a text. before is the mode of the terminal at its start.
func splitAtSwitches(e timeline.Event, text timeline.Text, before bool) splitText {
	split := splitText{now: before}
	data, line := text.Data, e.Line
	for {
		end, next := len(data), len(data)
		switched := alternateScreen().FindSubmatchIndex(data)
		if switched != nil {
			end, next = switched[0], switched[1]
		}
		piece := withText(e, line, text, data[:end])
		switch {
		case end == 0:
		case split.now:
			split.last = append(split.last, piece)
		default:
			split.main = append(split.main, piece)
		}
		if switched == nil {
			return split
		}
		if turnsOn := data[switched[2]] == 'h'; turnsOn != split.now {
			split.switched, split.now, split.last = true, turnsOn, nil
		}
		line = lineAfter(line, data[:next])
		data = data[next:]
	}
}

// withText returns the event of a text with other data, which begins in a line of the output file.
func withText(e timeline.Event, line int, text timeline.Text, data []byte) timeline.Event {
	text.Data = data
	e.Line, e.Body = line, text
	return e
}

// lineAfter returns the number of the line after some text; 0 is unknown.
func lineAfter(line int, text []byte) int {
	if line > 0 {
		line += bytes.Count(text, []byte("\n"))
	}
	return line
}

var (
	// cursorMovement matches what only a drawing contains: a new place of the cursor, or the removal
	// of text.
	cursorMovement = text.Pattern(`\x1b(?:\[[0-9;]*[A-HJLMSTXdf]|[78M])`)

	// rowMovement matches the movements that start another piece of a drawing.
	rowMovement = text.Pattern(`\x1b\[[0-9;]*[A-FHdf]`)
)

// maxLeftDrawing bounds what is shown of a drawing that was left on the alternate screen, in bytes.
const maxLeftDrawing = 1000

// plainTextOf returns the text of a screen that was left behind. Text after the last movement of the
// cursor was printed as usual, and is not changed. The text before it is the drawing. Only the end of
// the drawing is shown, and each of its pieces has a line.
func plainTextOf(behind []timeline.Event) []timeline.Event {
	lastDrawn := -1
	for i, e := range behind {
		if cursorMovement().Match(e.Body.(timeline.Text).Data) {
			lastDrawn = i
		}
	}
	if lastDrawn < 0 {
		return behind
	}
	var drawn []byte
	for _, e := range behind[:lastDrawn] {
		drawn = append(drawn, e.Body.(timeline.Text).Data...)
	}
	last := behind[lastDrawn]
	text := last.Body.(timeline.Text)
	movements := cursorMovement().FindAllIndex(text.Data, -1)
	end := movements[len(movements)-1][1]
	drawn = append(drawn, text.Data[:end]...)
	plain := []timeline.Event{withText(behind[0], 0, text, endOfDrawing(drawn))}
	if rest := text.Data[end:]; len(rest) > 0 {
		plain = append(plain, withText(last, lineAfter(last.Line, text.Data[:end]), text, rest))
	}
	return append(plain, behind[lastDrawn+1:]...)
}

// endOfDrawing returns the last pieces of a drawing, one a line.
func endOfDrawing(drawn []byte) []byte {
	pieces := strings.Split(timeline.TerminalText(rowMovement().ReplaceAllString(string(drawn), "\n")), "\n")
	pieces = slices.DeleteFunc(pieces, func(piece string) bool { return strings.TrimSpace(piece) == "" })
	first, size := len(pieces), 0
	for first > 0 && size+len(pieces[first-1]) < maxLeftDrawing {
		first--
		size += len(pieces[first]) + 1
	}
	shown := ""
	if first > 0 {
		shown = fmt.Sprintf("… %d lines of a full-screen drawing are left out …\n", first)
	}
	for _, piece := range pieces[first:] {
		shown += piece + "\n"
	}
	return []byte(shown)
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
