package vt

// maxParameters bounds the numbers of a control sequence. Further ones are dropped, as in xterm.
const maxParameters = 32

// maxParameter bounds one number, far above the size of a screen.
const maxParameter = 1 << 16

// A controlSequence is what follows ESC [, in its parts. One is used again and again, because clearing
// all its numbers would take longer than reading those that there are.
type controlSequence struct {
	mark         byte // "?", ">", "=" or "<" before the numbers; or 0
	intermediate byte // the last of the characters from space to "/"; or 0
	last         byte // the character that tells the function
	count        int  // of numbers, at least 1
	// numbers are valid up to count, but the first two always. A missing one is 0.
	numbers [maxParameters]int
	follows [maxParameters]bool // a colon and not a semicolon is before the number
}

// parse splits a sequence, of which b is all but the last character.
func (c *controlSequence) parse(b []byte, last byte) {
	c.mark, c.intermediate, c.last, c.count = 0, 0, last, 1
	c.numbers[0], c.numbers[1], c.follows[0] = 0, 0, false
	if len(b) > 0 && b[0] >= '<' && b[0] <= '?' {
		c.mark, b = b[0], b[1:]
	}
	n, number := 0, 0
	for _, d := range b {
		switch {
		case d >= '0' && d <= '9':
			number = min(maxParameter, number*10+int(d-'0'))
		case d == ';' || d == ':':
			if n < maxParameters {
				c.numbers[n] = number
			}
			number = 0
			if n++; n < maxParameters {
				c.numbers[n], c.follows[n] = 0, d == ':'
				c.count = n + 1
			}
		case d < '0':
			c.intermediate = d
		}
	}
	if n < maxParameters {
		c.numbers[n] = number
	}
}

// first is the first number, or 1.
func (c *controlSequence) first() int { return max(1, c.numbers[0]) }

// runEscape applies ESC, intermediate characters and c.
func (s *Emulator) runEscape(intermediate []byte, c byte) {
	s.joins = false
	if len(intermediate) > 0 {
		switch intermediate[0] {
		case '(':
			s.drawing[0] = c == '0'
		case ')':
			s.drawing[1] = c == '0'
		case '#':
			if c == '8' {
				s.fillScreen('E')
			}
		}
		return
	}
	switch c {
	case '7':
		s.saved = s.position
	case '8':
		s.restorePosition(s.saved)
	case 'D':
		s.lineFeed()
	case 'E':
		s.column = 0
		s.lineFeed()
	case 'H':
		s.tabs[s.column] = true
	case 'M':
		s.reverseFeed()
	case 'Z':
		s.answerDevice()
	case 'c':
		s.reset()
	}
}

// fillScreen shows a character everywhere, to align the picture of a tube.
func (s *Emulator) fillScreen(char int32) {
	for _, l := range s.lines {
		for i := range l.cells {
			l.cells[i] = cell{char: char}
		}
		l.continues = false
	}
	s.top, s.bottom = 0, s.rows-1
	s.moveTo(0, 0)
}

func (s *Emulator) restorePosition(p position) {
	s.position = p
	s.setPaper()
}

// runControl applies a control sequence, of which b is all but the last character.
func (s *Emulator) runControl(b []byte, last byte) {
	s.joins = false
	if last == 'm' && (len(b) == 0 || b[0] < '<') {
		s.runStyle(b)
		return
	}
	c := &s.parser.control
	c.parse(b, last)
	switch {
	case c.intermediate != 0:
		if c.intermediate == '$' && last == 'p' {
			s.answerMode(c.mark, c.numbers[0])
		} else if c.intermediate == '!' && last == 'p' {
			s.softReset()
		}
	case c.mark != 0:
		s.runPrivate(c)
	case !s.runMovement(c) && !s.runEdit(c):
		s.runOther(c)
	}
}

// runPrivate applies a sequence with a mark before its numbers.
func (s *Emulator) runPrivate(c *controlSequence) {
	switch {
	case c.mark == '?' && (c.last == 'h' || c.last == 'l'):
		for _, number := range c.numbers[:c.count] {
			s.setPrivateMode(number, c.last == 'h')
		}
	case c.mark == '?' && c.last == 'n':
		s.answerStatus(c.mark, c.numbers[0])
	case c.mark == '?' && (c.last == 'J' || c.last == 'K'): // erases what is not protected: everything
		c.mark = 0
		s.runEdit(c)
	case c.mark == '?' && c.last == 'W' && c.numbers[0] == 5:
		s.resetTabs()
	case c.mark == '>' && c.last == 'c':
		s.answerVersion()
	}
}

// runMovement applies a sequence that only moves the cursor. It returns false for others.
func (s *Emulator) runMovement(c *controlSequence) bool {
	n := c.first()
	low, high := 0, s.rows-1
	if s.row >= s.top {
		low = s.top
	}
	if s.row <= s.bottom {
		high = s.bottom
	}
	switch c.last {
	case 'A':
		s.row = max(low, s.row-n)
	case 'B', 'e':
		s.row = min(high, s.row+n)
	case 'C', 'a':
		s.column = min(s.columns-1, s.column+n)
	case 'D':
		s.column = max(0, s.column-n)
	case 'E':
		s.row, s.column = min(high, s.row+n), 0
	case 'F':
		s.row, s.column = max(low, s.row-n), 0
	case 'G', '`':
		s.column = min(s.columns, n) - 1
	case 'd':
		s.moveTo(n-1, s.column)
	case 'H', 'f':
		s.moveTo(n-1, max(1, c.numbers[1])-1)
	case 'I':
		s.tabForward(min(n, s.columns))
	case 'Z':
		s.backTab(min(n, s.columns))
	default:
		return false
	}
	s.wrapNext = false
	return true
}

