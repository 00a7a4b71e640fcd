package lineedit

import (
	"fmt"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/cmd/internal/lineedit/keys"
)

func pythonOptions() Options {
	return Options{Prompt: ">>> ", Continuation: "... ", Syntax: Python, Colour: true, IsComplete: isCompletePython, Complete: completeNames}
}

func (t *editorTest) wantScreen(want string) {
	t.Helper()
	if got := t.tty.screenText(); got != want {
		t.Errorf("the screen is\n%s\nwant\n%s", got, want)
	}
}

func TestPainter(t *testing.T) {
	t.Run("shows blocks, hints, completions and searches", func(t *testing.T) {
		s := newEditorTest(t, pythonOptions(), "import os")
		s.typeKeys("def f(x):\rreturn 'a'")
		s.wantScreen(">>> def f(x):\n...     return 'a'")
		s.typeKeys(" + g(\t")
		s.wantScreen(">>> def f(x):\n...     return 'a' + g(\nf(x, y=1)\nAdds two numbers.")
		s.typeKeys("al\t\t")
		s.wantScreen(">>> def f(x):\n...     return 'a' + g(alpha\nalpha     alphabet")
		s.typeKeys("\x12")
		s.wantScreen(">>> def f(x):\n...     return 'a' + g(alpha\nsearch:")
		s.typeKeys("os")
		s.wantScreen(">>> import os\nsearch: os")
		s.typeKeys("q")
		s.wantScreen(">>> import os\nsearch: osq  (not found)")
		s.typeKeys("\r")
		s.wantScreen(">>> import os")
		if s.tty.y != 1 || s.tty.x != 0 {
			t.Errorf("the cursor is in row %d, column %d", s.tty.y, s.tty.x)
		}
	})

	t.Run("only appends and erases on a dumb terminal", func(t *testing.T) {
		for _, test := range []struct{ keys, shows string }{
			{"abc\x7fd", ">>> abc\b \bd"},
			{"ab" + kLeft + "中", ">>> ab\b \b中b"},
			{"ab" + kLeft + "\r", ">>> ab\r\n"},
			{"if x:\r", ">>> if x:\r\n... "},
			{"if x:\r    y\r\r", ">>> if x:\r\n...     y\r\n... \r\n"},
			{"if x:\ry" + kUp + "z", ">>> if x:\r\n... y\r\n>>> izf x:\r\n... y"},
			{kUp, ">>> import os"},
			{"al\t\x03", ">>> alpha^C\r\n"},
		} {
			var b strings.Builder
			o := pythonOptions()
			o.Colour, o.Syntax = false, nil
			s := &editorTest{T: t, history: NewHistory(100, "import os"), o: o}
			p := Painter{Out: &b, Size: func() (int, int) { return 40, 12 }, Dumb: true}
			s.editor.Begin(o, s.history)
			p.Begin(s.editor.Frame(), 0)
			source := scriptedSource{&runeSource{runes: []rune(test.keys)}}
			for {
				key, err := keys.ReadKey(source, false)
				if err != nil {
					break
				}
				out := s.editor.Press(key)
				p.Draw(s.editor.Frame())
				switch out {
				case OutcomeAccept:
					p.Finish("")
				case OutcomeInterrupt:
					p.Finish("^C")
				}
			}
			if got := b.String(); got != test.shows {
				t.Errorf("%q: got %q, want %q", test.keys, got, test.shows)
			}
		}
	})

	t.Run("draws after output without a final newline", func(t *testing.T) {
		for _, before := range []string{"who? ", strings.Repeat("q", 39), strings.Repeat("q", 40), strings.Repeat("q", 43)} {
			tty := newFakeTerminal(40, 12)
			fmt.Fprint(tty, "above\r\n", before)
			p := &Painter{Out: tty, Size: func() (int, int) { return 40, 12 }}
			var e Editor
			e.Begin(Options{}, nil)
			p.Begin(e.Frame(), len(before))
			for _, r := range "Annn" {
				e.Press(keys.Key{Text: string(r)})
				p.Draw(e.Frame())
			}
			e.Press(keys.Key{Name: "Backspace"})
			p.Draw(e.Frame())
			whole := before + "Ann"
			want := "above\n" + whole[:min(40, len(whole))]
			if len(whole) > 40 {
				want += "\n" + whole[40:]
			}
			if got := tty.screenText(); got != want {
				t.Errorf("after %d cells the screen is\n%s\nwant\n%s", len(before), got, want)
			}
			p.Erase()
			if got, want := tty.screenText(), strings.TrimSpace("above\n"+before[:min(40, len(before))]+"\n"+before[min(40, len(before)):]); got != want {
				t.Errorf("after Erase the screen is\n%s\nwant\n%s", got, want)
			}
		}
	})

	t.Run("does not draw a secret", func(t *testing.T) {
		s := newEditorTest(t, Options{Prompt: "Password: ", Secret: true})
		s.typeKeys("hunter2\x1b[Dx")
		s.wantScreen("Password:")
		if s.typeKeys("\r"); s.editor.Text() != "hunterx2" || s.outcome != OutcomeAccept {
			t.Errorf("got %q", s.editor.Text())
		}
		s.wantScreen("Password:")
	})

	t.Run("writes no colors when they are off", func(t *testing.T) {
		for _, colour := range []bool{true, false} {
			var b strings.Builder
			p := &Painter{Out: &b, Size: func() (int, int) { return 80, 24 }}
			o := pythonOptions()
			o.Colour = colour
			var e Editor
			e.Begin(o, nil)
			p.Begin(e.Frame(), 0)
			e.Press(keys.Key{Name: "Paste", Text: "def f(): return 'x' # no"})
			p.Draw(e.Frame())
			if got := strings.Contains(b.String(), "m"); got != colour {
				t.Errorf("colours %v: got %q", colour, b.String())
			}
		}
	})
}

