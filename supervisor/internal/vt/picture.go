package vt

import "strings"

// A Picture is what is on a screen at one moment, as text.
type Picture struct {
	// Lines are the rows from the top, without blanks at their ends. Blank rows below the last text
	// and the cursor's row are left out.
	Lines                []string
	Rows, Columns        int
	CursorRow, CursorCol int // from 0
	CursorHidden         bool
	Alternate            bool // a full-screen program shows the alternate screen
	Highlights           []HighlightedText
}

// Modes are the switches of a terminal that decide how keys must be sent to its program.
type Modes struct {
	ApplicationCursor bool // cursor keys are ESC O A and not ESC [ A
	BracketedPaste    bool // pasted text is put between ESC [200~ and ESC [201~
	CursorHidden      bool
	Alternate         bool
	Mouse             bool // the program takes clicks
}

// Modes returns the modes that are set.
func (s *Emulator) Modes() Modes {
	return Modes{
		ApplicationCursor: s.modes.applicationCursor,
		BracketedPaste:    s.modes.bracketedPaste,
		CursorHidden:      s.modes.cursorHidden,
		Alternate:         s.alternate,
		Mouse:             s.modes.mouse != 0,
	}
}

// Snapshot returns what is shown now.
func (s *Emulator) Snapshot() Picture {
	lines := make([]string, s.rows)
	var text []byte
	used := s.row + 1
	for i, l := range s.lines {
		text = s.appendText(text[:0], l.cells)
		lines[i] = strings.TrimRight(string(text), " ")
		if lines[i] != "" {
			used = max(used, i+1)
		}
	}
	return Picture{
		Lines: lines[:used], Rows: s.rows, Columns: s.columns,
		CursorRow: s.row, CursorCol: s.column,
		CursorHidden: s.modes.cursorHidden, Alternate: s.alternate,
		Highlights: s.findHighlights(),
	}
}

// appendText adds the text of cells, with a space for each blank.
func (s *Emulator) appendText(text []byte, cells []cell) []byte {
	for i := range cells {
		switch char := cells[i].char; {
		case char == charBlank || char == charPadding:
			text = append(text, ' ')
		case char < 0x80:
			text = append(text, byte(char))
		case char == charTail:
		default:
			text = append(text, s.clusterText(char)...)
		}
	}
	return text
}

// isContinued reports whether the next row belongs to the same text. Some editors wrap lines themselves:
// they fill a row to its last column, and then move to the next one.
func (l *line) isContinued() bool {
	return l.continues || !l.cells[len(l.cells)-1].isBlank()
}

// joinedText returns the text from the first of the rows that belong together up to the cursor's row,
// of which only the columns before end are taken.
func (s *Emulator) joinedText(end int) string {
	first := s.row
	for first > 0 && s.lines[first-1].isContinued() {
		first--
	}
	var text []byte
	for _, l := range s.lines[first:s.row] {
		text = s.appendText(text, l.unpadded())
	}
	return string(s.appendText(text, s.lines[s.row].cells[:end]))
}

// unpadded returns the cells without the last one if a wide character did not fit into it.
func (l *line) unpadded() []cell {
	if n := len(l.cells) - 1; l.cells[n].char == charPadding {
		return l.cells[:n]
	}
	return l.cells
}

// TextBeforeCursor returns the text on the left of the cursor, including the rows above that were
// left because they were full. Blanks are spaces.
func (s *Emulator) TextBeforeCursor() string {
	end := s.column
	if s.wrapNext {
		end++
	}
	return s.joinedText(end)
}

// CursorLine returns the whole row of the cursor, with the rows above that were left because they were
// full, and without blanks at the end.
func (s *Emulator) CursorLine() string {
	return strings.TrimRight(s.joinedText(s.columns), " ")
}

// CountText returns how often text is on the screen, without overlaps. Text that was wrapped counts.
// Blanks are spaces, so a text of spaces only counts blank cells. It returns 0 for an empty text.
func (s *Emulator) CountText(text string) int {
	if text == "" {
		return 0
	}
	var all []byte
	for _, l := range s.lines {
		if l.isContinued() {
			all = s.appendText(all, l.unpadded())
			continue
		}
		all = append(s.appendText(all, l.cells), '\n')
	}
	return strings.Count(string(all), text)
}
