package terminal

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// whereIsCursor is what the line editor asks the terminal before it draws, and
// the answer is the form in which terminals reply.
const (
	whereIsCursor = "\x1b[6n"
	cursorIsAt    = "\x1b[1;%dR"
)

// maxLine bounds what is remembered of the line that the cursor is in, in bytes.
const maxLine = 4096

// A screen writes to the terminal and knows in which column the cursor is. So
// the line editor's question can be answered here: asking the terminal costs a
// round trip, and one that does not answer would hang the editor.
type screen struct {
	out    io.Writer
	answer func(string) // takes the reply to whereIsCursor
	width  func() int   // columns of the terminal

	mu      sync.Mutex
	line    []byte // guarded by mu: what was written since the cursor was in the first column
	output  []byte // guarded by mu: that of it which is not the line editor's
	keepRow bool   // guarded by mu: the next line end is not written
}

// wrote takes note of output that is about to be written.
func (s *screen) wrote(b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.output = lastLine(s.output, b)
}

// begin says that a line is edited from here on.
func (s *screen) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.output = append(s.output[:0], s.line...)
}

// leaveRow has the line editor end a line, from which it has taken what it drew,
// without a new row.
func (s *screen) leaveRow() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keepRow = true
}

// lastLine returns line with b behind it, from the last line break on.
func lastLine(line, b []byte) []byte {
	if i := bytes.LastIndexAny(b, "\r\n"); i >= 0 {
		line = append(line[:0], b[i+1:]...)
	} else {
		line = append(line, b...)
	}
	return line[max(0, len(line)-maxLine):]
}

// Write implements io.Writer.
func (s *screen) Write(b []byte) (int, error) {
	if string(b) == whereIsCursor {
		s.answer(fmt.Sprintf(cursorIsAt, s.column()+1))
		return len(b), nil
	}
	s.mu.Lock()
	if s.keepRow && bytes.HasPrefix(b, []byte("\n")) {
		s.keepRow = false
		s.line = append(s.line[:0], s.output...)
		s.mu.Unlock()
		return len(b), nil
	}
	s.line = lastLine(s.line, b)
	s.mu.Unlock()
	return s.out.Write(b)
}

// column returns the cursor's, from 0.
func (s *screen) column() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if columns := s.width(); columns > 0 {
		return cells(s.line) % columns
	}
	return cells(s.line)
}

// shows reports whether the cursor stands right behind text.
func (s *screen) shows(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.HasSuffix(s.line, []byte(text[bytes.LastIndexAny([]byte(text), "\r\n")+1:]))
}

// cells returns the column in which the cursor is after line, from 0, if it never
// wrapped.
func cells(line []byte) int {
	column := 0
	for len(line) > 0 {
		if n := escape(line); n > 0 {
			line = line[n:]
			continue
		}
		r, n := utf8.DecodeRune(line)
		line = line[n:]
		switch {
		case r == '\b':
			column = max(0, column-1)
		case r == '\t':
			column = (column/8 + 1) * 8
		default:
			column += cellsOf(r)
		}
	}
	return column
}

// escape returns the length of the control sequence that line begins with; 0 when it
// begins with none.
func escape(line []byte) int {
	if len(line) < 2 || line[0] != '\x1b' {
		return 0
	}
	switch line[1] {
	case '[': // parameters, then one final byte
		for i := 2; i < len(line); i++ {
			if line[i] >= 0x40 && line[i] <= 0x7e {
				return i + 1
			}
		}
		return len(line)
	case ']', '_', 'P', '^', 'X': // a string, ended by BEL or ESC \
		for i := 2; i < len(line); i++ {
			if line[i] == '\a' {
				return i + 1
			}
			if line[i] == '\\' && line[i-1] == '\x1b' {
				return i + 1
			}
		}
		return len(line)
	}
	return 2
}

// cellsOf returns how many cells r takes, by the table that the line editor goes by.
func cellsOf(r rune) int {
	switch {
	case r < ' ' || r >= 0x7f && r < 0xa0, unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}