func TestPainterWidth(t *testing.T) {
	t.Run("handles rows that are exactly full", func(t *testing.T) {
		for _, n := range []int{35, 36, 37, 75, 76, 77} {
			s := newEditorTest(t, pythonOptions())
			s.typeKeys(strings.Repeat("x", n))
			s.typeKeys(kLeft + kLeft + "y" + kHome + "z" + kEnd + "!")
			s.typeKeys("\r")
			text := ">>> z" + strings.Repeat("x", n-2) + "yxx!"
			var want []string
			for len(text) > 40 {
				want, text = append(want, text[:40]), text[40:]
			}
			s.wantScreen(strings.Join(append(want, text), "\n"))
			if rows := len(want) + 1; s.tty.y != rows {
				t.Errorf("%d characters: the cursor is in row %d, want %d", n, s.tty.y, rows)
			}
		}
	})

	t.Run("never splits a wide character across rows", func(t *testing.T) {
		s := newEditorTest(t, pythonOptions())
		s.typeKeys("'" + strings.Repeat("中", 17))
		s.typeKeys("文")
		s.wantScreen(">>> '" + strings.Repeat("中", 17) + "\n文")
		s.typeKeys(kLeft + kLeft + "x" + kEnd + "e\u0301👩‍💻✅")
		s.wantScreen(">>> '" + strings.Repeat("中", 16) + "x中\n文e\u0301👩‍💻✅")
	})

	// Terminals differ in the width of joined characters: some count the whole, others the parts.
	// The text after them must be at the cursor in both.
	t.Run("places the cursor after a cluster of characters", func(t *testing.T) {
		for _, cluster := range []struct {
			name, text string
			cells      int
		}{
			{"a joined flag", "🏳️‍🌈", 2},
			{"a family", "👨‍👩‍👧", 2},
			{"a skin colour", "👍🏽", 2},
			{"a flag of a country", "🇩🇪", 2},
			{"decomposed Hangul", "\u1100\u1161\u11a8", 2},
			{"accents", "e\u0301\u0323", 1},
			{"Devanagari", "न\u093f", 2},
			{"a zero-width space", "\u200b", 0},
			{"text presentation of an emoji", "❤\ufe0e", 1},
		} {
			for _, sums := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, counts parts %v", cluster.name, sums), func(t *testing.T) {
					s := newEditorTest(t, pythonOptions())
					s.tty.sumsCells = sums
					s.typeKeys("f='")
					s.typeKeys(pasteSequence(cluster.text + "x'"))
					s.typeKeys(kLeft + kLeft + "Q")
					row := s.tty.grid[s.tty.y]
					at := len(">>> f='") + cluster.cells
					if got := strings.Join(row[at:at+3], ""); got != "Qx'" || s.tty.x != at+1 {
						t.Errorf("after it is %q, the cursor is in column %d, want Qx' and %d", got, s.tty.x, at+1)
					}
					s.typeKeys(kLeft + "\x7f")
					if got := s.editor.Text(); got != "f='Qx'" {
						t.Errorf("after Backspace: got %q", got)
					}
				})
			}
		}
	})
}

