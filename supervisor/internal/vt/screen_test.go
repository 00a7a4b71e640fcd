package vt

import (
	"strings"
	"testing"
)

// newScreen returns a screen of 5 rows and 10 columns after output, and the answers so far.
func newScreen(output string) (*Emulator, *strings.Builder) {
	answers := new(strings.Builder)
	s := New(5, 10, func(b []byte) { answers.Write(b) })
	s.Write([]byte(output))
	return s, answers
}

func wantLines(t *testing.T, s *Emulator, want ...string) {
	t.Helper()
	if got := s.Snapshot().Lines; strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got lines %q, want %q", got, want)
	}
	checkScreen(t, s)
}

func TestEmulator(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, output string
		want         []string
	}{
		{"text wraps at the last column", "0123456789ab", []string{"0123456789", "ab"}},
		{"a full row does not scroll before the next character", "\x1b[5;1H0123456789", []string{"", "", "", "", "0123456789"}},
		{"a return at the last column stays in its row", "0123456789\rX", []string{"X123456789"}},
		{"text does not wrap without autowrap", "\x1b[?7l0123456789ab", []string{"012345678b"}},
		{"lines scroll off the top", "1\r\n2\r\n3\r\n4\r\n5\r\n6", []string{"2", "3", "4", "5", "6"}},
		{"a plain newline keeps the column", "ab\ncd", []string{"ab", "  cd"}},
		{"a newline returns in newline mode", "\x1b[20hab\ncd", []string{"ab", "cd"}},
		{"tabs reach every eighth column", "a\tb\tc", []string{"a       bc"}},
		{"tab stops can be set and cleared", "\x1b[3g\x1b[4G\x1bH\ra\tb\tc", []string{"a  b     c"}},
		{"a tab goes back", "012345678\x1b[ZX", []string{"01234567X"}},
		{"backspace overwrites", "abc\b\bX", []string{"aXc"}},
		{"the cursor moves", "\x1b[3;4HX\x1b[A\x1b[2DY\x1b[1;9HZ", []string{"        Z", "  Y", "   X"}},
		{"movements stop at the edges", "\x1b[99;99HX\x1b[99A\x1b[99DY", []string{"Y", "", "", "", "         X"}},
		{"a row is erased from the cursor on", "abcdef\x1b[3D\x1b[K", []string{"abc"}},
		{"a row is erased up to the cursor", "abcdef\x1b[3D\x1b[1K", []string{"    ef"}},
		{"the screen is erased from the cursor on", "ab\r\ncd\r\nef\x1b[2;2H\x1b[J", []string{"ab", "c"}},
		{"the screen is erased up to the cursor", "ab\r\ncd\r\nef\x1b[2;1H\x1b[1J", []string{"", " d", "ef"}},
		{"characters are inserted", "abc\x1b[2G\x1b[2@", []string{"a  bc"}},
		{"characters are inserted in insert mode", "abc\x1b[2G\x1b[4hXY", []string{"aXYbc"}},
		{"characters are deleted", "abcdef\x1b[2G\x1b[2P", []string{"adef"}},
		{"characters are erased in place", "abcdef\x1b[2G\x1b[2X", []string{"a  def"}},
		{"lines are inserted", "1\r\n2\r\n3\x1b[2;1H\x1b[L", []string{"1", "", "2", "3"}},
		{"lines are deleted", "1\r\n2\r\n3\x1b[2;1H\x1b[M", []string{"1", "3"}},
		{"a character is repeated to the end of its row", "x\x1b[99999999b", []string{"xxxxxxxxxx"}},
		{"only a scroll region scrolls", "1\r\n2\r\n3\r\n4\r\n5\x1b[2;4r\x1b[4;1H\nX", []string{"1", "3", "4", "X", "5"}},
		{"a reverse feed scrolls down at the top of a region", "1\r\n2\r\n3\r\n4\x1b[2;3r\x1b[2;1H\x1bMX", []string{"1", "X", "2", "4"}},
		{"a region scrolls in both directions", "1\r\n2\r\n3\r\n4\x1b[2;3r\x1b[S\x1b[4;1H\x1b[2T", []string{"1", "", "", "4"}},
		{"below a region nothing scrolls", "\x1b[1;3r\x1b[5;1Ha\r\nb", []string{"", "", "", "", "b"}},
		{"rows count from the region in origin mode", "\x1b[2;4r\x1b[?6h\x1b[1;1HX\x1b[9;1HY", []string{"", "X", "", "Y"}},
		{"a scroll region of one row is refused", "\x1b[2;2rX", []string{"X"}},
		{"line drawing is a character set", "\x1b(0lqk\x1b(Bq", []string{"┌─┐q"}},
		{"line drawing can be shifted in", "\x1b)0q\x0eq\x0fq", []string{"q─q"}},
		{"a wide character takes two columns", "日本\x1b[5GX", []string{"日本X"}},
		{"a wide character wraps as a whole", "123456789日", []string{"123456789", "日"}},
		{"half of a wide character takes the other with it", "日本\x1b[2GX\x1b[3GY", []string{" XY"}},
		{"a wide character replaces half of another", "a日b\x1b[1G本", []string{"本 b"}},
		{"a wide character is erased as a whole", "a日b\x1b[3G\x1b[K", []string{"a"}},
		{"a deleted half leaves no other half", "a日bc\x1b[3G\x1b[P", []string{"a bc"}},
		{"an insertion splits a wide character", "a日b\x1b[3G\x1b[@", []string{"a   b"}},
		{"accents join their letter", "e\u0301x", []string{"e\u0301x"}},
		{"accents at the last column join its letter", "012345678e\u0301x", []string{"012345678e\u0301", "x"}},
		{"an accent without a letter is dropped", "\u0301x", []string{"x"}},
		{"joined emoji take one place", "👩\u200d💻x\x1b[3GY", []string{"👩\u200d💻Y"}},
		{"two letters make a flag", "🇩🇪🇫🇷\x1b[5Gx", []string{"🇩🇪🇫🇷x"}},
		{"a skin tone joins its emoji", "👍🏽\x1b[3Gx", []string{"👍🏽x"}},
		{"invisible characters are dropped", "a\u202eb\u200bc", []string{"abc"}},
		{"broken UTF-8 is shown as such", "a\xffb\xe6\x97c", []string{"a\ufffdb\ufffd\ufffdc"}},
		{"the alternate screen hides the main one", "main\x1b[?1049halt", []string{"    alt"}},
		{"the main screen comes back with its cursor", "main\x1b[?1049h\x1b[4;1Halt\x1b[?1049lX", []string{"mainX"}},
		{"the old alternate screen keeps the cursor", "ab\x1b[?47hcd\x1b[?47lef", []string{"ab  ef"}},
		{"the cursor can be saved", "ab\x1b7cd\x1b8X", []string{"abXd"}},
		{"a reset clears the screen", "ab\x1b[2;3r\x1bcX", []string{"X"}},
		{"titles, images and messages are not shown", "a\x1b]0;title\ab\x1bP1;2qdata\x1b\\c\x1b_m\x1b\\d\x1b^m\x1b\\e", []string{"abcde"}},
		{"a cancelled sequence ends", "a\x1b[12\x18b\x1b]0;x\x1ac", []string{"abc"}},
		{"an escape ends a sequence and begins another", "a\x1b[1\x1b[CX\x1b]0;t\x1b[CY", []string{"a X Y"}},
		{"controls work within a sequence", "ab\x1b[\b1CX", []string{"abX"}},
		{"unknown sequences are not shown", "a\x1b[1;2yb\x1b[=5uc\x1b[>4;2md\x1b[?25$qe\x1b%Gf", []string{"abcdef"}},
		{"a sequence that is too long has no effect", "a\x1b[" + strings.Repeat("1;", 3000) + "Hb\x1b]0;" + strings.Repeat("x", 9000) + "\ac", []string{"abc"}},
		{"the test picture fills the screen", "\x1b#8", []string{"EEEEEEEEEE", "EEEEEEEEEE", "EEEEEEEEEE", "EEEEEEEEEE", "EEEEEEEEEE"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s, _ := newScreen(test.output)
			wantLines(t, s, test.want...)
			bytewise := New(5, 10, nil)
			for _, b := range []byte(test.output) {
				bytewise.Write([]byte{b})
			}
			wantLines(t, bytewise, test.want...)
		})
	}
}

