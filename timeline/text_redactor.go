package timeline

import (
	"github.com/turnstone-repl/turnstone/timeline/internal/redact"
)

// A textRedactor redacts the text events of a log. It remembers to which event a held-back text
// belongs.
type textRedactor struct {
	redact.Redactor
	lastText Event // the text event that was redacted last
}
