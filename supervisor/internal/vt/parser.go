package vt

import "unicode/utf8"

// maxSequence bounds a control sequence or string, in bytes. Longer ones are read to their end, and
// have no effect.
const maxSequence = 4 << 10

// A parser holds the unfinished character or escape sequence between two calls of Write.
type parser struct {
	state     state
	sequence  []byte // its bytes so far, without the introducer
	tooLong   bool
	control   controlSequence
	kind      byte // of a string: the character after ESC
	character [utf8.UTFMax]byte
	bytes     int // of character
}

type state uint8

const (
	stateText       state = iota
	stateEscape           // after ESC
	stateControl          // after ESC [
	stateString           // in an OSC, DCS, APC, PM or SOS string
	stateStringStop       // in a string, after ESC
)

const (
	bell       = 0x07
	cancel     = 0x18
	substitute = 0x1a
	escape     = 0x1b
	delete     = 0x7f
)

// Write applies output of programs. Characters and sequences may be split between calls.
func (s *Emulator) Write(b []byte) {
	for len(b) > 0 {
		switch s.parser.state {
		case stateText:
			b = b[s.writeText(b):]
		case stateEscape:
			b = b[s.writeEscape(b[0]):]
		case stateControl:
			b = b[s.writeControl(b):]
		default:
			b = b[s.writeString(b):]
		}
	}
}

// writeText applies text up to the next escape sequence, and returns the number of bytes.
func (s *Emulator) writeText(b []byte) int {
	p := &s.parser
	for i := 0; i < len(b); {
		c := b[i]
		switch {
		case p.bytes > 0:
			i += s.continueCharacter(b[i:])
		case c >= ' ' && c < delete:
			i += s.putASCII(b[i:])
		case c == escape:
			p.begin(stateEscape)
			return i + 1
		case c < ' ':
			s.runControlChar(c)
			i++
		case c == delete:
			i++
		case !utf8.FullRune(b[i:]):
			p.bytes = copy(p.character[:], b[i:])
			return len(b)
		default:
			r, n := utf8.DecodeRune(b[i:])
			s.putChar(r)
			i += n
		}
	}
	return len(b)
}

// continueCharacter adds the next byte to a character that an earlier call began. It returns the number
// of bytes used: 0 if the character was broken and b begins with another one.
func (s *Emulator) continueCharacter(b []byte) int {
	p := &s.parser
	p.character[p.bytes] = b[0]
	whole := p.character[:p.bytes+1]
	if !utf8.FullRune(whole) {
		p.bytes++
		return 1
	}
	r, n := utf8.DecodeRune(whole)
	kept := p.bytes
	p.bytes = 0
	s.putChar(r)
	if n == len(whole) {
		return 1
	}
	// The bytes before b[0] cannot begin a character any more. Each is shown as one, like in one call.
	for range kept - n {
		s.putChar(utf8.RuneError)
	}
	return 0
}

func (p *parser) begin(next state) {
	p.state, p.sequence, p.tooLong = next, p.sequence[:0], false
}

func (p *parser) add(b []byte) {
	if len(p.sequence)+len(b) > maxSequence {
		p.tooLong = true
		return
	}
	p.sequence = append(p.sequence, b...)
}

// writeEscape applies the byte after ESC and intermediate bytes. It returns 1, or 0 if the sequence
// ended before c.
func (s *Emulator) writeEscape(c byte) int {
	p := &s.parser
	switch {
	case c == escape:
		p.begin(stateEscape)
	case c == cancel || c == substitute:
		p.state = stateText
	case c < ' ':
		s.runControlChar(c)
	case c < '0':
		p.add([]byte{c})
	case len(p.sequence) == 0 && c == '[':
		p.begin(stateControl)
	case len(p.sequence) == 0 && (c == ']' || c == 'P' || c == '_' || c == '^' || c == 'X'):
		p.begin(stateString)
		p.kind = c
	case c == delete:
	case c >= utf8.RuneSelf:
		p.state = stateText
		return 0
	default:
		p.state = stateText
		if !p.tooLong {
			s.runEscape(p.sequence, c)
		}
	}
	return 1
}

// writeControl applies a control sequence up to its last byte, and returns the number of bytes.
func (s *Emulator) writeControl(b []byte) int {
	p := &s.parser
	n := 0
	for n < len(b) && b[n] >= ' ' && b[n] < '@' {
		n++
	}
	if n < len(b) && len(p.sequence) == 0 && !p.tooLong && b[n] >= '@' && b[n] < delete && n <= maxSequence {
		p.state = stateText
		s.runControl(b[:n], b[n]) // without a copy
		return n + 1
	}
	p.add(b[:n])
	if n == len(b) {
		return n
	}
	switch c := b[n]; {
	case c == escape:
		p.begin(stateEscape)
	case c == cancel || c == substitute:
		p.state = stateText
	case c < ' ':
		s.runControlChar(c)
	case c == delete:
	case c >= utf8.RuneSelf:
		p.state = stateText
		return n
	default:
		p.state = stateText
		if !p.tooLong {
			s.runControl(p.sequence, c)
		}
	}
	return n + 1
}

// writeString takes in a string up to its end, and returns the number of bytes.
func (s *Emulator) writeString(b []byte) int {
	p := &s.parser
	if p.state == stateStringStop {
		if b[0] == '\\' {
			p.state = stateText
			s.runString("\x1b\\")
			return 1
		}
		p.begin(stateEscape)
		return 0
	}
	n := 0
	for n < len(b) && b[n] != bell && b[n] != cancel && b[n] != substitute && b[n] != escape {
		n++
	}
	p.add(b[:n])
	if n == len(b) {
		return n
	}
	switch {
	case b[n] == escape:
		p.state = stateStringStop
	case b[n] == bell && p.kind == ']':
		p.state = stateText
		s.runString("\a")
	case b[n] == bell: // only OSC ends with it
		p.add(b[n : n+1])
	default:
		p.state = stateText
	}
	return n + 1
}

// runControlChar applies a control character.
func (s *Emulator) runControlChar(c byte) {
	s.joins = false
	switch c {
	case '\b':
		s.wrapNext = false
		s.column = max(0, s.column-1)
	case '\t':
		s.tabForward(1)
	case '\n', '\v', '\f':
		s.lineFeed()
		if s.returnOnNewline || s.modes.newLine {
			s.column = 0
		}
	case '\r':
		s.column, s.wrapNext = 0, false
	case 14: // shift out
		s.shifted = true
	case 15: // shift in
		s.shifted = false
	}
}

// tabForward goes to the next tab stops, or to the last column.
func (s *Emulator) tabForward(count int) {
	for count > 0 && s.column < s.columns-1 {
		s.column++
		if s.tabs[s.column] {
			count--
		}
	}
}

// backTab goes to the tab stops before the cursor, or to the first column.
func (s *Emulator) backTab(count int) {
	for count > 0 && s.column > 0 {
		s.column--
		if s.tabs[s.column] {
			count--
		}
	}
}
