package screen

import (
	"bytes"

	"github.com/turnstone-repl/turnstone/internal/text"
)

// A LinePrinter is a LineScreen that also prints paragraphs, labels and the ends of input lines.
type LinePrinter struct {
	LineScreen
	AwaitsInput bool // an input request is open; its answer ends the line on the screen
}

// PrintParagraph adds text on separate lines.
func (p *LinePrinter) PrintParagraph(text string) {
	p.BreakLine()
	p.Write(0, []byte(text))
	p.Flush()
	p.BreakLine()
}

// EndTurn clears unfinished state of a turn.
func (p *LinePrinter) EndTurn() {
	p.Flush()
	p.AwaitsInput = false
}

// EndInputLine ends the line that asked for input, as the Enter key does.
func (p *LinePrinter) EndInputLine(prompt string) {
	if p.AwaitsInput || p.lineEndsWith(prompt) {
		p.BreakLine()
	}
	p.AwaitsInput = false
}

// lineEndsWith reports whether the last line ends with this prompt.
func (p *LinePrinter) lineEndsWith(prompt string) bool {
	if prompt == "" || len(p.Line) == 0 {
		return false
	}
	var q LineScreen
	q.Write(0, []byte(prompt))
	return len(q.Line) > 0 && bytes.HasSuffix(p.Line, q.Line)
}

// PrintLabel adds a bracketed line.
func (p *LinePrinter) PrintLabel(text string) {
	p.BreakLine()
	p.Out = append(p.Out, LabelLine(text)...)
	p.Out = append(p.Out, '\n')
	p.FinishedLines++
}

// MaxLabelBytes bounds a label, whose text may come from a runtime.
const MaxLabelBytes = 1000

// LabelLine turns any text into one printable, bracketed line.
func LabelLine(text string) string { return "[" + oneLine(text) + "]" }

func oneLine(s string) string {
	var p LineScreen
	p.Write(0, []byte(text.OneLine(text.ShortenBytes(s, MaxLabelBytes))))
	p.Flush()
	return string(appendVisible(nil, p.Line))
}
