package render

import (
	"fmt"

	"github.com/turnstone-repl/turnstone/internal/text"
)

// An omission describes text that was left out of a rendering.
type omission struct {
	firstLine, lastLine int // lines of the output file; 0 when unknown
	unnumberedLines     int // number of lines if their line numbers are unknown; 0 if the count is unknown, too
	bytes               int64
}

// prepend adds an omission that comes before.
func (o *omission) prepend(b omission) {
	switch {
	case o.bytes == 0:
		*o = b
		return
	case b.firstLine == 0 || o.firstLine == 0:
		n, before := o.lineCount(), b.lineCount()
		o.firstLine, o.lastLine, o.unnumberedLines = 0, 0, 0
		if n > 0 && before > 0 {
			o.unnumberedLines = n + before
		}
	default:
		o.firstLine, o.lastLine = min(b.firstLine, o.firstLine), max(b.lastLine, o.lastLine)
	}
	o.bytes += b.bytes
}

// lineCount returns the number of lines, 0 when unknown.
func (o *omission) lineCount() int {
	if o.firstLine == 0 {
		return o.unnumberedLines
	}
	return o.lastLine - o.firstLine + 1
}

// noticeText returns the line that says how much is missing and where it is.
func (o *omission) noticeText(path string) string {
	what := text.Bytes(o.bytes)
	if n := o.lineCount(); n > 0 {
		what = fmt.Sprintf("%s (%s)", text.Count(n, "line"), what)
	}
	where := ""
	switch {
	case path == "":
	case o.firstLine == 0: // they have not been written yet
		where = ": see " + path
	case o.firstLine == o.lastLine:
		where = fmt.Sprintf(": line %d of %s", o.firstLine, path)
	default:
		where = fmt.Sprintf(": lines %d-%d of %s", o.firstLine, o.lastLine, path)
	}
	return fmt.Sprintf("… %s elided%s …\n", what, where)
}
