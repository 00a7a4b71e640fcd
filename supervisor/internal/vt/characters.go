package vt

import (
	"unicode"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

const zeroWidthJoiner = 0x200d

// A widthCache remembers the widths of characters, by the last bits of their numbers.
type widthCache [256]struct {
	char  int32
	width int8
}

// width returns the number of columns of a character: 0, 1 or 2.
func (w *widthCache) width(r rune) int {
	if r < 0x300 {
		return 1
	}
	known := &w[r&0xff]
	if known.char != r {
		known.char, known.width = r, int8(widthOf(r))
	}
	return int(known.width)
}

func widthOf(r rune) int {
	if r >= 0x1160 && r <= 0x11ff { // vowels and finals of a Korean syllable
		return 0
	}
	if r >= 0x1f1e6 && r <= 0x1f1ff { // one half of a flag; the second joins the first
		return 2
	}
	return min(2, uniseg.StringWidth(string(r)))
}

// isHidden reports whether a character is neither shown nor part of another one.
func isHidden(r rune) bool {
	return r >= 0x7f && r < 0xa0 || r > 0xad && r != zeroWidthJoiner && unicode.Is(unicode.Cf, r)
}

// lineDrawing has the characters of the set "DEC Special Graphics" from ` to ~.
var lineDrawing = [...]rune{
	'◆', '▒', '␉', '␌', '␍', '␊', '°', '±', '␤', '␋', '┘', '┐', '┌', '└', '┼', '⎺', '⎻', '─', '⎼', '⎽', '├', '┤', '┴', '┬', '│', '≤', '≥', 'π', '≠', '£', '·',
}

// putASCII writes the printable ASCII characters at the beginning of b, and returns their number. The
// first byte must be one.
func (s *Emulator) putASCII(b []byte) int {
	if s.modes.insert || s.joins || s.drawing[0] || s.drawing[1] {
		s.putChar(rune(b[0]))
		return 1
	}
	if s.wrapNext {
		s.wrapLine()
	}
	l := s.lines[s.row]
	room := l.cells[s.column:]
	b = b[:min(len(b), len(room))]
	if room[0].char == charTail {
		s.splitWide(l, s.column)
	}
	paper := s.paper
	n := 0
	for ; n < len(b); n++ {
		c := b[n]
		if c < ' ' || c >= delete {
			break
		}
		room[n] = cell{char: int32(c), paper: paper}
	}
	if n < len(room) && room[n].char == charTail { // its left half was overwritten
		room[n].char = charBlank
	}
	s.lastChar = int32(b[n-1])
	s.advanceCursor(n)
	return n
}

// advanceCursor moves the cursor to the right of n columns that were written.
func (s *Emulator) advanceCursor(n int) {
	s.column += n
	if s.column >= s.columns {
		s.column = s.columns - 1
		s.wrapNext = !s.modes.noWrap
	}
}

// wrapLine begins the next row because this one is full.
func (s *Emulator) wrapLine() {
	full := s.lines[s.row]
	s.column = 0
	s.lineFeed()
	full.continues = s.lines[s.row] != full
}

// putChar writes a character at the cursor.
func (s *Emulator) putChar(r rune) {
	if isHidden(r) {
		return
	}
	if s.drawsLines() && r >= '`' && r <= '~' {
		r = lineDrawing[r-'`']
	}
	width := s.widths.width(r)
	if width == 0 || s.joins || r >= 0x1f1e6 && r <= 0x1f1ff {
		if s.join(r) {
			return
		}
		if width == 0 {
			return
		}
	}
	s.putCell(r, width)
}

// drawsLines reports whether the character set is the one for line drawing.
func (s *Emulator) drawsLines() bool {
	if s.shifted {
		return s.drawing[1]
	}
	return s.drawing[0]
}

// putCell writes a character of one or two columns. A wide one does not fit into a screen of one column,
// and is not shown there.
func (s *Emulator) putCell(r rune, width int) {
	if width > s.columns {
		return
	}
	if s.wrapNext {
		s.wrapLine()
	}
	if width == 2 && s.column == s.columns-1 {
		if s.modes.noWrap {
			return
		}
		l := s.lines[s.row]
		s.splitWide(l, s.column)
		l.cells[s.column] = cell{char: charPadding, paper: s.paper}
		s.wrapLine()
	}
	l := s.lines[s.row]
	if s.modes.insert {
		s.insertCells(width)
	}
	s.splitWide(l, s.column)
	s.splitWide(l, s.column+width)
	l.cells[s.column] = cell{char: r, paper: s.paper}
	if width == 2 {
		l.cells[s.column+1] = cell{char: charTail, paper: s.paper}
	}
	s.lastChar = r
	s.advanceCursor(width)
}

// join adds a mark, or what follows a joiner, to the character before the cursor. It returns false if
// r does not belong to it.
func (s *Emulator) join(r rune) bool {
	column := s.column - 1
	if s.wrapNext {
		column = s.column
	}
	l := s.lines[s.row]
	if column >= 0 && l.cells[column].char == charTail {
		column--
	}
	joins := s.joins
	s.joins = false
	if column < 0 || l.cells[column].char == charBlank || l.cells[column].char == charPadding {
		return false
	}
	c := &l.cells[column]
	text := s.clusterText(c.char)
	first, size := utf8.DecodeRuneInString(text)
	if r >= 0x1f1e6 && r <= 0x1f1ff && (size < len(text) || first < 0x1f1e6 || first > 0x1f1ff) && !joins {
		return false // the first half of a flag
	}
	s.joins = r == zeroWidthJoiner
	if utf8.RuneCountInString(text) > maxMarks {
		return true
	}
	c.char = s.newCluster(text + string(r))
	return true
}

// clusterText returns the text of a cell's character.
func (s *Emulator) clusterText(char int32) string {
	if char >= charCluster {
		return s.clusters[char-charCluster]
	}
	return string(rune(char))
}

// newCluster stores a text, and returns the character of a cell that shows it.
func (s *Emulator) newCluster(text string) int32 {
	if len(s.clusters) >= 2*s.rows*s.columns+spareClusters {
		s.collectClusters()
	}
	s.clusters = append(s.clusters, text)
	return charCluster + int32(len(s.clusters)-1)
}

// collectClusters keeps the clusters that are on a screen.
func (s *Emulator) collectClusters() {
	var kept []string
	for _, lines := range [][]*line{s.lines, s.hidden} {
		for _, l := range lines {
			for i := range l.cells {
				if c := &l.cells[i]; c.char >= charCluster {
					kept = append(kept, s.clusters[c.char-charCluster])
					c.char = charCluster + int32(len(kept)-1)
				}
			}
		}
	}
	s.clusters = kept
	if s.lastChar >= charCluster {
		s.lastChar = 0
	}
}

// insertCells moves the characters from the cursor to the right by n, and drops those that leave.
func (s *Emulator) insertCells(n int) {
	l := s.lines[s.row]
	n = min(n, s.columns-s.column)
	s.splitWide(l, s.column)
	s.splitWide(l, s.columns-n)
	copy(l.cells[s.column+n:], l.cells[s.column:])
	s.eraseCells(l.cells[s.column : s.column+n])
}

// deleteCells removes n characters from the cursor on, and moves the rest of the row to the left.
func (s *Emulator) deleteCells(n int) {
	l := s.lines[s.row]
	n = min(n, s.columns-s.column)
	s.splitWide(l, s.column)
	s.splitWide(l, s.column+n)
	copy(l.cells[s.column:], l.cells[s.column+n:])
	s.eraseCells(l.cells[s.columns-n:])
	l.continues = false
}
