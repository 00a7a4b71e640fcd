package lineedit

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// A Frame holds everything that a Painter draws of an editor. It never changes.
type Frame struct {
	prompt, continuation string
	text                 []rune
	styles               []Style // of text; nil without colours
	cursor               int
	colour               bool
	matches              []string
	chosen               int
	noteLines            []string // lines below the text
}

// Frame returns the editor's current frame.
func (e *Editor) Frame() Frame {
	v := Frame{prompt: e.options.Prompt, continuation: e.options.Continuation, cursor: e.cursor, colour: e.options.Colour, chosen: -1}
	if e.options.Secret {
		v.cursor = 0
		return v
	}
	v.text = slices.Clone(e.text)
	if e.options.Colour && e.options.Syntax != nil {
		v.styles = e.options.Syntax.styleText(v.text)
	}
	switch {
	case e.search != nil:
		v.noteLines = []string{e.search.statusLine()}
	case e.hint != "":
		v.noteLines = strings.Split(e.hint, "\n")
	}
	if e.menu != nil {
		v.matches, v.chosen = e.menu.matches, e.menu.chosen
	}
	return v
}

// finalFrame returns the frame without editing aids, with the cursor at its end.
func (f Frame) finalFrame() Frame {
	f.cursor, f.matches, f.noteLines = len(f.text), nil, nil
	return f
}

// A screenCell holds one character on the screen, or several that share their cells.
type screenCell struct {
	text  string
	style Style
	width int
}

// isDisputed reports whether terminals differ in the width of the cell. Some count the parts of a
// cluster, others the whole.
func (c screenCell) isDisputed() bool {
	return c.text != "" && c.text[0] >= utf8.RuneSelf && (c.width == 0 || utf8.RuneCountInString(c.text) > 1)
}

// A screenRow holds the cells of one row of the screen. The first row starts after the text already
// there.
type screenRow struct {
	start int // its first column
	cells []screenCell
	wraps bool // the terminal itself wrapped to it from the row before
}

// endColumn returns the column after the row's last character.
func (r screenRow) endColumn() int {
	at := r.start
	for _, c := range r.cells {
		at += c.width
	}
	return at
}

// A rowLayout breaks text into the rows of a screen.
type rowLayout struct {
	cols int
	rows []screenRow
	x    int
}

// putCell appends a cell, and wraps to the next row where the terminal does.
func (l *rowLayout) putCell(c screenCell) {
	if l.x+c.width > l.cols && l.x > 0 {
		l.rows = append(l.rows, screenRow{wraps: true})
		l.x = 0
	}
	last := &l.rows[len(l.rows)-1]
	last.cells = append(last.cells, c)
	l.x += c.width
}

func (l *rowLayout) newRow() {
	l.rows = append(l.rows, screenRow{})
	l.x = 0
}

// putPrompt appends a prompt, which may contain colour sequences.
func (l *rowLayout) putPrompt(text string) {
	for text != "" {
		n := EscapeLength([]byte(text))
		if n > 0 {
			l.putCell(screenCell{text: text[:n]})
			text = text[n:]
			continue
		}
		n, cells := FirstCluster([]byte(text))
		switch r, _ := utf8.DecodeRuneInString(text); {
		case r == '\n':
			l.newRow()
		case !isControl(r):
			l.putCell(screenCell{text: text[:n], width: cells})
		}
		text = text[n:]
	}
}

// displayedAt returns the end of the cluster that starts at i, and its width at a column of its
// line.
func displayedAt(text []rune, i, column int) (end, cells int) {
	end, cells = clusterAt(text, i)
	switch r := text[i]; {
	case r == '\t':
		cells = 8 - column%8
	case isControl(r):
		cells = 2
	}
	return end, cells
}

// displayForm returns the form in which a cluster is shown.
func displayForm(cluster []rune) string {
	switch r := cluster[0]; {
	case r < ' ':
		return "^" + string('@'+r)
	case isControl(r):
		return "^?"
	}
	return string(cluster)
}

