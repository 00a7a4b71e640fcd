package cli

import (
	"maps"
	"strings"

	"github.com/turnstone-repl/turnstone/timeline"
)

// sanitizeEvent returns an event with sanitized text. s has the state of the
// output between events.
func sanitizeEvent(s *terminalSanitizer, e timeline.Event) timeline.Event {
	switch b := e.Body.(type) {
	case timeline.Text:
		b.Data = s.sanitize(b.Data)
		e.Body = b
	case timeline.TurnStarted:
		b.Author, b.Input = plainLine(b.Author), []byte(plainText(string(b.Input)))
		e.Body = b
	case timeline.InputLine:
		b.Author, b.Prompt, b.Text = plainLine(b.Author), plainText(b.Prompt), plainText(b.Text)
		e.Body = b
	case timeline.Interrupt:
		b.Author = plainLine(b.Author)
		e.Body = b
	case timeline.Notice:
		b.Message = plainText(b.Message)
		e.Body = b
	case timeline.Limit:
		b.Program = plainLine(b.Program)
		e.Body = b
	case timeline.AccessDenied:
		e.Body = plainDenied(b)
	case timeline.AccessGranted:
		b.Author = plainLine(b.Author) // String quotes the rest
		e.Body = b
	case timeline.InputRequested:
		b.Prompt, b.Denied = plainText(b.Prompt), plainDenied(b.Denied)
		e.Body = b
	case timeline.TurnEnded:
		b.Name, b.Message, b.Prompt = plainText(b.Name), plainText(b.Message), plainText(b.Prompt)
		e.Body = b
	case timeline.Display:
		e.Body = plainDisplay(b)
	case timeline.WorkerExited:
		b.Reason, b.Message, b.LastLine = plainText(b.Reason), plainText(b.Message), plainText(b.LastLine)
		e.Body = b
	}
	return e
}

// plainDisplay returns a display with a sanitized title and text.
func plainDisplay(d timeline.Display) timeline.Display {
	d.Title, d.Data = plainLine(d.Title), maps.Clone(d.Data)
	for mime, data := range d.Data {
		if strings.HasPrefix(mime, "text/") {
			d.Data[mime] = []byte(plainText(string(data)))
		}
	}
	return d
}

// plainDenied returns a denial with a sanitized command. Its String quotes the names: without their
// invisible characters they would be other names.
func plainDenied(d timeline.AccessDenied) timeline.AccessDenied {
	d.Hint = plainLine(d.Hint)
	return d
}
