package worker

import (
	"fmt"
	"io"
)

// A terminal writes text and markers into the worker's terminal; see "The fence" in
// docs/protocol.md. It belongs to the loop.
type terminal struct {
	out   io.Writer
	nonce string
	mark  uint64 // the last one
}

func (t *terminal) marker(body string) string { return "\x1b_" + t.nonce + ";" + body + "\x1b\\" }

// next leaves the marker of the next frame, and returns its number.
func (t *terminal) next() (uint64, error) {
	t.mark++
	_, err := io.WriteString(t.out, t.marker(fmt.Sprintf("#%d", t.mark)))
	return t.mark, err
}

// write writes text of a kind: the body of its marker. It is one write, so that nothing of a child
// comes between.
func (t *terminal) write(text, kind string) error {
	if text == "" {
		return nil
	}
	if kind != plainText {
		text = t.marker(kind) + text + t.marker(plainText)
	}
	_, err := io.WriteString(t.out, text)
	return err
}

// Kinds of text.
const (
	plainText     = "O"
	errorText     = "E"
	resultText    = "R"
	tracebackText = "T"
)