func TestPainterSize(t *testing.T) {
	t.Run("scrolls a tall block with the cursor", func(t *testing.T) {
		var lines []string
		for i := range 106 {
			lines = append(lines, fmt.Sprintf("line%d = %d", i, i))
		}
		s := newEditorTest(t, pythonOptions())
		s.typeKeys(pasteSequence(strings.Join(lines, "\n")))
		if !strings.HasSuffix(s.tty.screenText(), "... line104 = 104\n... line105 = 105") {
			t.Errorf("the end of the paste is not shown:\n%s", s.tty.screenText())
		}
		s.typeKeys("\x1b<")
		if !strings.HasPrefix(s.tty.screenText(), ">>> line0 = 0\n... line1 = 1\n") {
			t.Errorf("its start is not shown:\n%s", s.tty.screenText())
		}
		s.typeKeys(strings.Repeat(kDown, 50) + "X")
		if !strings.Contains(s.tty.screenText(), "... Xline50 = 50") {
			t.Errorf("its middle is not shown:\n%s", s.tty.screenText())
		}
		s.typeKeys("\r")
		if !strings.HasSuffix(s.tty.screenText(), "... line105 = 105") || s.tty.x != 0 {
			t.Errorf("after Finish it is not shown completely:\n%s", s.tty.screenText())
		}
	})

	t.Run("leaves nothing behind after a resize", func(t *testing.T) {
		for _, cols := range []int{11, 20, 39, 41, 60} {
			s := newEditorTest(t, pythonOptions())
			s.typeKeys("x = '" + strings.Repeat("abcdefghij", 8))
			s.typeKeys(kLeft + kLeft + kLeft)
			s.tty.resize(cols, s.tty.height)
			s.painter.Resized()
			s.compareScreens(keys.Key{})
			s.typeKeys("X" + kEnd + "'")
			if got := strings.ReplaceAll(s.tty.screenText(), "\n", ""); got != ">>> x = '"+strings.Repeat("abcdefghij", 7)+"abcdefgXhij'" {
				t.Errorf("in %d columns the screen is\n%s", cols, s.tty.screenText())
			}
		}
	})

	t.Run("leaves nothing behind after shrinking and growing", func(t *testing.T) {
		for _, lines := range []int{3, 8, 30} {
			for _, typed := range []string{"", kUp + kUp + kUp, "\x1b<"} {
				s := newEditorTest(t, pythonOptions())
				s.tty.resize(100, 24)
				s.painter.Resized()
				text := "def f(x):"
				for i := range lines {
					text += fmt.Sprintf("\n    line_number_%d = %d", i, i)
				}
				s.typeKeys(pasteSequence(text) + typed)
				for _, size := range [][2]int{{20, 10}, {100, 24}, {15, 4}, {40, 12}, {100, 40}} {
					s.tty.resize(size[0], size[1])
					s.painter.Resized()
					s.compareScreens(keys.Key{})
				}
				if got, want := s.tty.screenText(), ">>> "+strings.ReplaceAll(text, "\n", "\n... "); got != want {
					t.Errorf("%d lines, %q: the screen is\n%s", lines, typed, got)
				}
			}
		}
	})

	// A list of completions must not push the text out of sight.
	t.Run("leaves room for the text above a long list", func(t *testing.T) {
		var names []string
		for i := range 200 {
			names = append(names, fmt.Sprintf("name%03d", i))
		}
		o := pythonOptions()
		o.Complete = func(string, int) CompletionList { return CompletionList{Matches: names} }
		s := newEditorTest(t, o)
		s.typeKeys("name\t")
		if got := s.tty.screenText(); !strings.HasPrefix(got, ">>> name\nname000") || !strings.Contains(got, " more") {
			t.Errorf("the screen is\n%s", got)
		}
		s.typeKeys(strings.Repeat("\t", 150))
		if got := s.tty.screenText(); !strings.HasPrefix(got, ">>> name149\n") || !strings.Contains(got, "\nname1") {
			t.Errorf("the screen is\n%s", got)
		}
	})
}

