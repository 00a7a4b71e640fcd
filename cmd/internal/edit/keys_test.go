package edit

import (
	"strings"
	"testing"
	"time"
)

type scriptSource struct{ *keySource }

func (s scriptSource) Rune(time.Duration) (rune, error) { return s.next() }

// wholeInPython judges the few texts of these tests as Python does.
func wholeInPython(text string) bool {
	open, inString := Python.scan([]rune(text), func(int, int, Style) {})
	last := text[strings.LastIndex(text, "\n")+1:]
	block := strings.Contains(text, ":\n") || strings.HasSuffix(text, ":")
	return len(open) == 0 && !inString && (!block || strings.TrimSpace(last) == "" && strings.Count(text, "\n") > 1)
}

// offersNames completes names, and knows a call.
func offersNames(text string, cursor int) Completion {
	before := text[:cursor]
	start := len(strings.TrimRightFunc(before, isWord))
	c := Completion{Start: start}
	for _, name := range []string{"alpha", "alphabet", "beta"} {
		if strings.HasPrefix(name, before[start:]) {
			c.Matches = append(c.Matches, name)
		}
	}
	if strings.HasSuffix(before, "(") {
		return Completion{Start: cursor, Hint: "f(x, y=1)\nAdds two numbers."}
	}
	return c
}

const (
	kUp, kDown, kRight, kLeft = "\x1b[A", "\x1b[B", "\x1b[C", "\x1b[D"
	kHome, kEnd, kDelete      = "\x1b[H", "\x1b[F", "\x1b[3~"
	kEsc                      = "\x1b"
	kBackTab                  = "\x1b[Z"
)

func pasted(text string) string { return PasteBegins + text + PasteEnds }

