package timeline

import (
	"fmt"
	_ "image/gif" // formats whose size can be shown
	_ "image/jpeg"
	_ "image/png"
	"strings"

	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/timeline/internal/screen"
)

// A transcriptPrinter converts events to the text of a session: the printed text, and one
// bracketed line for each other event that is shown. The output file, exports and searches use it.
type transcriptPrinter struct{ screen.LinePrinter }

// printEvent adds an event.
func (p *transcriptPrinter) printEvent(e Event) {
	if e.IsUnseen() {
		return
	}
	switch b := e.Body.(type) {
	case Text:
		p.Write(int(b.Stream), b.Data)
	case Display:
		p.printDisplay(b)
	case Notice:
		p.PrintLabel(b.Message)
	case Limit:
		p.PrintLabel(b.String())
	case AccessDenied:
		p.PrintLabel(b.NoticeText())
	case AccessGranted:
		p.PrintLabel(b.NoticeText())
	case Call:
		p.PrintLabel(b.String())
	case WorkerExited:
		p.EndTurn()
		p.PrintLabel(b.Report("session ended"))
	case Gap:
		p.PrintLabel(b.NoticeText())
	case InputRequested:
		p.AwaitsInput = b.Kind.WantsLine()
	case InputLine:
		p.EndInputLine(b.Prompt)
	case TurnEnded:
		p.EndTurn()
		p.BreakLine()
	case TurnStarted, InputRequestEnded, Interrupt, Progress, Preparation, WorkerStarted, Omitted, OutputCleared, FullScreenChanged:
		// Nothing to print: input is never echoed.
	}
}

// printDisplay adds a display: a label for an image, otherwise its text.
func (p *transcriptPrinter) printDisplay(d Display) {
	if i := d.TitledImage(); i != nil {
		p.PrintLabel(i.Label())
		return
	}
	if text := d.Text(); text != "" {
		p.PrintParagraph(text)
	}
}

// NoticeText returns what readers are told about the gap.
func (g Gap) NoticeText() string {
	if g.Bytes == 0 {
		return fmt.Sprintf("gap: %s lost", text.Count(int(g.To-g.From)+1, "event"))
	}
	return fmt.Sprintf("gap: %s lost", text.Bytes(g.Bytes))
}

// FullReason returns why a worker ended: the reason, and what its runtime said about it.
func (e WorkerExited) FullReason() string {
	if e.Message == "" {
		return e.Reason
	}
	return e.Reason + " (" + e.Message + ")"
}

// Report returns why a worker ended, with further facts about it. It begins with the words in
// what, such as "session ended", unless the worker was never ready.
func (e WorkerExited) Report(what string) string {
	if e.NeverReady {
		what = "session did not start"
	}
	s := what + ": " + e.FullReason()
	if !e.NeverReady {
		s += ", state lost"
	}
	if e.LastLine != "" {
		s += "; last line: " + strings.TrimSpace(e.LastLine)
	}
	if e.PeakRSSBytes > 0 && !e.Clean && !e.NeverReady { // it may be the cause
		s += "; peak memory " + text.Bytes(e.PeakRSSBytes)
	}
	return s
}

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
	t.printer.CommitLine()
	return t.takeText()
}

// takeText returns the final text, which is valid until the next call.
func (t *Transcript) takeText() []byte {
	text := t.printer.Out
	t.printer.Out = t.printer.Out[:0]
	return text
}
