package kernelworker

import (
	"fmt"
	"io"
)

// A terminalWriter writes text and markers to the worker's terminal; see "Ordering" in
// docs/worker-protocol.md. Only the loop uses it.
type terminalWriter struct {
	out      io.Writer
	nonce    string
	lastMark uint64 // number of the last frame marker
}

func (t *terminalWriter) formatMarker(body string) string {
	return "\x1b_" + t.nonce + ";" + body + "\x1b\\"
}

// writeFrameMarker writes the marker of the next frame, and returns its number.
func (t *terminalWriter) writeFrameMarker() (uint64, error) {
	t.lastMark++
	_, err := io.WriteString(t.out, t.formatMarker(fmt.Sprintf("#%d", t.lastMark)))
	return t.lastMark, err
}

// writeText writes text of a kind, which is the body of its marker. It makes one write, so that no
// output of a child comes in between.
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
