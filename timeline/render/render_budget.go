package render

import (
	"fmt"
	"slices"

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
