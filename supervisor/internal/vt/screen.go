package vt

const (
	maxRows    = 500
	maxColumns = 1000

	// maxMarks bounds the accents and joined characters of one cell.
	maxMarks = 8

	// spareClusters is the least number of clusters that a full table of them can gain by a search for
	// those that are still shown.
	spareClusters = 1024
)

// Values of a cell's character that are not characters.
const (
	charBlank   = 0          // nothing was written here
	charTail    = 0x110000   // the right half of a wide character
	charPadding = 0x110001   // the last column, too narrow for the wide character that wrapped
	charCluster = 0x01000000 // plus an index of Emulator.clusters
)

// A cell is one character's place on the screen, with the looks that matter for [HighlightedText].
type cell struct {
	char  int32
	paper paper
}

// A paper is the color behind a character, as a person sees it. It is paperDefault, paperInk, an index
// of the palette, or red, green and blue.
type paper uint32

const (
	paperDefault paper = 0
	paperInk     paper = 1 << 24 // the color of plain text, behind reversed text
	paperIndex   paper = 2 << 24 // plus the number of a color in the palette
	paperRGB     paper = 3 << 24 // plus three bytes
	paperReverse paper = 1 << 31 // text and background were exchanged (SGR 7)
)

// A line is one row of the screen. A line that continues was left because it was full, so the
// next row belongs to the same text.
type line struct {
	cells     []cell
	continues bool
}

// A position is the cursor with everything that a program can save and restore with it.
type position struct {
	row, column int
	wrapNext    bool // the last column was written; the next character begins a row
	origin      bool // rows count from the top margin
	drawing     [2]bool
	shifted     bool // characters come from the second set

	ink, back paper // colors of text and background, not exchanged
	reverse   bool
}

// An Emulator is the state of a terminal: its cells, its cursor and its modes. It is not safe for
// concurrent use.
type Emulator struct {
	rows, columns int
	lines         []*line // what is shown
	hidden        []*line // the main screen while the alternate one is shown, or nil
	alternate     bool

	position
	paper                 paper // of the next character
	saved, savedAlternate position
	top, bottom           int // first and last row of the scroll region
	tabs                  []bool
	lastChar              int32 // for repetition
	joins                 bool  // a joiner was written: the next character belongs to the same cell

	clusters []string // characters with marks

	modes           modes
	returnOnNewline bool

	parser parser
	widths widthCache
	answer func([]byte)
}

// modes are the switches that programs set by number, with the state that a terminal begins with.
type modes struct {
	applicationCursor bool // DECCKM, 1
	noWrap            bool // DECAWM off, 7
	cursorHidden      bool // DECTCEM off, 25
	bracketedPaste    bool // 2004
	mouse             int  // the mode that reports the mouse: 9, 1000, 1002 or 1003; or 0
	insert            bool // IRM, 4 without a question mark
	newLine           bool // LNM, 20 without a question mark
}

// New returns an empty screen. A size outside 1 to 500 rows or 1 to 1000 columns is cut to that. answer
// is called by Write with each answer of the terminal, in order. It must not call the screen, and may
// keep the bytes. It may be nil.
func New(rows, columns int, answer func([]byte)) *Emulator {
	if answer == nil {
		answer = func([]byte) {}
	}
	s := &Emulator{rows: clamp(rows, 1, maxRows), columns: clamp(columns, 1, maxColumns), answer: answer}
	s.reset()
	return s
}

func clamp(n, low, high int) int { return max(low, min(n, high)) }

// reset returns to the state of a new terminal.
func (s *Emulator) reset() {
	s.lines, s.hidden, s.alternate = newLines(s.rows, s.columns), nil, false
	s.clusters = nil
	s.softReset()
	s.position, s.saved, s.savedAlternate = position{}, position{}, position{}
	s.setPaper()
	s.resetTabs()
	s.lastChar, s.joins = 0, false
}

// softReset ends the modes that a crashed program may have left, and keeps the picture.
func (s *Emulator) softReset() {
	s.modes = modes{}
	s.top, s.bottom = 0, s.rows-1
	row, column := s.row, s.column
	s.position = position{row: row, column: column}
	s.saved = position{}
	s.setPaper()
}

func newLines(rows, columns int) []*line {
	lines := make([]*line, rows)
	cells := make([]cell, rows*columns)
	for i := range lines {
		lines[i] = &line{cells: cells[i*columns : (i+1)*columns : (i+1)*columns]}
	}
	return lines
}

func (s *Emulator) resetTabs() {
	s.tabs = make([]bool, s.columns)
	for i := 8; i < s.columns; i += 8 {
		s.tabs[i] = true
	}
}

