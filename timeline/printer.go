package timeline

import (
	"bytes"

	"github.com/turnstone-repl/turnstone/internal/text"
)

// A linePrinter is a lineScreen that also prints paragraphs, labels and the ends of input lines.
type linePrinter struct {
	lineScreen
	awaitsInput bool // an input request is open; its answer ends the line on the screen
}

// printParagraph adds text on lines of its own.
func (p *linePrinter) printParagraph(text string) {
	p.breakLine()
	p.write(0, []byte(text))
	p.flush()
	p.breakLine()
}

// endTurn clears unfinished state of a turn.
func (p *linePrinter) endTurn() {
	p.flush()
	p.awaitsInput = false
}

// endInputLine ends the line that asked for input, as the Enter key does.
func (p *linePrinter) endInputLine(prompt string) {
	if p.awaitsInput || p.lineEndsWith(prompt) {
		p.breakLine()
	}
	p.awaitsInput = false
}

// lineEndsWith reports whether the last line ends with this prompt.
func (p *linePrinter) lineEndsWith(prompt string) bool {
	if prompt == "" || len(p.line) == 0 {
		return false
	}
	var q lineScreen
	q.write(0, []byte(prompt))
	return len(q.line) > 0 && bytes.HasSuffix(p.line, q.line)
}

// printLabel adds a bracketed line.
func (p *linePrinter) printLabel(text string) {
	p.breakLine()
	p.out = append(p.out, labelLine(text)...)
	p.out = append(p.out, '\n')
	p.finishedLines++
}

// maxLabelBytes bounds a label, whose text may come from a runtime.
const maxLabelBytes = 1000

// labelLine turns any text into one printable, bracketed line.
func labelLine(text string) string { return "[" + oneLine(text) + "]" }

func oneLine(s string) string {
	var p lineScreen
	p.write(0, []byte(text.OneLine(text.ShortenBytes(s, maxLabelBytes))))
	p.flush()
	return string(appendVisible(nil, p.line))
}
