package timeline

import (
	"github.com/turnstone-repl/turnstone/timeline/internal/event"
)

// A Transcript converts events to the text of a session, as in output.txt: nothing is folded or
// left out. The zero value is ready to use.
type Transcript struct{ printer event.TranscriptPrinter }

// Add adds an event and returns the text that is final by then: all but the last line, which
// later events may rewrite.
func (t *Transcript) Add(e Event) []byte {
	t.printer.PrintEvent(e)
	return t.takeText()
}

// Flush returns the unfinished last line. Later events do not change it any more.
func (t *Transcript) Flush() []byte {
	t.printer.CommitLine()
	return t.takeText()
}

// takeText returns the final text, which is valid until the next call.
func (t *Transcript) takeText() []byte {
	text := t.printer.Out
	t.printer.Out = t.printer.Out[:0]
	return text
}