// SetReturnOnNewline makes a newline also return to the first column. Set it for a terminal whose kernel
// does not turn a newline into CR LF, and clear it when a program turns that on.
func (s *Emulator) SetReturnOnNewline(on bool) { s.returnOnNewline = on }

// Resize changes the size, within the bounds of [New]. Text keeps its place and is not wrapped again.
// If rows are lost below the cursor's, they go first, then those at the top.
func (s *Emulator) Resize(rows, columns int) {
	rows, columns = clamp(rows, 1, maxRows), clamp(columns, 1, maxColumns)
	if rows == s.rows && columns == s.columns {
		return
	}
	cut := max(0, s.row-(rows-1))
	s.lines = s.resizedLines(s.lines, rows, columns, cut)
	s.row -= cut
	if s.hidden != nil {
		cut = max(0, s.savedAlternate.row-(rows-1))
		s.hidden = s.resizedLines(s.hidden, rows, columns, cut)
		s.savedAlternate.row -= cut
	}
	s.rows, s.columns = rows, columns
	s.top, s.bottom = 0, rows-1
	for _, p := range []*position{&s.position, &s.saved, &s.savedAlternate} {
		p.row, p.column = clamp(p.row, 0, rows-1), clamp(p.column, 0, columns-1)
		p.wrapNext = false
	}
	s.resetTabs()
}

// resizedLines copies lines without the first cut rows into a new grid.
func (s *Emulator) resizedLines(lines []*line, rows, columns, cut int) []*line {
	grid := newLines(rows, columns)
	for i, l := range grid {
		if cut+i >= len(lines) {
			break
		}
		old := lines[cut+i]
		if copy(l.cells, old.cells) < len(old.cells) && old.cells[columns].char == charTail {
			l.cells[columns-1].char = charBlank
		}
		l.continues = old.continues && columns == len(old.cells)
	}
	return grid
}

// scrollLines moves the rows from first to the bottom margin up by count, or down if count is negative. Rows
// that come in are empty.
func (s *Emulator) scrollLines(first, count int) {
	region := s.lines[first : s.bottom+1]
	n := min(max(count, -count), len(region))
	if n == 0 {
		return
	}
	var kept [4]*line
	if count > 0 {
		moved := append(kept[:0], region[:n]...)
		copy(region, region[n:])
		copy(region[len(region)-n:], moved)
		s.eraseLines(region[len(region)-n:])
		return
	}
	moved := append(kept[:0], region[len(region)-n:]...)
	copy(region[n:], region)
	copy(region, moved)
	s.eraseLines(region[:n])
}

func (s *Emulator) eraseLines(lines []*line) {
	for _, l := range lines {
		s.eraseCells(l.cells)
		l.continues = false
	}
}

// eraseCells makes cells blank, with the background that is set. Halves of wide characters next to
// them are the caller's.
func (s *Emulator) eraseCells(cells []cell) {
	if s.back == paperDefault {
		clear(cells)
		return
	}
	for i := range cells {
		cells[i] = cell{paper: s.back}
	}
}

// eraseColumns makes the columns from begin to before end of the cursor's row blank.
func (s *Emulator) eraseColumns(begin, end int) {
	l := s.lines[s.row]
	s.splitWide(l, begin)
	s.splitWide(l, end)
	s.eraseCells(l.cells[begin:end])
	if end == s.columns {
		l.continues = false
	}
}

// splitWide replaces a wide character that reaches across the border before column with blanks.
func (s *Emulator) splitWide(l *line, column int) {
	if column > 0 && column < s.columns && l.cells[column].char == charTail {
		l.cells[column-1].char, l.cells[column].char = charBlank, charBlank
	}
}

// lineFeed goes one row down, and scrolls at the bottom margin.
func (s *Emulator) lineFeed() {
	s.wrapNext = false
	if s.row == s.bottom {
		s.scrollLines(s.top, 1)
	} else if s.row < s.rows-1 {
		s.row++
	}
}

// reverseFeed goes one row up, and scrolls down at the top margin.
func (s *Emulator) reverseFeed() {
	s.wrapNext = false
	if s.row == s.top {
		s.scrollLines(s.top, -1)
	} else if s.row > 0 {
		s.row--
	}
}

// useAlternate shows the alternate screen, or the main one again.
func (s *Emulator) useAlternate(on bool) {
	if on == s.alternate {
		return
	}
	s.alternate = on
	if on {
		s.hidden, s.lines = s.lines, newLines(s.rows, s.columns)
		s.eraseLines(s.lines)
		return
	}
	s.lines, s.hidden = s.hidden, nil
}