// The scripts say in peers what CPython's PyREPL 3.13 (P), IPython 9 (I) and radian 0.7 (R) do with
// the same keys, as their documents have it. The tests run ours alone.
var scripts = []struct {
	name, peers string
	keys        string
	text        string // what is in the editor, or was accepted
	outcome     Outcome
}{
	{"a line", "P I R: the same", "1+1\r", "1+1", Accepted},
	{"a block goes on by itself and is indented", "P I R: the same", "def f():\rreturn 1\r", "def f():\n    return 1\n", Continues},
	{"an empty line ends a block", "P: the same; I: two of them; R: brackets", "def f():\rreturn 1\r\r", "def f():\n    return 1", Accepted},
	{"a block within a block", "P I: the same", "def f():\rif x:\rpass\r", "def f():\n    if x:\n        pass\n    ", Continues},
	{"return ends its block", "P: keeps the indentation; I: goes back", "if x:\rif y:\rreturn\r", "if x:\n    if y:\n        return\n    ", Continues},
	{"else goes back by its colon", "P I: by hand", "if x:\rpass\relse:\r", "if x:\n    pass\nelse:\n    ", Continues},
	{"else with Backspace, as in the peers", "P I: the same", "if x:\rx\r\x7felse:\r", "if x:\n    x\nelse:\n    ", Continues},
	{"lines that a program types keep their own indentation", "P I: twice indented", "if x:\r    a\r    b\r", "if x:\n    a\n    b\n    ", Continues},
	{"brackets indent", "I: the same", "f(\r1,\r", "f(\n    1,\n    ", Continues},
	{"a closing bracket goes back", "I: the same", "f(\r1\r)", "f(\n    1\n)", Continues},
	{"a string over lines is not indented", "I: the same", "'''\r  a\rb", "'''\n  a\nb", Continues},
	{"Up in a block goes to the line above", "P I R: the same", "if x:\rab\r" + kUp + kUp + kEnd + "y", "if x:y\n    ab\n    ", Continues},
	{"Enter in the middle of a whole block runs it", "P R: the same; I: another line", "if x:\ra\r" + kUp + kUp + "\r", "if x:\n    a", Accepted},
	{"Alt-Enter is a line in any place", "P I R: the same", "a\x1b\rb\r", "a\nb", Accepted},
	{"Tab indents, Backspace takes a step back", "P I: the same", "\t\tx\x01\t" + kEnd, "            x", Continues},
	{"Backspace in an indentation", "P I: the same", "        \x7fx", "    x", Continues},
	{"Shift-Tab takes a step back", "I: the same", "\t\tx" + kBackTab, "    x", Continues},
	{"a paste waits for Enter", "P I R: the same", pasted("a = 1\nb = 2\n"), "a = 1\nb = 2\n", Continues},
	{"one line that is pasted with its end", "P I: keep the end", pasted("a = 1\n"), "a = 1", Continues},
	{"a paste keeps its indentation", "P I R: the same", pasted("if x:\n\ty\n\n\tz\n") + "\r", "if x:\n\ty\n\n\tz", Accepted},
	{"a paste in an indented line", "I: the same", "if x:\r" + pasted("    a\n    b") + "\r", "if x:\n    a\n    b\n    ", Continues},
	{"Ctrl-C gives up the text", "P I R: the same", "abc\x03", "abc", Interrupted},
	{"Ctrl-C with the list open gives up the text", "P R: the same; I: closes the list", "al\t\t\x03", "alpha", Interrupted},
	{"Ctrl-C during a search gives up the text", "P: ends the search", "\x12imp\x03", "import os", Interrupted},
	{"Ctrl-D with nothing typed ends", "P I R: the same", "\x04", "", Ended},
	{"Ctrl-D deletes", "P I R: the same", "abc\x01\x04", "bc", Continues},
	{"Up recalls a whole block", "P I R: the same", kUp, "def f(x):\n    return x", Continues},
	{"Up with a prefix finds what begins with it", "P: any; I: the same; R: any", "imp" + kUp, "import os", Continues},
	{"Down comes back to what was typed", "P I R: the same", "imp" + kUp + kUp + kDown + kDown, "imp", Continues},
	{"a recalled block is edited in its middle", "P I R: the same", kUp + kUp + kEnd + " #\r", "def f(x): #\n    return x", Accepted},
	{"Page Up goes over blocks", "P: the same", "\x1b[5~\x1b[5~", "import os", Continues},
	{"Ctrl-R searches in any line", "P I: the same", "\x12turn", "def f(x):\n    return x", Continues},
	{"Ctrl-R again goes on", "P I: the same", "\x12i\x12\x12\x07", "", Continues},
	{"Ctrl-R and an arrow stays in the text", "P I: the same", "\x12sys" + kHome + "x", "ximport sys", Continues},
	{"Ctrl-R and Enter runs it", "P: edits it; I: runs it", "\x12sys\r", "import sys", Accepted},
	{"Backspace in a search", "P I: the same", "\x12syz\x7f" + kEnd, "import sys", Continues},
	{"Tab completes as far as it is sure", "P I R: the same", "al\t", "alpha", Continues},
	{"the list is walked with Tab", "I: the same; P: more of it", "al\t\t\t\t\r", "alphabet", Continues},
	{"Escape closes the list", "I: the same", "al\t\t\t\x1b", "alpha", Continues},
	{"a key after the list goes on", "P I R: the same", "al\t\t\t\tx", "alphabetx", Continues},
	{"Ctrl-A, Ctrl-K, Ctrl-Y", "P I R: the same", "abc def\x01\x0b\x19\x19", "abc defabc def", Continues},
	{"Ctrl-W twice is one kill", "P: the same", "a bc de\x17\x17\x19", "a bc de", Continues},
	{"Ctrl-U kills to the beginning of the line", "P: the same; I R: the same", "a\x1b\rbc\x15", "a\n", Continues},
	{"Alt-Y yanks an older kill", "P I: the same", "a b\x17" + kLeft + kRight + "\x15\x19\x1by", "b", Continues},
	{"words", "P I R: the same", "foo.bar baz\x1bb\x1bb\x1bdX", "foo.X baz", Continues},
	{"Ctrl-T", "P I: the same", "ab\x14", "ba", Continues},
	{"Ctrl-_ takes back", "P I: the same", "abc \x17\x1f", "abc ", Continues},
	{"cases of words", "P I: the same", "one two three\x01\x1bu\x1bc\x1bl", "ONE Two three", Continues},
	{"an accent is one character", "I: the same", "ae\u0301\x7f", "a", Continues},
	{"a flag is one character", "I: two", "a🇩🇪\x7f", "a", Continues},
	{"joined emoji are one character", "I: several", "👩‍💻b" + kLeft + "\x7f", "b", Continues},
	{"Delete and arrows over wide characters", "P I R: the same", "中文字" + kLeft + kLeft + kDelete, "中字", Continues},
	{"an unknown key does nothing", "P I R: the same", "a\x1b[99~\x1b[1;7Pb", "ab", Continues},
}

