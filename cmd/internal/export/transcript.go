package export

import (
	"strings"

	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/timeline/render"
)

// A transcriptWriter writes everything that was typed and shown, as plain text.
type transcriptWriter struct {
	out     *errWriter
	session SessionFacts
}

func (w *transcriptWriter) beginDocument() {}
func (w *transcriptWriter) endDocument()   {}

func (w *transcriptWriter) writeNote(text string) { w.out.print("[" + text + "]\n") }

func (w *transcriptWriter) writeTurn(t *exportedTurn) {
	if t.number > 0 {
		w.out.print("[" + t.turnTitle() + "]\n" + strings.TrimRight(t.input, "\r\n") + "\n")
		if t.bytes > len(t.input) {
			w.writeNote(t.failureNote())
		}
	}
	var part []timeline.Event
	write := func(typed string) {
		text := render.Events(part, &render.Options{MaxChars: maxTurnBytes}).Text() + typed
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		w.out.print(text)
		part = nil
	}
	for _, e := range t.events {
		switch b := e.Body.(type) {
		case timeline.InputLine: // typed after its prompt, which is the preceding text
			if b.Keys {
				write("")
				w.writeNote(b.NoticeText())
				break
			}
			typed := b.Text
			if b.Secret {
				typed = "(a secret)"
			}
			write(typed + "\n")
		case timeline.TurnEnded:
		case timeline.Display:
			whole, err := w.session.completeDisplay(b)
			w.out.setError(err)
			e.Body = whole
			part = append(part, e)
		default:
			part = append(part, e)
		}
	}
	write("")
	if left := t.omissionNote(); left != "" {
		w.writeNote(left)
	}
	if t.number > 0 && t.bytes == len(t.input) {
		if why := t.failureNote(); why != "" {
			w.writeNote(why)
		}
	}
}
