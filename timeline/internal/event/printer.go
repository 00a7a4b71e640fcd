package event

import (
	"github.com/turnstone-repl/turnstone/timeline/internal/screen"
)

// A TranscriptPrinter converts events to the text of a session: the printed text, and one
// bracketed line for each other event that is shown. The output file, exports and searches use it.
type TranscriptPrinter struct{ screen.LinePrinter }

// PrintEvent adds an event.
func (p *TranscriptPrinter) PrintEvent(e Event) {
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
		if b.Keys { // the program itself shows what it makes of them
			p.AwaitsInput = false
		} else {
			p.EndInputLine(b.Prompt)
		}
	case TurnEnded:
		p.EndTurn()
		p.BreakLine()
	case TurnStarted, InputRequestEnded, Interrupt, Progress, Preparation, WorkerStarted, Omitted, OutputCleared, FullScreenChanged:
		// Nothing to print: input is never echoed.
	}
}

// printDisplay adds a display: a label for an image, otherwise its text.
func (p *TranscriptPrinter) printDisplay(d Display) {
	if i := d.TitledImage(); i != nil {
		p.PrintLabel(i.Label())
		return
	}
	if text := d.Text(); text != "" {
		p.PrintParagraph(text)
	}
}