func TestEmulator_SetReturnOnNewline(t *testing.T) {
	t.Parallel()
	s, _ := newScreen("")
	s.SetReturnOnNewline(true)
	s.Write([]byte("ab\ncd\r\nef"))
	s.SetReturnOnNewline(false)
	s.Write([]byte("\ngh"))
	wantLines(t, s, "ab", "cd", "ef", "  gh")
}

func TestEmulator_Marks(t *testing.T) {
	t.Parallel()

	t.Run("a cell has a bounded number of marks", func(t *testing.T) {
		t.Parallel()
		s, _ := newScreen("e" + strings.Repeat("\u0301", 100))
		wantLines(t, s, "e"+strings.Repeat("\u0301", maxMarks))
	})

	t.Run("marks that are no longer shown are forgotten", func(t *testing.T) {
		t.Parallel()
		s, _ := newScreen("")
		for range 10 * (s.rows*s.columns + spareClusters) {
			s.Write([]byte("\re\u0301"))
		}
		wantLines(t, s, "e\u0301")
		if got, most := len(s.clusters), 2*s.rows*s.columns+spareClusters; got > most {
			t.Errorf("the table has %d clusters, more than %d", got, most)
		}
	})
}

func TestEmulator_Resize(t *testing.T) {
	t.Parallel()

	t.Run("text keeps its place", func(t *testing.T) {
		t.Parallel()
		s, _ := newScreen("ab\r\n0123456日")
		s.Resize(3, 20)
		wantLines(t, s, "ab", "0123456日")
		s.Resize(3, 8)
		wantLines(t, s, "ab", "0123456")
	})

	t.Run("rows above leave for the cursor's row", func(t *testing.T) {
		t.Parallel()
		s, _ := newScreen("1\r\n2\r\n3\r\n4")
		s.Resize(2, 10)
		wantLines(t, s, "3", "4")
	})

	t.Run("the hidden screen is resized, too", func(t *testing.T) {
		t.Parallel()
		s, _ := newScreen("main\x1b[?1049halt")
		s.Resize(9, 30)
		s.Write([]byte("\x1b[?1049l\x1b[9;30HX"))
		wantLines(t, s, "main", "", "", "", "", "", "", "", strings.Repeat(" ", 29)+"X")
	})

	t.Run("rows above leave for the hidden cursor's row", func(t *testing.T) {
		t.Parallel()
		s, _ := newScreen("1\r\n2\r\n3\r\n4\x1b[?1049h\x1b[Halt")
		s.Resize(2, 10)
		s.Write([]byte("\x1b[?1049lX"))
		wantLines(t, s, "3", "4X")
	})

	t.Run("the size is bounded", func(t *testing.T) {
		t.Parallel()
		s := New(1<<30, -5, nil)
		s.Resize(-1, 1<<30)
		if got := s.Snapshot(); got.Rows != 1 || got.Columns != maxColumns {
			t.Errorf("got %d rows and %d columns, want 1 and %d", got.Rows, got.Columns, maxColumns)
		}
	})

	t.Run("a screen of one cell takes everything", func(t *testing.T) {
		t.Parallel()
		s := New(1, 1, nil)
		s.Write([]byte("a日\x1b[4h本\x1b[99b\x1b[3@\x1b[2L\x1b[J"))
		checkScreen(t, s)
	})

	t.Run("a column is added to a single one", func(t *testing.T) {
		t.Parallel()
		s := New(2, 1, nil)
		s.Write([]byte("a日\u0301"))
		s.Resize(2, 3)
		checkScreen(t, s)
		wantLines(t, s, "a\u0301")
	})
}