// layoutRows lays the frame out on a screen of cols columns, of which the first start columns are
// taken. The cursor is in row y and column x.
func (f Frame) layoutRows(cols, start int) (rows []screenRow, y, x int) {
	l := rowLayout{cols: cols, rows: []screenRow{{start: start}}, x: start}
	l.putPrompt(f.prompt)
	setCursor := func() {
		if l.x >= cols { // the cursor cannot be after the last column
			l.rows = append(l.rows, screenRow{wraps: true})
			l.x = 0
		}
		y, x = len(l.rows)-1, l.x
	}
	column := 0
	for i, end := 0, 0; i < len(f.text); i = end {
		var n int
		r := f.text[i]
		end, n = displayedAt(f.text, i, column)
		if i <= f.cursor && f.cursor < end {
			if r == '\n' {
				setCursor()
			} else {
				y, x = len(l.rows)-1, l.x
				if l.x+n > cols {
					y, x = y+1, 0
				}
			}
		}
		if r == '\n' {
			l.newRow()
			l.putPrompt(f.continuation)
			column = 0
			continue
		}
		style := Plain
		if f.styles != nil {
			style = f.styles[i]
		}
		if r == '\t' {
			for range n { // each blank can be the last of a row
				l.putCell(screenCell{" ", Plain, 1})
			}
		} else {
			l.putCell(screenCell{displayForm(f.text[i:end]), style, n})
		}
		column += n
	}
	if len(f.text) == f.cursor {
		setCursor()
	}
	return l.rows, y, x
}

// layoutBelow lays out the lines under the text, in at most height rows.
func (f Frame) layoutBelow(cols, height int) []screenRow {
	var rows []screenRow
	for _, note := range f.noteLines {
		if len(rows) < height {
			rows = append(rows, clippedRow(note, cols, Faint))
		}
	}
	if len(f.matches) == 0 || len(rows) >= height {
		return rows
	}
	return append(rows, f.layoutCompletions(cols, height-len(rows))...)
}

// clippedRow returns the part of a text that fits into one row.
func clippedRow(text string, cols int, style Style) screenRow {
	var r screenRow
	for b := []byte(text); len(b) > 0; {
		n, cells := FirstCluster(b)
		one := string(b[:n])
		if c, _ := utf8.DecodeRune(b); isControl(c) {
			one, cells = " ", 1
		}
		if r.endColumn()+cells >= cols {
			break
		}
		r.cells = append(r.cells, screenCell{one, style, cells})
		b = b[n:]
	}
	return r
}

// layoutCompletions lays out the completions in columns. The chosen one is always visible.
func (f Frame) layoutCompletions(cols, height int) []screenRow {
	widest := 1
	for _, m := range f.matches {
		widest = max(widest, min(displayWidth([]rune(m)), cols-3))
	}
	widest += 2
	perRow := max(1, (cols-1)/widest)
	need := (len(f.matches) + perRow - 1) / perRow
	top := 0
	if need > height { // the last row says that more follow
		top = max(0, f.chosen/perRow-max(1, height-1)+1)
	}
	var rows []screenRow
	for i := top; i < need && len(rows) < height; i++ {
		if len(rows) == height-1 && need-top > height && height > 1 {
			rest := len(f.matches) - i*perRow
			return append(rows, clippedRow(moreLabel(rest), cols, Faint))
		}
		var r screenRow
		for j := i * perRow; j < min(len(f.matches), (i+1)*perRow); j++ {
			style := Plain
			if j == f.chosen {
				style = Selected
			}
			one := clippedRow(f.matches[j], widest, style)
			r.cells = append(r.cells, one.cells...)
			r.cells = append(r.cells, screenCell{strings.Repeat(" ", widest-one.endColumn()), Plain, widest - one.endColumn()})
		}
		rows = append(rows, r)
	}
	return rows
}