// moveTo sets the cursor. In origin mode rows count from the top margin, and end at the bottom one.
func (s *Emulator) moveTo(row, column int) {
	low, high := 0, s.rows-1
	if s.origin {
		low, high = s.top, s.bottom
	}
	s.row, s.column = min(high, low+row), min(s.columns-1, column)
	s.wrapNext = false
}

// runEdit applies a sequence that changes cells. It returns false for others.
func (s *Emulator) runEdit(c *controlSequence) bool {
	n := c.first()
	switch c.last {
	case 'J':
		s.eraseScreen(c.numbers[0])
	case 'K':
		s.eraseLine(c.numbers[0])
	case 'L':
		s.scrollFromCursor(-n)
	case 'M':
		s.scrollFromCursor(n)
	case '@':
		s.insertCells(n)
	case 'P':
		s.deleteCells(n)
	case 'X':
		s.eraseColumns(s.column, min(s.columns, s.column+n))
	case 'S':
		s.scrollLines(s.top, n)
	case 'T':
		if c.count == 1 { // with five numbers it starts mouse tracking by highlights
			s.scrollLines(s.top, -n)
		}
	case 'b':
		s.repeatChar(n)
		return true
	default:
		return false
	}
	s.wrapNext = false
	return true
}

// scrollFromCursor scrolls the rows from the cursor's to the bottom margin.
func (s *Emulator) scrollFromCursor(count int) {
	if s.row >= s.top && s.row <= s.bottom {
		s.scrollLines(s.row, count)
		s.column = 0
	}
}

// repeatChar writes the last character again, at most to the end of the row.
func (s *Emulator) repeatChar(count int) {
	if s.lastChar == 0 {
		return
	}
	char := s.lastChar
	width := s.widths.width(char)
	for range min(count, max(1, (s.columns-s.column)/max(1, width))) {
		s.putCell(char, width)
	}
}

func (s *Emulator) eraseLine(part int) {
	switch part {
	case 0:
		s.eraseColumns(s.column, s.columns)
	case 1:
		s.eraseColumns(0, s.column+1)
	case 2:
		s.eraseColumns(0, s.columns)
	}
}

func (s *Emulator) eraseScreen(part int) {
	switch part {
	case 0:
		s.eraseLine(0)
		s.eraseLines(s.lines[s.row+1:])
	case 1:
		s.eraseLine(1)
		s.eraseLines(s.lines[:s.row])
	case 2:
		s.eraseLines(s.lines)
	}
}

// runOther applies the rest: margins, modes, tab stops, and questions.
func (s *Emulator) runOther(c *controlSequence) {
	switch c.last {
	case 'c':
		if c.numbers[0] == 0 {
			s.answerDevice()
		}
	case 'n':
		s.answerStatus(0, c.numbers[0])
	case 't':
		if c.numbers[0] == 18 {
			s.answerSize()
		}
	case 'g':
		if c.numbers[0] == 3 {
			clear(s.tabs)
		} else if c.numbers[0] == 0 {
			s.tabs[s.column] = false
		}
	case 'h', 'l':
		for _, number := range c.numbers[:c.count] {
			s.setMode(number, c.last == 'h')
		}
	case 'r':
		top, bottom := c.first()-1, c.numbers[1]-1
		if bottom < 0 || bottom >= s.rows {
			bottom = s.rows - 1
		}
		if top < bottom {
			s.top, s.bottom = top, bottom
			s.moveTo(0, 0)
		}
	case 's':
		s.saved = s.position
	case 'u':
		s.restorePosition(s.saved)
	}
}

func (s *Emulator) setMode(number int, on bool) {
	switch number {
	case 4:
		s.modes.insert = on
	case 20:
		s.modes.newLine = on
	}
}

func (s *Emulator) setPrivateMode(number int, on bool) {
	switch number {
	case 1:
		s.modes.applicationCursor = on
	case 6:
		s.origin = on
		s.moveTo(0, 0)
	case 7:
		s.modes.noWrap = !on
		s.wrapNext = false
	case 25:
		s.modes.cursorHidden = !on
	case 2004:
		s.modes.bracketedPaste = on
	case 9, 1000, 1002, 1003:
		if on {
			s.modes.mouse = number
		} else {
			s.modes.mouse = 0
		}
	case 47, 1047:
		s.useAlternate(on)
	case 1048:
		if on {
			s.saved = s.position
		} else {
			s.restorePosition(s.saved)
		}
	case 1049:
		if on && !s.alternate {
			s.savedAlternate = s.position
			s.useAlternate(true)
		} else if !on && s.alternate {
			s.useAlternate(false)
			s.restorePosition(s.savedAlternate)
		}
	}
}