func TestEmulator_Modes(t *testing.T) {
	t.Parallel()
	s, _ := newScreen("\x1b[?1;25;2004h\x1b[?25l\x1b[?1002h\x1b[?1049h")
	if got, want := s.Modes(), (Modes{ApplicationCursor: true, BracketedPaste: true, CursorHidden: true, Alternate: true, Mouse: true}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := s.Snapshot(); !got.CursorHidden || !got.Alternate {
		t.Errorf("the snapshot has no hidden cursor or alternate screen: %+v", got)
	}
	s.Write([]byte("\x1b[?1;2004l\x1b[?25h\x1b[?1002l\x1b[?1049l"))
	if got := s.Modes(); got != (Modes{}) {
		t.Errorf("got %+v, want no modes", got)
	}
}

func TestEmulator_Answers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, output, want string }{
		{"the status is good", "\x1b[5n", "\x1b[0n"},
		{"the cursor's position", "\x1b[2;3H\x1b[6n", "\x1b[2;3R"},
		{"the position after a full row", "0123456789\x1b[6n", "\x1b[1;10R"},
		{"the position counts from the region in origin mode", "\x1b[2;4r\x1b[?6h\x1b[6n", "\x1b[1;1R"},
		{"the extended position", "\x1b[2;3H\x1b[?6n", "\x1b[?2;3R"},
		{"the kind of terminal", "\x1b[c\x1b[0c\x1bZ", "\x1b[?62;22c\x1b[?62;22c\x1b[?62;22c"},
		{"its version", "\x1b[>c\x1b[>0c", "\x1b[>1;1;0c\x1b[>1;1;0c"},
		{"modes", "\x1b[?1h\x1b[?1$p\x1b[?2004$p\x1b[?25$p\x1b[4$p", "\x1b[?1;1$y\x1b[?2004;2$y\x1b[?25;1$y\x1b[4;2$y"},
		{"unknown modes", "\x1b[?2026$p\x1b[?2048$p\x1b[99$p", "\x1b[?2026;0$y\x1b[?2048;0$y\x1b[99;0$y"},
		{"the size", "\x1b[18t", "\x1b[8;5;10t"},
		{"colors, with the terminator of the question", "\x1b]10;?\a\x1b]11;?\x1b\\", "\x1b]10;rgb:ffff/ffff/ffff\a\x1b]11;rgb:0000/0000/0000\x1b\\"},
		{"bubbletea asks for a color, then for the cursor", "\x1b]11;?\x1b\\\x1b[6n", "\x1b]11;rgb:0000/0000/0000\x1b\\\x1b[1;1R"},
		{"fish and crossterm take the answer to the last question", "\x1b[?u\x1b[>0q\x1bP+q696e646e\x1b\\\x1b[0c", "\x1b[?62;22c"},
		{"vim asks for its version, colors, and the width of a character", "\x1bP$q q\x1b\\\x1b[?12$p\x1b[>c\x1b[6n", "\x1b[?12;0$y\x1b[>1;1;0c\x1b[1;1R"},
		{"titles, pixels, and the clipboard are not told", "\x1b]2;rm -rf\a\x1b[20t\x1b[21t\x1b[14t\x1b[16t\x1b]52;c;?\a\x1b]4;1;?\a\x05\x1b[=c\x1b[x", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if _, answers := newScreen(test.output); answers.String() != test.want {
				t.Errorf("got %q, want %q", answers, test.want)
			}
		})
	}
	t.Run("nobody has to take them", func(t *testing.T) {
		t.Parallel()
		New(5, 10, nil).Write([]byte("\x1b[c"))
	})
}

