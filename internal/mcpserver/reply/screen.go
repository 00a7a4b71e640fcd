package reply

import (
	"bytes"
	"regexp"

	"github.com/turnstone-repl/turnstone/timeline"
)

// alternateScreen matches the switches of a terminal's mode for full-screen programs. On a real
// terminal, their drawing also disappears when they leave it.
var alternateScreen = regexp.MustCompile(`\x1b\[\?(?:1049|1047|47)([hl])`)

// withoutAlternateScreen removes the text on the alternate screen from events, and returns
// whether the terminal is in that mode at their end. before is the mode at their start. A switch
// in omitted text is not seen, and then the drawing is shown.
func withoutAlternateScreen(events []timeline.Event, before bool) (rest []timeline.Event, now bool) {
	now = before
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
			continue
		}
		if rest != nil {
			rest = append(rest, e)
		}
	}
	if rest == nil {
		rest = events
	}
	return rest, now
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
