package sessions

import (
	"maps"
	"strings"

	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/timeline"
)

// sanitizeEvent returns an event with sanitized text. s keeps the state of the output between events.
func sanitizeEvent(s *cmdkit.TerminalSanitizer, e timeline.Event) timeline.Event {
	switch b := e.Body.(type) {
	case timeline.Text:
		b.Data = s.Sanitize(b.Data)
		e.Body = b
	case timeline.TurnStarted:
		b.Author, b.Input = cmdkit.PlainLine(b.Author), []byte(cmdkit.PlainText(string(b.Input)))
		e.Body = b
	case timeline.InputLine:
		b.Author, b.Prompt, b.Text = cmdkit.PlainLine(b.Author), cmdkit.PlainText(b.Prompt), cmdkit.PlainText(b.Text)
		if b.Keys {
			b.Text = cmdkit.PlainLine(b.Text)
		}
		e.Body = b
	case timeline.Interrupt:
		b.Author = cmdkit.PlainLine(b.Author)
		e.Body = b
	case timeline.Notice:
		b.Message = cmdkit.PlainText(b.Message)
		e.Body = b
	case timeline.Limit:
		b.Program = cmdkit.PlainLine(b.Program)
		e.Body = b
	case timeline.AccessDenied:
		e.Body = plainDenied(b)
	case timeline.AccessGranted:
		b.Author = cmdkit.PlainLine(b.Author) // String quotes the rest
		e.Body = b
	case timeline.InputRequested:
		b.Prompt, b.Reader, b.Denied = cmdkit.PlainText(b.Prompt), cmdkit.PlainLine(b.Reader), plainDenied(b.Denied)
		e.Body = b
	case timeline.TurnEnded:
		b.Name, b.Message, b.Prompt = cmdkit.PlainText(b.Name), cmdkit.PlainText(b.Message), cmdkit.PlainText(b.Prompt)
		e.Body = b
	case timeline.Display:
		e.Body = plainDisplay(b)
	case timeline.WorkerExited:
		b.Reason, b.Message, b.LastLine = cmdkit.PlainText(b.Reason), cmdkit.PlainText(b.Message), cmdkit.PlainText(b.LastLine)
		e.Body = b
	}
	return e
}

// plainDisplay returns a display with a sanitized title and text.
func plainDisplay(d timeline.Display) timeline.Display {
	d.Title, d.Data = cmdkit.PlainLine(d.Title), maps.Clone(d.Data)
	for mime, data := range d.Data {
		if strings.HasPrefix(mime, "text/") {
			d.Data[mime] = []byte(cmdkit.PlainText(string(data)))
		}
	}
	return d
}

// plainDenied returns a denial with a sanitized hint. The names are not changed: String quotes
// them, and without their invisible characters they would be other names.
func plainDenied(d timeline.AccessDenied) timeline.AccessDenied {
	d.Hint = cmdkit.PlainLine(d.Hint)
	return d
}
