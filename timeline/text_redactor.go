package timeline

import (
	"github.com/turnstone-repl/turnstone/timeline/internal/redact"
)

// A textRedactor redacts the text events of a log, and knows to which of them a held-back text
// belongs.
type textRedactor struct {
	redact.Redactor
	lastText Event // the text event that was redacted last
}
