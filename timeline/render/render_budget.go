package render

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/turnstone-repl/turnstone/internal/text"
)

// fitBudget replaces rows by one omission so that the text is within the budget.
func (r *renderer) fitBudget() {
	budget := r.opts.MaxChars
	sum := func() (n int) {
		for i := range r.rows {
			n += r.charCount(&r.rows[i])
		}
		return n
	}
	if sum() <= budget {
		return
	}
	r.cutLongLines(max(budget/4, 1))
	if sum() <= budget {
		return
	}
	budget -= min(budget/4, 100+len(r.opts.OutputPath)) // for the omission line
	head, used := 0, 0
	for ; head < len(r.rows); head++ {
		if used += r.charCount(&r.rows[head]); used > budget/3 {
			break
		}
	}
	tail, used := len(r.rows), 0
	for ; tail > head; tail-- {
		if used += r.charCount(&r.rows[tail-1]); used > budget-budget/3 {
			break
		}
	}
	r.omitRows(head, tail)
}

// maxRetainedLabels bounds the labels that are kept from omitted text.
const maxRetainedLabels = 20

// omitRows replaces rows by one omittedRow, but keeps images and the newest labels.
func (r *renderer) omitRows(from, to int) {
	var e omission
	var kept []renderRow
	labels := 0
	for i := to - 1; i >= from; i-- {
		w := r.rows[i]
		switch w.kind {
		case imageRow:
			kept = append(kept, w)
			continue
		case labelRow:
			if labels++; labels <= maxRetainedLabels {
				kept = append(kept, w)
				continue
			}
		case omittedRow, noteRow:
			e.prepend(w.omitted)
			continue
		case textRow:
		}
		e.prepend(w.asOmission())
	}
	slices.Reverse(kept)
	middle := append([]renderRow{{kind: omittedRow, omitted: e}}, kept...)
	r.rows = slices.Concat(r.rows[:from], middle, r.rows[to:])
}

// cutLongLines removes the middle of lines with more characters than limit.
func (r *renderer) cutLongLines(limit int) {
	for i := range r.rows {
		w := &r.rows[i]
		if w.kind != textRow || w.to-w.from <= limit {
			continue
		}
		runes := []rune(string(r.rowText(w)))
		if len(runes) <= limit {
			continue
		}
		where := ""
		if w.lineNumber > 0 && r.opts.OutputPath != "" {
			where = fmt.Sprintf(" of line %d of %s", w.lineNumber, r.opts.OutputPath)
		}
		head := limit / 2
		tail := len(runes) - (limit - head)
		w.replacement = fmt.Sprintf("%s … %s%s elided … %s", string(runes[:head]), text.Count(tail-head, "character"), where, string(runes[tail:]))
	}
}

// composeParts writes the rows into the parts of the rendering.
func (r *renderer) composeParts() Rendering {
	var out Rendering
	var b strings.Builder
	end := func() {
		if b.Len() > 0 {
			out.Chars += utf8.RuneCountInString(b.String())
			out.Parts = append(out.Parts, Part{Text: b.String()})
			b.Reset()
		}
	}
	for i := range r.rows {
		w := &r.rows[i]
		out.Omitted = out.Omitted || w.kind == omittedRow || w.isLossy || w.kind == textRow && w.replacement != ""
		switch w.kind {
		case imageRow:
			end()
			out.Parts = append(out.Parts, Part{Image: w.image})
		case omittedRow:
			b.WriteString(w.omitted.noticeText(r.opts.OutputPath))
		case noteRow:
			b.WriteString(w.replacement + "\n")
		case textRow, labelRow:
			s := r.lineText(w)
			shown := w.repeats
			if shown >= minRepeatedLines {
				shown = 1
			}
			for range shown {
				b.WriteString(s)
				if !w.noNewline || i < len(r.rows)-1 {
					b.WriteByte('\n')
				}
			}
			if w.repeats >= minRepeatedLines {
				b.WriteString(repeatLine(w.repeats))
			}
		}
	}
	end()
	return out
}

// An omission describes text that was left out of a rendering.
type omission struct {
	firstLine, lastLine int // lines of the output file; 0 when unknown
	unnumberedLines     int // number of lines if their line numbers are unknown; 0 if the count is unknown, too
	bytes               int64
}

// asOmission returns a row as an omission.
func (r *renderRow) asOmission() omission {
	e := omission{bytes: int64((r.to - r.from + 1) * r.repeats)}
	if r.lineNumber == 0 {
		e.unnumberedLines = r.repeats
	} else {
		e.firstLine, e.lastLine = r.lineNumber, r.lineNumber+r.repeats-1
	}
	return e
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
