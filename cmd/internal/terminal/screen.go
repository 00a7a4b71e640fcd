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

// whereIsCursor is the question of the line editor to the terminal before it draws, and
// cursorIsAt the form of the answer.
const (
	whereIsCursor = "\x1b[6n"
	cursorIsAt    = "\x1b[1;%dR"
)

// maxLine bounds the remembered part of the cursor's line, in bytes.
const maxLine = 4096

// A screen writes to the terminal and knows the cursor's column. So it can answer the line
// editor's question itself. Asking the terminal costs a round trip, and the editor would
// hang if the terminal did not answer.
type screen struct {
	out    io.Writer
	answer func(string) // takes the reply to whereIsCursor
	width  func() int   // columns of the terminal

	mu      sync.Mutex
	line    []byte // guarded by mu; text written since the cursor was in the first column
	output  []byte // guarded by mu: the part of line that is not the line editor's
	keepRow bool   // guarded by mu: the next line end is not written
}

// wrote notes output that is about to be written.
func (s *screen) wrote(b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.output = lastLine(s.output, b)
}

// begin notes that a line is edited from now on.
func (s *screen) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.output = append(s.output[:0], s.line...)
}

// leaveRow lets the line editor end a line that it has erased, without a new row.
func (s *screen) leaveRow() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keepRow = true
}

// lastLine appends b to line and returns the part after the last line break.
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

// column returns the cursor's column, from 0.
func (s *screen) column() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if columns := s.width(); columns > 0 {
		return cells(s.line) % columns
	}
	return cells(s.line)
}

// shows reports whether the cursor is right after text.
func (s *screen) shows(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.HasSuffix(s.line, []byte(text[bytes.LastIndexAny([]byte(text), "\r\n")+1:]))
}

// cells returns the cursor's column after line, from 0, if the line never wrapped.
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

// escape returns the length of the control sequence at the beginning of line; 0 if there
// is none.
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

// cellsOf returns the number of cells of r, by the table that the line editor uses.
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
