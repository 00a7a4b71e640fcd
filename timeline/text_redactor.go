package timeline

import (
	"github.com/turnstone-repl/turnstone/timeline/internal/redact"
)

// A textRedactor redacts the text events of a log. It remembers to which event a held-back text
// belongs.
type textRedactor struct {
	redact.Redactor
	lastText Event // the text event that was redacted last; it begins an echo only while nothing of that was appended
}

// setLastText remembers an event with this text as its body.
func (r *textRedactor) setLastText(e Event, t Text) {
	e.Body = t
	r.lastText = e
}

// hasHeldBegin reports whether the held-back text is the beginning of an echo.
func (r *textRedactor) hasHeldBegin() bool {
	t, ok := r.lastText.Body.(Text)
	return ok && t.Begins
}
