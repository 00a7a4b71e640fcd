package terminal

import (
	"bytes"
	"io"
	"sync"

	"github.com/turnstone-repl/turnstone/cmd/internal/edit"
)

// maxLine bounds the remembered part of the cursor's line, in bytes.
const maxLine = 4096

// A screen writes output to the terminal. It knows the cursor's column, and what programs have
// switched on and not off. The editor draws past it, and leaves the cursor where it was or in
// the first column.
type screen struct {
	out io.Writer

	mu       sync.Mutex
	line     []byte   // guarded by mu; text written since the cursor was in the first column
	switches switches // guarded by mu
	held     []byte   // guarded by mu: line, while a program has the keys
}

// fresh notes that the cursor is in the first column.
func (s *screen) fresh() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.line = s.line[:0]
}

// hold remembers the cursor's line while a program has the keys.
func (s *screen) hold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held, s.switches.alternate = bytes.Clone(s.line), false
}

// release takes up the line again if the program has drawn on an alternate screen, whose end
// brings the cursor back.
func (s *screen) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.switches.alternate {
		s.line = s.held
	}
}

// leave switches off what programs have switched on; enter switches it on again.
func (s *screen) leave() (again string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	again = s.switches.again()
	_, _ = io.WriteString(s.out, s.switches.reset(true))
	return again
}

func (s *screen) enter(again string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.switches.note([]byte(again))
	_, _ = io.WriteString(s.out, again)
}

// reset switches off what programs have left on. all is for the end, when colours of output are
// ended, too.
func (s *screen) reset(all bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = io.WriteString(s.out, s.switches.reset(all))
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
	s.mu.Lock()
	defer s.mu.Unlock()
	s.line = lastLine(s.line, b)
	s.switches.note(b)
	return s.out.Write(b)
}

// column returns the cells from where the cursor was in the first column. They may be more
// than there are columns.
func (s *screen) column() int {
	s.mu.Lock()
	defer s.mu.Unlock()
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
		if n := edit.Escape(line); n > 0 {
			line = line[n:]
			continue
		}
		n, cells := edit.Cluster(line)
		switch line[0] {
		case '\b':
			column = max(0, column-1)
		case '\t':
			column = (column/8 + 1) * 8
		default:
			column += cells
		}
		line = line[n:]
	}
	return column
}
