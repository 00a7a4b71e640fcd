package kernelworker

import (
	"fmt"
	"io"
)

// A terminalWriter writes text and markers into the worker's terminal; see "The fence" in
// docs/protocol.md. It belongs to the loop.
type terminalWriter struct {
	out      io.Writer
	nonce    string
	lastMark uint64 // the last one
}

func (t *terminalWriter) formatMarker(body string) string {
	return "\x1b_" + t.nonce + ";" + body + "\x1b\\"
}

// writeFrameMarker leaves the marker of the next frame, and returns its number.
func (t *terminalWriter) writeFrameMarker() (uint64, error) {
	t.lastMark++
	_, err := io.WriteString(t.out, t.formatMarker(fmt.Sprintf("#%d", t.lastMark)))
	return t.lastMark, err
}

// writeText writes text of a kind: the body of its marker. It is one write, so that nothing of a child
// comes between.
func (t *terminalWriter) writeText(text, kind string) error {
	if text == "" {
		return nil
	}
	if kind != plainText {
		text = t.formatMarker(kind) + text + t.formatMarker(plainText)
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