func TestEditor_KeysDoWhatPeopleKnow(t *testing.T) {
	for _, test := range scripts {
		t.Run(test.name, func(t *testing.T) {
			s := sit(t, Options{Prompt: ">>> ", Continuation: "... ", Syntax: Python, Whole: wholeInPython, Complete: offersNames},
				"import sys", "import os", "def f(x):\n    return x")
			s.types(test.keys)
			if s.editor.Text() != test.text || s.outcome != test.outcome {
				t.Errorf("got %q, outcome %d, want %q, outcome %d", s.editor.Text(), s.outcome, test.text, test.outcome)
			}
		})
	}
}

func TestEditor_ViKeys(t *testing.T) {
	for _, test := range []struct{ keys, text string }{
		{"abc⎋x", "ab"},
		{"abc def⎋0dw", "def"},
		{"abc def⎋0cwX⎋", "X def"},
		{"one two three⎋02dw", "three"},
		{"a(b, c)⎋F(lct)x", "a(x)"},
		{"a, b, c⎋0f,;x", "a, b c"},
		{"abc⎋hiX", "aXbc"},
		{"abc⎋IX⎋AY", "XabcY"},
		{"abc⎋ddu", "abc"},
		{"one⎋opass⎋kyyjp", "one\npass\none"},
		{"ab⎋yyP", "ab\nab"},
		{"abc⎋0xp", "bac"},
		{"abc⎋D0rX", "Xb"},
		{"abc⎋0~l", "Abc"},
		{"a⎋oq⎋kJ", "a q"},
		{"abc⎋Snew", "new"},
		{"x.y z⎋bbbdwi<", "<.y z"},
		{"a⎋3p", "a"},
		{"im⎋k", "import sys"},
		{"abc⎋Z", "abc"},
	} {
		s := sit(t, Options{Vi: true, Whole: func(string) bool { return true }}, "import sys")
		s.types(test.keys)
		if s.editor.Text() != test.text {
			t.Errorf("%q: got %q, want %q", test.keys, s.editor.Text(), test.text)
		}
	}
}

func TestEditor_TabInATextThatIsTooLargeForUndo(t *testing.T) {
	t.Parallel()
	var e Editor
	e.Begin(Options{Complete: offersNames}, nil)
	e.SetText(strings.Repeat("x", maxUndoRunes) + " alpha")
	e.Press(Key{Name: "Tab"})
	if e.menu == nil {
		t.Fatal("there is no list")
	}
	e.Press(Key{Name: "Tab"})
	e.Press(Key{Name: "Esc"})
	if text := e.Text(); !strings.HasSuffix(text, " alpha") {
		t.Errorf("the text ends with %q", text[len(text)-10:])
	}
}

func TestEditor_ASecretIsInNoOtherText(t *testing.T) {
	t.Parallel()
	for _, kills := range []string{"C-u", "C-w", "M-Backspace"} {
		var e Editor
		e.Begin(Options{Secret: true}, nil)
		e.Press(Key{Name: "Paste", Text: "hunter2"})
		e.Press(Key{Name: "C-x"})
		if e.Press(Key{Name: "C-e"}) != Continues {
			t.Error("another program gets a secret")
		}
		e.Press(Key{Name: kills})
		e.Begin(Options{}, nil)
		if e.Press(Key{Name: "C-y"}); e.Text() != "" {
			t.Errorf("%s: the next text has %q", kills, e.Text())
		}
	}
}
