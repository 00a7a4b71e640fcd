package timeline

import (
	"strings"

	"github.com/turnstone-repl/turnstone/timeline/internal/screen"
)

// TerminalText returns text as a terminal would finally show it, by the rules of package render.
func TerminalText(text string) string {
	var p screen.LineScreen
	p.Write(0, []byte(text))
	p.CommitLine()
	return string(p.Out)
}

// LineSplitter splits the text of a session into lines, as package render and the output file show
// them. The zero value is ready to use. It holds at most 64 KiB of the unfinished line.
type LineSplitter struct{ screen screen.LineScreen }

// Add adds text and returns the lines that it completes.
func (l *LineSplitter) Add(t Text) []string {
	before := l.screen.FinishedLines
	l.screen.Write(int(t.Stream), t.Data)
	if l.screen.FinishedLines == before {
		l.screen.Out = l.screen.Out[:0] // the beginning of an overlong line
		return nil
	}
	lines := strings.Split(string(l.screen.Out), "\n")
	l.screen.Out = l.screen.Out[:0]
	return lines[:l.screen.FinishedLines-before]
}

// OpenLine returns the unfinished line.
func (l *LineSplitter) OpenLine() string { return string(l.screen.Line) }

var newline = []byte{'\n'}
