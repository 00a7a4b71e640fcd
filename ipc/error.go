package ipc

import (
	"errors"
	"strings"
)

// Errors of Send. After one, no part of the message is on the channel.
var (
	// ErrTooLarge means that a message, or a field of it, exceeds its bound.
	ErrTooLarge = errors.New("ipc: too large")

	// ErrQueueFull means that the peer does not read and [MaxQueueBytes] are queued. The message
	// may be sent again later.
	ErrQueueFull = errors.New("ipc: the peer does not read, and the queue of unsent frames is full: try again later or end the peer")

	// ErrClosed means that Close was called.
	ErrClosed = errors.New("ipc: the connection is closed")
)

// A ProtocolError reports a frame that violates the protocol. The channel must not be used
// afterwards, because its peer cannot be trusted.
type ProtocolError struct {
	Type     string // of the frame; "" when the type itself is invalid
	Reason   string // "field outcome: unknown value"
	Offender string // the invalid part, printable, at most maxOffenderBytes bytes and "…"; "" when it may contain a secret
}

// Error returns the type, reason and offender in one line.
func (e *ProtocolError) Error() string {
	text := "ipc: protocol error"
	if e.Type != "" {
		text += " in " + e.Type
	}
	text += ": " + e.Reason
	if e.Offender != "" {
		text += ": " + e.Offender
	}
	return text
}

// maxOffenderBytes bounds ProtocolError.Offender, in bytes before the ellipsis.
const maxOffenderBytes = 200

// printableText returns the beginning of b, with every byte other than printable ASCII escaped as
// \x.
func printableText(b []byte) string {
	const digits = "0123456789abcdef"
	var text strings.Builder
	for _, c := range b {
		width := 1
		if c < ' ' || c > '~' {
			width = 4
		}
		if text.Len()+width > maxOffenderBytes {
			text.WriteString("…")
			break
		}
		if width == 1 {
			text.WriteByte(c)
		} else {
			text.WriteString(`\x`)
			text.WriteByte(digits[c>>4])
			text.WriteByte(digits[c&15])
		}
	}
	return text.String()
}
