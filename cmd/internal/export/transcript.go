package export

import (
	"strings"

	"github.com/turnstone-repl/turnstone/timeline"
)

// A transcript has everything that was typed and shown, as text.
type transcript struct {
	out     *errWriter
	session Session
}

func (p *transcript) begin() {}
func (p *transcript) end()   {}

func (p *transcript) note(text string) { p.out.print("[" + text + "]\n") }

func (p *transcript) turn(t *turn) {
	if t.number > 0 {
		p.out.print("[" + t.title() + "]\n" + strings.TrimRight(t.input, "\r\n") + "\n")
		if t.bytes > len(t.input) {
			p.note(t.failure())
		}
	}
	var part []timeline.Event
	write := func(typed string) {
		text := timeline.Render(part, &timeline.RenderOptions{MaxChars: maxTurn}).Text() + typed
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		p.out.print(text)
		part = nil
	}
	for _, e := range t.events {
		switch b := e.Body.(type) {
		case timeline.InputLine: // typed after its prompt, which is the text before it
			typed := b.Text
			if b.Secret {
				typed = "(a secret)"
			}
			write(typed + "\n")
		case timeline.TurnEnded:
		case timeline.Display:
			whole, err := p.session.complete(b)
			p.out.fail(err)
			e.Body = whole
			part = append(part, e)
		default:
			part = append(part, e)
		}
	}
	write("")
	if left := t.left(); left != "" {
		p.note(left)
	}
	if t.number > 0 && t.bytes == len(t.input) {
		if why := t.failure(); why != "" {
			p.note(why)
		}
	}
}
