package lineedit

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// A Painter draws frames on a terminal, each in place of the last. Between Begin and Finish or
// Erase no other output may reach the terminal, and the cursor must not be moved. Write errors are
// ignored, because a closed terminal also ends the input.
type Painter struct {
	Out  io.Writer
	Size func() (cols, rows int) // of the terminal
	Dumb bool                    // the terminal knows no control sequences: text is only appended, or erased by backspaces

	frame        Frame
	drawn        bool
	start        int         // the column at which the first row starts
	rows         []screenRow // on the screen
	y, x         int         // the cursor, relative to the first row
	top          int         // how many rows of the frame are above the first row
	scrolled     []rowExtent // older rows, which left the screen when it shrank
	cols         int
	height       int
	b            strings.Builder
	currentStyle Style
}

// Begin draws a frame at the cursor, which is in column start.
func (p *Painter) Begin(v Frame, start int) {
	cols, height := p.Size()
	p.cols, p.height, p.start, p.drawn, p.top, p.scrolled = max(1, cols), height, start, true, 0, nil
	p.start %= p.cols
	p.rows, p.y, p.x = []screenRow{{start: p.start}}, 0, p.start
	if start > 0 && p.start == 0 {
		p.b.WriteString(" \b") // lets the terminal wrap to the next row
	}
	p.Draw(v)
}

// Draw shows a frame in place of the last one.
func (p *Painter) Draw(v Frame) {
	if !p.drawn {
		return
	}
	p.frame = v
	cols, height := p.Size()
	if max(1, cols) != p.cols {
		p.Resized()
		return
	}
	height = max(2, height)
	rows, y, x := v.layoutRows(p.cols, p.start)
	below := v.layoutBelow(p.cols, max(1, min(height-2, max(height/2, height-len(rows)))))
	room := max(1, height-len(below))
	if len(rows) > room {
		p.top = min(max(p.top, y-room+1), y, len(rows)-room)
		p.top = max(p.top, 0)
		rows = slices.Clone(rows[p.top : p.top+room])
		rows[0].wraps = false
		y -= p.top
	} else {
		p.top = 0
	}
	p.updateRows(append(slices.Clone(rows), below...), v.colour)
	p.moveCursor(y, x)
	p.flushOutput()
}

// Erase removes the frame, and leaves the cursor where Begin found it.
func (p *Painter) Erase() {
	if !p.drawn {
		return
	}
	if p.Dumb {
		p.b.WriteString("\r\n")
	}
	p.moveCursor(0, p.start)
	p.eraseBelow(len(p.rows) > 1)
	p.flushOutput()
	p.drawn = false
}

// Finish shows the whole frame and then mark, with the cursor at the start of the row below.
func (p *Painter) Finish(mark string) {
	if !p.drawn {
		return
	}
	v := p.frame.finalFrame()
	rows, y, _ := v.layoutRows(p.cols, p.start)
	if last := len(rows) - 1; last > 0 && len(rows[last].cells) == 0 && rows[last].wraps {
		rows = rows[:last]
	}
	if _, height := p.Size(); len(rows) > height || p.top > 0 {
		p.moveCursor(0, p.start)
		p.eraseBelow(len(p.rows) > 1)
		p.rows = []screenRow{{start: p.start}}
	}
	p.updateRows(rows, v.colour)
	p.moveCursor(min(y, len(rows)-1), p.rows[min(y, len(rows)-1)].endColumn())
	p.b.WriteString(mark + "\r\n")
	p.flushOutput()
	p.drawn = false
}

// Resized redraws the frame after the terminal's size has changed. It expects that the terminal has
// rewrapped its own rows, as most do.
func (p *Painter) Resized() {
	if !p.drawn {
		return
	}
	cols, height := p.Size()
	cols = max(1, cols)
	if p.Dumb {
		p.cols = cols
		return
	}
	rows := slices.Clone(p.scrolled)
	for _, r := range p.rows {
		rows = append(rows, rowExtent{r.endColumn(), r.wraps})
	}
	all := len(rewrapRows(rows, cols))
	rows = rows[:len(p.scrolled)+p.y+1]
	rows[len(rows)-1].width = p.x
	rows = rewrapRows(rows, cols)
	room := height - 1 // the number of rows that fit above the cursor
	if height >= p.height {
		room -= all - len(rows) // a smaller screen loses the rows below it
	}
	above := min(len(rows)-1, max(0, room)) // a larger screen may bring lost rows back
	p.scrolled = rows[:len(rows)-1-above]
	if above > 0 {
		fmt.Fprintf(&p.b, "\x1b[%dA", above)
	}
	below := len(p.rows) > p.y+1
	p.start %= cols
	p.cols, p.height, p.top = cols, height, 0
	p.rows, p.y, p.x = []screenRow{{start: p.start}}, 0, p.start
	fmt.Fprintf(&p.b, "\x1b[%dG", p.start+1)
	p.eraseBelow(above > 0 || below)
	p.Draw(p.frame)
}

// A rowExtent holds the properties of a row that rewrapping depends on.
type rowExtent struct {
	width int
	wraps bool
}

// rewrapRows returns the given rows as the terminal wraps them at another width. The cursor is
// after the last row, and wraps to the next row if the last one is full.
func rewrapRows(rows []rowExtent, cols int) []rowExtent {
	var all []rowExtent
	for i := 0; i < len(rows); {
		width := rows[i].width
		for i++; i < len(rows) && rows[i].wraps; i++ {
			width += rows[i].width
		}
		if i < len(rows) {
			width = max(0, width-1)
		}
		for n := 0; n <= width/cols; n++ {
			all = append(all, rowExtent{min(cols, width-n*cols), n > 0})
		}
	}
	return all
}