func TestSyntax_Styles(t *testing.T) {
	letters := map[Style]byte{Plain: '.', Keyword: 'k', Builtin: 'b', String: 's', Number: 'n', Comment: 'c'}
	for _, test := range []struct {
		s          *Syntax
		text, want string
	}{
		{Python, "def f(x): # y", "kkk.......ccc"},
		{Python, "print(1.5e-3, 0x1f-2)", "bbbbb.nnnnnn..nnnn.n."},
		{Python, "x.print, a1", "..........."},
		{Python, "rb'\\'x' + f\"a\"", "sssssss...ssss"},
		{Python, "'a\nif", "ss.kk"},
		{Python, "'''a\nif", "sssssss"},
		{Python, "äif = None", "......kkkk"},
		{R, "if (x.if) TRUE", "kk........kkkk"},
		{R, "r\"(a\")\" + 'b\nc'", "sssssss...sssss"},
		{R, "`a b` # 'c", "sssss.cccc"},
		{&Syntax{}, "def 'x' 1", "....sss.n"},
	} {
		var got []byte
		for _, style := range test.s.styleText([]rune(test.text)) {
			got = append(got, letters[style])
		}
		if string(got) != test.want {
			t.Errorf("%q: got %s, want %s", test.text, got, test.want)
		}
	}
}

func FuzzEditor_NoKeysBreakTheScreen(f *testing.F) {
	for _, test := range editScripts {
		f.Add(test.keys, false)
	}
	f.Add("abc⎋0dwip", true)
	f.Fuzz(func(t *testing.T, typed string, vi bool) {
		if len(typed) > 300 {
			return
		}
		o := pythonOptions()
		o.Vi = vi
		s := newEditorTest(t, o, "import os", "if x:\n    y\n")
		source := scriptedSource{&runeSource{runes: []rune(typed)}}
		for range 300 {
			key, err := keys.ReadKey(source, s.editor.WantsEscape())
			if err != nil {
				return
			}
			s.editor.Press(key)
			s.painter.Draw(s.editor.Frame())
			if at := s.editor.cursor; at < 0 || at > len(s.editor.text) {
				t.Fatalf("after %q the cursor is at %d of %d", key.Name+key.Text, at, len(s.editor.text))
			}
		}
	})
}

func BenchmarkEditor_KeyInALongText(b *testing.B) {
	p := &Painter{Out: &strings.Builder{}, Size: func() (int, int) { return 80, 24 }}
	var e Editor
	e.Begin(pythonOptions(), nil)
	e.Press(keys.Key{Name: "Paste", Text: strings.Repeat("def f(x): return 'text' + str(x) # comment\n", 200)})
	p.Begin(e.Frame(), 0)
	for b.Loop() {
		e.Press(keys.Key{Text: "x"})
		p.Draw(e.Frame())
	}
}
