package vt

import "fmt"

func (s *Emulator) sendAnswer(format string, values ...any) {
	s.answer(fmt.Appendf(nil, format, values...))
}

// answerDevice answers that this is a VT220 with colors (DA1). Programs ask it last, and
// take the answer as the end of the answers to all questions before.
func (s *Emulator) answerDevice() { s.sendAnswer("\x1b[?62;22c") }

// answerVersion gives a version so small that no program expects the extensions of one terminal (DA2).
func (s *Emulator) answerVersion() { s.sendAnswer("\x1b[>1;1;0c") }

// answerSize gives the size in characters.
func (s *Emulator) answerSize() { s.sendAnswer("\x1b[8;%d;%dt", s.rows, s.columns) }

// answerStatus answers that all is well, or where the cursor is. mark is "?" or 0.
func (s *Emulator) answerStatus(mark byte, question int) {
	row := s.row
	if s.origin {
		row -= s.top
	}
	switch {
	case mark == 0 && question == 5:
		s.sendAnswer("\x1b[0n")
	case mark == 0 && question == 6:
		s.sendAnswer("\x1b[%d;%dR", row+1, s.column+1)
	case mark == '?' && question == 6:
		s.sendAnswer("\x1b[?%d;%dR", row+1, s.column+1)
	}
}

// answerMode tells whether a mode is set (1), not set (2) or unknown (0). mark is "?" or 0.
func (s *Emulator) answerMode(mark byte, number int) {
	on, known := s.modeState(mark, number)
	state := 0
	switch {
	case known && on:
		state = 1
	case known:
		state = 2
	}
	switch mark {
	case 0:
		s.sendAnswer("\x1b[%d;%d$y", number, state)
	case '?':
		s.sendAnswer("\x1b[?%d;%d$y", number, state)
	}
}

func (s *Emulator) modeState(mark byte, number int) (on, known bool) {
	m := &s.modes
	if mark == 0 {
		switch number {
		case 4:
			return m.insert, true
		case 20:
			return m.newLine, true
		}
		return false, false
	}
	switch number {
	case 1:
		return m.applicationCursor, true
	case 6:
		return s.origin, true
	case 7:
		return !m.noWrap, true
	case 25:
		return !m.cursorHidden, true
	case 2004:
		return m.bracketedPaste, true
	case 9, 1000, 1002, 1003:
		return m.mouse == number, true
	case 47, 1047, 1049:
		return s.alternate, true
	}
	return false, false
}

// runString applies a string. All are ignored but questions for the colors of text and background,
// which are white on black. end is the terminator of the question, and of its answer.
func (s *Emulator) runString(end string) {
	p := &s.parser
	if p.kind != ']' || p.tooLong {
		return
	}
	switch string(p.sequence) {
	case "10;?":
		s.sendAnswer("\x1b]10;rgb:ffff/ffff/ffff%s", end)
	case "11;?":
		s.sendAnswer("\x1b]11;rgb:0000/0000/0000%s", end)
	}
}