// eraseBelow erases everything after the cursor. more says that further rows follow. tmux moves a
// screen that is erased from its first cell into its history, and shows it again in a larger
// window. Therefore the row of the cursor is erased separately.
func (p *Painter) eraseBelow(more bool) {
	if p.Dumb {
		return
	}
	p.b.WriteString("\x1b[K")
	if more {
		fmt.Fprintf(&p.b, "\x1b[B\x1b[1G\x1b[J\x1b[A\x1b[%dG", p.x+1)
	}
}

// Clear draws the frame at the top of an empty screen.
func (p *Painter) Clear() {
	if p.Dumb {
		p.b.WriteString("\r\n")
	} else {
		p.b.WriteString("\x1b[H\x1b[2J")
	}
	p.flushOutput()
	v := p.frame
	p.drawn = false
	p.Begin(v, 0)
}

// updateRows makes the screen show rows. It writes from the first difference on.
func (p *Painter) updateRows(rows []screenRow, colour bool) {
	i, j := firstDifference(p.rows, rows)
	if i < 0 {
		p.rows = rows
		return
	}
	if p.Dumb {
		p.appendRows(rows, i, j)
		return
	}
	if j > 0 && j < len(p.rows[i].cells) && p.rows[i].cells[j].width == 0 {
		j-- // a cluster without its own cell is in the cell before
	}
	at := screenRow{rows[i].start, rows[i].cells[:j], false}.endColumn()
	p.moveCursor(i, min(at, p.cols-1))
	if at >= p.cols { // after the last column: only rewriting the last cell moves the cursor there
		for j > 0 && at >= p.cols {
			j--
			at -= rows[i].cells[j].width
		}
		p.moveCursor(i, at)
	}
	if len(p.rows) > i+1 || len(p.rows[i].cells) > j {
		p.eraseBelow(len(p.rows) > i+1)
	}
	p.writeRows(rows, i, j, colour)
	p.rows = rows
	p.y, p.x = len(rows)-1, rows[len(rows)-1].endColumn()
}

// appendRows is updateRows for a dumb terminal. Its cursor is always after the last cell. Rows
// above the last stay as they are. If one of them changes, all rows are written again below.
func (p *Painter) appendRows(rows []screenRow, i, j int) {
	last := len(p.rows) - 1
	switch old := p.rows[i]; {
	case j == len(old.cells) && (i == last || i == len(rows)-1 && j == len(rows[i].cells)):
		if i < last {
			p.rows = rows
			return
		}
	case i == last:
		p.b.WriteString(strings.Repeat("\b \b", old.endColumn()-screenRow{old.start, old.cells[:j], false}.endColumn()))
	default:
		p.b.WriteString("\r\n")
		i, j = 0, 0
	}
	p.writeRows(rows, i, j, false)
	p.rows = rows
}

// writeRows writes rows from one cell on.
func (p *Painter) writeRows(rows []screenRow, i, j int, colour bool) {
	for ; i < len(rows); i, j = i+1, 0 {
		column := screenRow{rows[i].start, rows[i].cells[:j], false}.endColumn()
		for _, c := range rows[i].cells[j:] {
			if colour || c.style == Selected {
				p.setStyle(c.style)
			} else {
				p.setStyle(Plain)
			}
			p.b.WriteString(c.text)
			if column += c.width; c.isDisputed() && column < p.cols && !p.Dumb {
				fmt.Fprintf(&p.b, "\x1b[%dG", column+1)
			}
		}
		if i+1 == len(rows) {
			break
		}
		switch next := rows[i+1]; {
		case !next.wraps:
			p.setStyle(Plain)
			p.b.WriteString("\r\n")
		case len(next.cells) == 0:
			p.setStyle(Plain)
			p.b.WriteString(" \b")
		}
	}
	p.setStyle(Plain)
}

// setStyle sets the style of the following output.
func (p *Painter) setStyle(s Style) {
	if s == p.currentStyle || p.Dumb {
		return
	}
	if p.currentStyle != Plain {
		p.b.WriteString("\x1b[0m")
	}
	if s != Plain {
		p.b.WriteString("\x1b[" + sgr[s] + "m")
	}
	p.currentStyle = s
}

// firstDifference returns the row and cell at which two screens start to differ, or -1.
func firstDifference(a, b []screenRow) (i, j int) {
	for i := range b {
		if i > 0 && (i >= len(a) || a[i].wraps != b[i].wraps) {
			return i - 1, len(b[i-1].cells) // the end of a row determines how the next one starts
		}
		for j := range b[i].cells {
			if j >= len(a[i].cells) || a[i].cells[j] != b[i].cells[j] {
				return i, j
			}
		}
		if len(a[i].cells) > len(b[i].cells) {
			return i, len(b[i].cells)
		}
	}
	if len(a) > len(b) {
		return len(b) - 1, len(b[len(b)-1].cells)
	}
	return -1, 0
}

// moveCursor moves the cursor to a row and column of the frame.
func (p *Painter) moveCursor(y, x int) {
	switch {
	case p.Dumb:
	case y < p.y:
		fmt.Fprintf(&p.b, "\x1b[%dA", p.y-y)
	case y > p.y:
		fmt.Fprintf(&p.b, "\x1b[%dB", y-p.y)
	}
	if !p.Dumb && (x != p.x || p.x >= p.cols) {
		fmt.Fprintf(&p.b, "\x1b[%dG", x+1)
	}
	p.y, p.x = y, x
}

func (p *Painter) flushOutput() {
	_, _ = io.WriteString(p.Out, p.b.String())
	p.b.Reset()
}
