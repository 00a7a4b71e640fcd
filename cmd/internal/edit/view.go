package edit

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// A View is what there is to draw of an editor. It never changes.
type View struct {
	prompt, continuation string
	text                 []rune
	styles               []Style // of text; nil without colours
	at                   int
	colour               bool
	matches              []string
	chosen               int
	notes                []string // lines below the text
}

// View returns what there is to draw now.
func (e *Editor) View() View {
	v := View{prompt: e.o.Prompt, continuation: e.o.Continuation, at: e.at, colour: e.o.Colour, chosen: -1}
	if e.o.Secret {
		v.at = 0
		return v
	}
	v.text = slices.Clone(e.text)
	if e.o.Colour && e.o.Syntax != nil {
		v.styles = e.o.Syntax.styles(v.text)
	}
	switch {
	case e.search != nil:
		v.notes = []string{e.search.status()}
	case e.hint != "":
		v.notes = strings.Split(e.hint, "\n")
	}
	if e.menu != nil {
		v.matches, v.chosen = e.menu.matches, e.menu.chosen
	}
	return v
}

// final returns the view without what only helps to edit it, and its cursor at the end.
func (v View) final() View {
	v.at, v.matches, v.notes = len(v.text), nil, nil
	return v
}

// A cell is one character on the screen, or several that share their cells.
type cell struct {
	text  string
	style Style
	width int
}

// isDisputed reports whether terminals differ in how many cells it takes: some count the parts of a
// cluster, and others the whole.
func (c cell) isDisputed() bool {
	return c.text != "" && c.text[0] >= utf8.RuneSelf && (c.width == 0 || utf8.RuneCountInString(c.text) > 1)
}

// A row is one row of the screen. The first one begins behind what is there already.
type row struct {
	start int // its first column
	cells []cell
	soft  bool // the terminal itself went on to it from the row before
}

// end returns the column behind the row's last character.
func (r row) end() int {
	at := r.start
	for _, c := range r.cells {
		at += c.width
	}
	return at
}

// A layout places text in rows.
type layout struct {
	cols int
	rows []row
	x    int
}

// put appends a cell, and goes on to the next row where the terminal does so.
func (l *layout) put(c cell) {
	if l.x+c.width > l.cols && l.x > 0 {
		l.rows = append(l.rows, row{soft: true})
		l.x = 0
	}
	last := &l.rows[len(l.rows)-1]
	last.cells = append(last.cells, c)
	l.x += c.width
}

func (l *layout) newRow() {
	l.rows = append(l.rows, row{})
	l.x = 0
}

// prompt puts a prompt, which may have colours of its own.
func (l *layout) prompt(text string) {
	for text != "" {
		n := Escape([]byte(text))
		if n > 0 {
			l.put(cell{text: text[:n]})
			text = text[n:]
			continue
		}
		n, cells := Cluster([]byte(text))
		switch r, _ := utf8.DecodeRuneInString(text); {
		case r == '\n':
			l.newRow()
		case !isControl(r):
			l.put(cell{text: text[:n], width: cells})
		}
		text = text[n:]
	}
}

// shownAt returns the end of the cluster that begins at i, and the cells that it takes at a column of
// its line.
func shownAt(text []rune, i, column int) (end, cells int) {
	end, cells = clusterAt(text, i)
	switch r := text[i]; {
	case r == '\t':
		cells = 8 - column%8
	case isControl(r):
		cells = 2
	}
	return end, cells
}

// shown returns the form in which a cluster is shown.
func shown(cluster []rune) string {
	switch r := cluster[0]; {
	case r < ' ':
		return "^" + string('@'+r)
	case isControl(r):
		return "^?"
	}
	return string(cluster)
}

// rows lays the view out on a screen of cols columns, behind start columns that are taken.
// The cursor is in row y and column x.
func (v View) rows(cols, start int) (rows []row, y, x int) {
	l := layout{cols: cols, rows: []row{{start: start}}, x: start}
	l.prompt(v.prompt)
	place := func() {
		if l.x >= cols { // behind the last column there is no cursor
			l.rows = append(l.rows, row{soft: true})
			l.x = 0
		}
		y, x = len(l.rows)-1, l.x
	}
	column := 0
	for i, end := 0, 0; i < len(v.text); i = end {
		var n int
		r := v.text[i]
		end, n = shownAt(v.text, i, column)
		if i <= v.at && v.at < end {
			if r == '\n' {
				place()
			} else {
				y, x = len(l.rows)-1, l.x
				if l.x+n > cols {
					y, x = y+1, 0
				}
			}
		}
		if r == '\n' {
			l.newRow()
			l.prompt(v.continuation)
			column = 0
			continue
		}
		style := Plain
		if v.styles != nil {
			style = v.styles[i]
		}
		if r == '\t' {
			for range n { // each blank can be the last of a row
				l.put(cell{" ", Plain, 1})
			}
		} else {
			l.put(cell{shown(v.text[i:end]), style, n})
		}
		column += n
	}
	if len(v.text) == v.at {
		place()
	}
	return l.rows, y, x
}

// below lays out the lines under the text, in at most height rows.
func (v View) below(cols, height int) []row {
	var rows []row
	for _, note := range v.notes {
		if len(rows) < height {
			rows = append(rows, line(note, cols, Faint))
		}
	}
	if len(v.matches) == 0 || len(rows) >= height {
		return rows
	}
	return append(rows, v.list(cols, height-len(rows))...)
}

// line returns as much of a text as one row has room for.
func line(text string, cols int, style Style) row {
	var r row
	for b := []byte(text); len(b) > 0; {
		n, cells := Cluster(b)
		one := string(b[:n])
		if c, _ := utf8.DecodeRune(b); isControl(c) {
			one, cells = " ", 1
		}
		if r.end()+cells >= cols {
			break
		}
		r.cells = append(r.cells, cell{one, style, cells})
		b = b[n:]
	}
	return r
}

// list lays out the completions in columns. The chosen one is among those that are shown.
func (v View) list(cols, height int) []row {
	widest := 1
	for _, m := range v.matches {
		widest = max(widest, min(cellsOf([]rune(m)), cols-3))
	}
	widest += 2
	perRow := max(1, (cols-1)/widest)
	need := (len(v.matches) + perRow - 1) / perRow
	top := 0
	if need > height { // the last row says that there are more
		top = max(0, v.chosen/perRow-max(1, height-1)+1)
	}
	var rows []row
	for i := top; i < need && len(rows) < height; i++ {
		if len(rows) == height-1 && need-top > height && height > 1 {
			rest := len(v.matches) - i*perRow
			return append(rows, line(more(rest), cols, Faint))
		}
		var r row
		for j := i * perRow; j < min(len(v.matches), (i+1)*perRow); j++ {
			style := Plain
			if j == v.chosen {
				style = Selected
			}
			one := line(v.matches[j], widest, style)
			r.cells = append(r.cells, one.cells...)
			r.cells = append(r.cells, cell{strings.Repeat(" ", widest-one.end()), Plain, widest - one.end()})
		}
		rows = append(rows, r)
	}
	return rows
}
