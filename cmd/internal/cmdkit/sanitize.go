package cmdkit

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// A TerminalSanitizer removes everything from foreign text that acts on a terminal or deceives its
// reader. It removes control sequences except colours and other styles (SGR), control characters
// that leave their line, invisible characters, and characters that change the direction of text.
// The zero value is ready to use; text may arrive in pieces of any size.
type TerminalSanitizer struct {
	noColors bool // without colours
	state    sanitizerState
	csi      []byte // the bytes of a control sequence after its introducer
	partial  []byte // an incomplete character
}

// A sanitizerState tells which part of a control sequence may come next.
type sanitizerState int

const (
	inText     sanitizerState = iota
	inEscape                  // after ESC
	inSequence                // after CSI, up to its final byte
	inString                  // after OSC, DCS and the like, up to ST, BEL or the end of the line
)

// maxSequenceBytes bounds a control sequence; a longer one is treated as text.
const maxSequenceBytes = 64

// Sanitize returns the next piece of text, sanitized.
func (s *TerminalSanitizer) Sanitize(b []byte) []byte {
	if len(s.partial) > 0 {
		b = append(s.partial, b...)
		s.partial = nil
	}
	out := make([]byte, 0, len(b))
	for len(b) > 0 {
		if !utf8.FullRune(b) {
			s.partial = append([]byte(nil), b...)
			break
		}
		r, n := utf8.DecodeRune(b)
		out = s.appendRune(out, r)
		b = b[n:]
	}
	return out
}

func (s *TerminalSanitizer) appendRune(out []byte, r rune) []byte {
	switch {
	case r == 0x1b || r == 0x90 || r >= 0x98 && r <= 0x9f && r != 0x99 && r != 0x9a && r != 0x9c:
		s.csi = s.csi[:0]
		switch r {
		case 0x1b:
			s.state = inEscape
		case 0x9b:
			s.state = inSequence
		default:
			s.state = inString
		}
		return out
	case s.state == inEscape:
		switch {
		case r == '[':
			s.state = inSequence
		case strings.ContainsRune("]PX^_", r):
			s.state = inString
		case r >= 0x20 && r <= 0x2f: // intermediate: one more byte follows
		default:
			s.state = inText
		}
		if r != '\n' {
			return out
		}
	case s.state == inSequence:
		switch {
		case r >= 0x20 && r <= 0x3f && len(s.csi) < maxSequenceBytes:
			s.csi = append(s.csi, byte(r))
			return out
		case r >= 0x40 && r <= 0x7e:
			s.state = inText
			if r == 'm' && !s.noColors && strings.Trim(string(s.csi), "0123456789;:") == "" {
				out = append(out, "\x1b["...)
				out = append(append(out, s.csi...), 'm')
			}
			return out
		}
		s.state = inText // the sequence was cut short
	case s.state == inString:
		if r == '\a' || r == 0x9c || r == '\n' {
			s.state = inText
		}
		if r != '\n' {
			return out
		}
	}
	s.state = inText
	if isHarmless(r) {
		out = utf8.AppendRune(out, r)
	}
	return out
}

// isHarmless reports whether a character affects nothing but its own cell. Joining characters are
// kept, because scripts and emoji need them.
func isHarmless(r rune) bool {
	switch r {
	case '\n', '\t', '\r', '\b', '\u200c', '\u200d':
		return true
	}
	return !unicode.IsControl(r) && !unicode.Is(unicode.Cf, r)
}

// PlainText returns a whole text, sanitized.
func PlainText(s string) string { return string(new(TerminalSanitizer).Sanitize([]byte(s))) }

// PlainLine returns a name or a prompt, sanitized: a single line without colours.
func PlainLine(s string) string {
	c := TerminalSanitizer{noColors: true}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, string(c.Sanitize([]byte(s))))
}