func TestEmulator_Text(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, output, before, line string }{
		{"spaces before the cursor count", "> ab  ", "> ab  ", "> ab"},
		{"text right of the cursor is in the line only", "> abcd\x1b[4G", "> a", "> abcd"},
		{"wrapped rows belong together", "0123456789abc", "0123456789abc", "0123456789abc"},
		{"a full row belongs to its text", "x\r\n0123456789", "0123456789", "0123456789"},
		{"a wide character that did not fit leaves no space", "012345678日", "012345678日", "012345678日"},
		{"an editor that wraps by itself", "\x1b[?7l0123456789\r\nabc", "0123456789abc", "0123456789abc"},
		{"a new line is a text of its own", "ab\r\ncd", "cd", "cd"},
		{"blanks that were never written are spaces", "\x1b[4Gx", "   x", "   x"},
		{"an erased row is no longer continued", "0123456789ab\x1b[A\x1b[2K\x1b[B", "ab", "ab"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s, _ := newScreen(test.output)
			if got := s.TextBeforeCursor(); got != test.before {
				t.Errorf("before the cursor is %q, want %q", got, test.before)
			}
			if got := s.CursorLine(); got != test.line {
				t.Errorf("the cursor's line is %q, want %q", got, test.line)
			}
		})
	}
}

func TestEmulator_CountText(t *testing.T) {
	t.Parallel()
	s, _ := newScreen("bb abb\r\n12345678bb\r\n123456789bb")
	for text, want := range map[string]int{"bb": 4, "9bb": 1, "b\nb": 0, "": 0, "x": 0, "bb ": 3} {
		if got := s.CountText(text); got != want {
			t.Errorf("%q is there %d times, want %d", text, got, want)
		}
	}
}

