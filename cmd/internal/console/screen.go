package console

import (
	"bytes"
	"io"
	"sync"

	"github.com/turnstone-repl/turnstone/cmd/internal/console/termmodes"
	"github.com/turnstone-repl/turnstone/cmd/internal/lineedit"
)

// maxLine bounds the remembered part of the cursor's line, in bytes.
const maxLine = 4096

// An outputTracker writes output to the terminal. It tracks the cursor's column and the modes that
// programs have left on. The editor bypasses it, and leaves the cursor where it was or in the first
// column.
type outputTracker struct {
	out io.Writer

	mu        sync.Mutex
	line      []byte                // guarded by mu; text written since the cursor was in the first column
	modes     termmodes.ModeTracker // guarded by mu
	savedLine []byte                // guarded by mu: saved line while a program has the keys
}

// markLineStart notes that the cursor is in the first column.
func (t *outputTracker) markLineStart() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.line = t.line[:0]
}

// saveLine remembers the cursor's line while a program has the keys.
func (t *outputTracker) saveLine() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.savedLine, t.modes.SawAlternateScreen = bytes.Clone(t.line), false
}

// restoreLine restores the line if the program used an alternate screen, whose end brings the
// cursor back.
func (t *outputTracker) restoreLine() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.modes.SawAlternateScreen {
		t.line = t.savedLine
	}
}

// disableModes switches off the modes that programs have switched on. enableModes switches them on
// again.
func (t *outputTracker) disableModes() (again string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	again = t.modes.EnableSequence()
	_, _ = io.WriteString(t.out, t.modes.ResetSequence(true))
	return again
}

func (t *outputTracker) enableModes(again string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.modes.ScanOutput([]byte(again))
	_, _ = io.WriteString(t.out, again)
}

// resetModes switches off the modes that programs have left on. If all is set, it also ends the
// colours of output, which happens only at the end of Run.
func (t *outputTracker) resetModes(all bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, _ = io.WriteString(t.out, t.modes.ResetSequence(all))
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
func (t *outputTracker) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.line = lastLine(t.line, b)
	t.modes.ScanOutput(b)
	return t.out.Write(b)
}

// cursorColumn returns the number of cells between the first column and the cursor. On a wrapped
// line they can exceed the terminal's width.
func (t *outputTracker) cursorColumn() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return columnAfter(t.line)
}

// endsWith reports whether the cursor is right after text.
func (t *outputTracker) endsWith(text string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return bytes.HasSuffix(t.line, []byte(text[bytes.LastIndexAny([]byte(text), "\r\n")+1:]))
}

// columnAfter returns the cursor's column after line, from 0, if the line never wrapped.
func columnAfter(line []byte) int {
	column := 0
	for len(line) > 0 {
		if n := lineedit.EscapeLength(line); n > 0 {
			line = line[n:]
			continue
		}
		n, cells := lineedit.FirstCluster(line)
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
