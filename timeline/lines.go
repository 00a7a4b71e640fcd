package timeline

import "strings"

// TerminalText returns text as a terminal would finally show it, by the rules of Render.
func TerminalText(text string) string {
	var p lineScreen
	p.write(0, []byte(text))
	p.commitLine()
	return string(p.out)
}

// LineSplitter splits the text of a session into lines, as Render and the output file show
// them. The zero value is ready to use. It holds at most 64 KiB of the unfinished line.
type LineSplitter struct{ screen lineScreen }

// Add adds text and returns the lines that it completes.
func (l *LineSplitter) Add(t Text) []string {
	before := l.screen.finishedLines
	l.screen.write(int(t.Stream), t.Data)
	if l.screen.finishedLines == before {
		l.screen.out = l.screen.out[:0] // the beginning of an overlong line
		return nil
	}
	lines := strings.Split(string(l.screen.out), "\n")
	l.screen.out = l.screen.out[:0]
	return lines[:l.screen.finishedLines-before]
}

// OpenLine returns the unfinished line.
func (l *LineSplitter) OpenLine() string { return string(l.screen.line) }