func TestEmulator_Highlights(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, output string
		want         []HighlightedText
	}{
		{"reversed text is chosen", "one\r\n\x1b[7m two  \x1b[27m\r\nsix", []HighlightedText{{1, 1, "two"}}},
		{"reversed text goes before colors", "\x1b[44mone\x1b[m\r\n\x1b[7mtwo\x1b[m", []HighlightedText{{1, 0, "two"}}},
		{"a run ends where the background changes", "\x1b[7mab\x1b[31mcd\x1b[m", []HighlightedText{{0, 0, "ab"}, {0, 2, "cd"}}},
		{"bold letters do not end a run", "\x1b[7ma\x1b[1mb\x1b[22mc\x1b[m", []HighlightedText{{0, 0, "abc"}}},
		{"another background is chosen", "one\r\n\x1b[48;5;236mtwo\x1b[m", []HighlightedText{{1, 0, "two"}}},
		{"a button in a window is chosen, and not the window", "\r\n\x1b[47m      \r\n \x1b[44mOK\x1b[47m no \r\n      \x1b[m", []HighlightedText{{2, 1, "OK"}}},
		{"an entry of two rows is chosen", "\x1b[44mtwo\r\nrow\x1b[m", []HighlightedText{{0, 0, "two"}, {1, 0, "row"}}},
		{"a background that fills the screen chooses nothing", "\x1b[44m\x1b[2Jone", nil},
		{"stripes choose nothing", "\x1b[44ma\x1b[K\x1b[m\r\nb\r\n\x1b[44mc\x1b[K\x1b[m\r\nd\r\n\x1b[44me\x1b[K\x1b[m", nil},
		{"frames and blanks are not text", "\x1b[7m   ──█\x1b[m", nil},
		{"plain text chooses nothing", "one\r\ntwo", nil},
		{"colors in every form", "\x1b[48:2::1:2:3ma\x1b[48;2;1;2;4mb\x1b[48:5:9mc\x1b[101md\x1b[m", []HighlightedText{{0, 0, "a"}, {0, 1, "b"}, {0, 2, "cd"}}},
		{"the color of underlines is no background", "\x1b[58;5;7ma\x1b[4:7mb\x1b[58:2::7:7:7mc", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s, _ := newScreen(test.output)
			got := s.Snapshot().Highlights
			if len(got) != len(test.want) {
				t.Fatalf("got %+v, want %+v", got, test.want)
			}
			for i := range got {
				if got[i] != test.want[i] {
					t.Errorf("got %+v, want %+v", got[i], test.want[i])
				}
			}
		})
	}

	t.Run("their number is bounded", func(t *testing.T) {
		t.Parallel()
		s := New(40, 80, nil)
		s.Write([]byte(strings.Repeat("\x1b[7mx\x1b[m ", 100)))
		if got := len(s.Snapshot().Highlights); got != maxHighlights {
			t.Errorf("got %d, want %d", got, maxHighlights)
		}
	})
}

// checkScreen fails if the state contradicts itself.
func checkScreen(t *testing.T, s *Emulator) {
	t.Helper()
	if s.row < 0 || s.row >= s.rows || s.column < 0 || s.column >= s.columns {
		t.Fatalf("the cursor is at %d, %d", s.row, s.column)
	}
	if s.top < 0 || s.top > s.bottom || s.bottom >= s.rows {
		t.Fatalf("the margins are %d and %d", s.top, s.bottom)
	}
	if len(s.parser.sequence) > maxSequence {
		t.Fatalf("a sequence has %d bytes", len(s.parser.sequence))
	}
	seen := make(map[*line]bool)
	for _, lines := range [][]*line{s.lines, s.hidden} {
		if lines != nil && len(lines) != s.rows {
			t.Fatalf("%d rows, want %d", len(lines), s.rows)
		}
		for y, l := range lines {
			if seen[l] || len(l.cells) != s.columns {
				t.Fatalf("row %d is shared, or has %d columns", y, len(l.cells))
			}
			seen[l] = true
			for x, c := range l.cells {
				isTail := c.char == charTail
				if isTail != (x > 0 && s.isWide(l.cells[x-1].char)) {
					t.Fatalf("row %d, column %d: half of a wide character: %q", y, x, s.appendText(nil, l.cells))
				}
				if c.char >= charCluster && int(c.char-charCluster) >= len(s.clusters) {
					t.Fatalf("row %d, column %d: a cluster that does not exist", y, x)
				}
			}
		}
	}
}

// isWide reports whether a cell's character takes two columns.
func (s *Emulator) isWide(char int32) bool {
	if char == charBlank || char == charTail || char == charPadding {
		return false
	}
	first := []rune(s.clusterText(char))[0]
	return s.widths.width(first) == 2
}
