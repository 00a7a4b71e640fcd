package timeline

import (
	"bytes"
	"fmt"
	_ "image/gif" // formats whose size can be shown
	_ "image/jpeg"
	_ "image/png"
	"strings"

	"github.com/turnstone-repl/turnstone/internal/text"
)

// A transcriptPrinter converts events to the text of a session: the printed text, and one
// bracketed line for each other event that is shown. Both output.txt and Render use it.
type transcriptPrinter struct {
	lineScreen
	awaitsInput bool // an input request is open; its answer ends the line on the screen
}

// printEvent adds an event.
func (p *transcriptPrinter) printEvent(e Event) {
	if e.IsUnseen() {
		return
	}
	switch b := e.Body.(type) {
	case Text:
		p.write(b.Stream, b.Data)
	case Display:
		p.printDisplay(b)
	case Notice:
		p.printLabel(b.Message)
	case Limit:
		p.printLabel(b.String())
	case AccessDenied:
		p.printLabel(b.noticeText())
	case AccessGranted:
		p.printLabel(b.noticeText())
	case Call:
		p.printLabel(b.String())
	case WorkerExited:
		p.endTurn()
		p.printLabel(exitReport("session ended", b))
	case Gap:
		p.printLabel(gapLabel(b))
	case InputRequested:
		p.awaitsInput = b.Kind != InputKindPermission && b.Kind != InputKindForm // those are not answered with a line of input
	case InputLine:
		p.endInputLine(b.Prompt)
	case TurnEnded:
		p.endTurn()
		p.breakLine()
	case TurnStarted, InputRequestEnded, Interrupt, Progress, Preparation, WorkerStarted, Omitted, OutputCleared, FullScreenChanged:
		// Nothing to print: input is never echoed.
	}
}

// printDisplay adds a display: a label for an image, otherwise its text.
func (p *transcriptPrinter) printDisplay(d Display) {
	if i := d.titledImage(); i != nil {
		p.printLabel(imageLabel(i))
		return
	}
	if text := d.Text(); text != "" {
		p.printParagraph(text)
	}
}

// printParagraph adds text on lines of its own.
func (p *transcriptPrinter) printParagraph(text string) {
	p.breakLine()
	p.write(Stdout, []byte(text))
	p.flush()
	p.breakLine()
}

// endTurn clears unfinished state of a turn.
func (p *transcriptPrinter) endTurn() {
	p.flush()
	p.awaitsInput = false
}

// endInputLine ends the line that asked for input, as the Enter key does.
func (p *transcriptPrinter) endInputLine(prompt string) {
	if p.awaitsInput || p.lineEndsWith(prompt) {
		p.breakLine()
	}
	p.awaitsInput = false
}

// lineEndsWith reports whether the last line ends with this prompt.
func (p *transcriptPrinter) lineEndsWith(prompt string) bool {
	if prompt == "" || len(p.line) == 0 {
		return false
	}
	var q lineScreen
	q.write(Stdout, []byte(prompt))
	return len(q.line) > 0 && bytes.HasSuffix(p.line, q.line)
}

// printLabel adds a bracketed line.
func (p *transcriptPrinter) printLabel(text string) {
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
	p.write(Stdout, []byte(text.OneLine(text.ShortenBytes(s, maxLabelBytes))))
	p.flush()
	return string(appendVisible(nil, p.line))
}

func gapLabel(g Gap) string {
	if g.Bytes == 0 {
		return fmt.Sprintf("gap: %s lost", text.Count(int(g.To-g.From)+1, "event"))
	}
	return fmt.Sprintf("gap: %s lost", FormatBytes(g.Bytes))
}

// FullReason returns why a worker ended: the reason, and what its runtime said about it.
func (e WorkerExited) FullReason() string {
	if e.Message == "" {
		return e.Reason
	}
	return e.Reason + " (" + e.Message + ")"
}

// exitReport returns why a worker ended, with further facts about it. It begins with the words
// in what.
func exitReport(what string, g WorkerExited) string {
	if g.NeverReady {
		what = "session did not start"
	}
	s := what + ": " + g.FullReason()
	if !g.NeverReady {
		s += ", state lost"
	}
	if g.LastLine != "" {
		s += "; last line: " + strings.TrimSpace(g.LastLine)
	}
	if g.PeakRSSBytes > 0 && !g.Clean && !g.NeverReady { // it may be the cause
		s += "; peak memory " + FormatBytes(g.PeakRSSBytes)
	}
	return s
}

// FormatBytes formats a number of bytes for people, in decimal units: "117 KB".
func FormatBytes(n int64) string { return text.Bytes(n) }

// A Transcript converts events to the text of a session, as in output.txt: nothing is folded or
// left out. The zero value is ready to use.
type Transcript struct{ printer transcriptPrinter }

// Add adds an event and returns the text that is final by then: all but the last line, which
// later events may rewrite.
func (t *Transcript) Add(e Event) []byte {
	t.printer.printEvent(e)
	return t.takeText()
}

// Flush returns the unfinished last line. Later events do not change it any more.
func (t *Transcript) Flush() []byte {
	t.printer.flush()
	t.printer.out = appendVisible(t.printer.out, t.printer.line)
	t.printer.lineContinued = t.printer.hasOpenLine()
	t.printer.line, t.printer.cursor, t.printer.lineRewritten = t.printer.line[:0], 0, false
	return t.takeText()
}

// takeText returns the final text, which is valid until the next call.
func (t *Transcript) takeText() []byte {
	text := t.printer.out
	t.printer.out = t.printer.out[:0]
	return text
}
