package lineedit

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/cmd/internal/lineedit/keys"
)

type scriptedSource struct{ *runeSource }

func (s scriptedSource) NextRune(time.Duration) (rune, error) { return s.next() }

func (s scriptedSource) LastBurst() keys.KeyBurst {
	return keys.KeyBurst{
		HasMore:        s.allAtOnce && len(s.runes) > 0,
		LineEndFollows: s.allAtOnce && slices.Contains(s.runes, '\r'),
		AfterLines:     s.severalLines,
	}
}

// isCompletePython implements Python's check for the few texts of these tests.
func isCompletePython(text string) bool {
	open, inString := Python.scanTokens([]rune(text), func(int, int, Style) {})
	last := text[strings.LastIndex(text, "\n")+1:]
	block := strings.Contains(text, ":\n") || strings.HasSuffix(text, ":")
	return len(open) == 0 && !inString && (!block || strings.TrimSpace(last) == "" && strings.Count(text, "\n") > 1)
}

// completeNames completes names, and shows a hint for one call.
func completeNames(text string, cursor int) CompletionList {
	before := text[:cursor]
	start := len(strings.TrimRightFunc(before, isWord))
	c := CompletionList{Start: start}
	for _, name := range []string{"alpha", "alphabet", "beta"} {
		if strings.HasPrefix(name, before[start:]) {
			c.Matches = append(c.Matches, name)
		}
	}
	if strings.HasSuffix(before, "(") {
		return CompletionList{Start: cursor, Hint: "f(x, y=1)\nAdds two numbers."}
	}
	return c
}

const (
	kUp, kDown, kRight, kLeft = "\x1b[A", "\x1b[B", "\x1b[C", "\x1b[D"
	kHome, kEnd, kDelete      = "\x1b[H", "\x1b[F", "\x1b[3~"
	kEsc                      = "\x1b"
	kBackTab                  = "\x1b[Z"
)

func pasteSequence(text string) string { return keys.PasteStart + text + keys.PasteEnd }

// The field peers says how CPython's PyREPL 3.13 (P), IPython 9 (I) and radian 0.7 (R) handle the
// same keys, according to their documentation. The tests run only this editor.
var editScripts = []struct {
	name, peers string
	keys        string
	text        string // the text in the editor, or the accepted one
	outcome     KeyOutcome
}{
	{"a line", "P I R: the same", "1+1\r", "1+1", OutcomeAccept},
	{"a block continues and is indented", "P I R: the same", "def f():\rreturn 1\r", "def f():\n    return 1\n", OutcomeContinue},
	{"an empty line ends a block", "P: the same; I: two of them; R: brackets", "def f():\rreturn 1\r\r", "def f():\n    return 1", OutcomeAccept},
	{"a block within a block", "P I: the same", "def f():\rif x:\rpass\r", "def f():\n    if x:\n        pass\n    ", OutcomeContinue},
	{"return ends its block", "P: keeps the indentation; I: goes back", "if x:\rif y:\rreturn\r", "if x:\n    if y:\n        return\n    ", OutcomeContinue},
	{"the colon of else dedents it", "P I: by hand", "if x:\rpass\relse:\r", "if x:\n    pass\nelse:\n    ", OutcomeContinue},
	{"except belongs to the line above", "P I: by hand", "while x:\rtry: a\rexcept b: c\r", "while x:\n    try: a\n    except b: c\n    ", OutcomeContinue},
	{"else after a block on one line", "P I: by hand", "if x:\ra = b\relse: c\r", "if x:\n    a = b\nelse: c\n", OutcomeContinue},
	{"else with Backspace, as in the peers", "P I: the same", "if x:\rx\r\x7felse:\r", "if x:\n    x\nelse:\n    ", OutcomeContinue},
	{"lines typed by a program keep their indentation", "P I: twice indented", "if x:\r    a\r    b\r", "if x:\n    a\n    b\n    ", OutcomeContinue},
	{"brackets indent", "I: the same", "f(\r1,\r", "f(\n    1,\n    ", OutcomeContinue},
	{"a closing bracket dedents", "I: the same", "f(\r1\r)", "f(\n    1\n)", OutcomeContinue},
	{"the line after a closing bracket is indented like its statement", "P I: as the line before", "def f():\rx = [1,\r2]\r", "def f():\n    x = [1,\n        2]\n    ", OutcomeContinue},
	{"a block whose head has several lines", "I: the same", "def f(\ra,\rb):\r", "def f(\n    a,\n    b):\n    ", OutcomeContinue},
	{"return over several lines ends its block", "P I: as the line before", "if x:\rreturn f(1,\r2)\r", "if x:\n    return f(1,\n        2)\n", OutcomeContinue},
	{"an element over several lines", "P I: as the line before", "[\rf(1,\r2),\r", "[\n    f(1,\n        2),\n    ", OutcomeContinue},
	{"the line after a string over several lines", "P I: as the line before", "if x:\ra = \"\"\"b\rc\"\"\"\r", "if x:\n    a = \"\"\"b\nc\"\"\"\n    ", OutcomeContinue},
	{"the line after a continued line", "P I: as the line before", "if x:\ra = 1 + \\\r\t2\r", "if x:\n    a = 1 + \\\n        2\n    ", OutcomeContinue},
	{"a string over lines is not indented", "I: the same", "'''\r  a\rb", "'''\n  a\nb", OutcomeContinue},
	{"Up in a block moves to the line above", "P I R: the same", "if x:\rab\r" + kUp + kUp + kEnd + "y", "if x:y\n    ab\n    ", OutcomeContinue},
	{"Enter in the middle of a whole block runs it", "P R: the same; I: another line", "if x:\ra\r" + kUp + kUp + "\r", "if x:\n    a", OutcomeAccept},
	{"Alt-Enter starts a line anywhere", "P I R: the same", "a\x1b\rb\r", "a\nb", OutcomeAccept},
	{"Tab indents, Backspace removes a step", "P I: the same", "\t\tx\x01\t" + kEnd, "            x", OutcomeContinue},
	{"Backspace in an indentation", "P I: the same", "        \x7fx", "    x", OutcomeContinue},
	{"Shift-Tab removes a step", "I: the same", "\t\tx" + kBackTab, "    x", OutcomeContinue},
	{"a paste waits for Enter", "P I R: the same", pasteSequence("a = 1\nb = 2\n"), "a = 1\nb = 2\n", OutcomeContinue},
	{"a pasted line with its line end", "P I: keep the end", pasteSequence("a = 1\n"), "a = 1", OutcomeContinue},
	{"a paste keeps its indentation", "P I R: the same", pasteSequence("if x:\n\ty\n\n\tz\n") + "\r", "if x:\n\ty\n\n\tz", OutcomeAccept},
	{"a paste into an indented line", "I: the same", "if x:\r" + pasteSequence("    a\n    b") + "\r", "if x:\n    a\n    b\n    ", OutcomeContinue},
	{"Ctrl-C discards the text", "P I R: the same", "abc\x03", "abc", OutcomeInterrupt},
	{"Ctrl-C with the list open discards the text", "P R: the same; I: closes the list", "al\t\t\x03", "alpha", OutcomeInterrupt},
	{"Ctrl-C during a search discards the text", "P: ends the search", "\x12imp\x03", "import os", OutcomeInterrupt},
	{"Ctrl-D with nothing typed ends", "P I R: the same", "\x04", "", OutcomeEOF},
	{"Ctrl-D deletes", "P I R: the same", "abc\x01\x04", "bc", OutcomeContinue},
	{"Up recalls a whole block", "P I R: the same", kUp, "def f(x):\n    return x", OutcomeContinue},
	{"Up with a prefix finds texts that begin with it", "P: any; I: the same; R: any", "imp" + kUp, "import os", OutcomeContinue},
	{"Down returns to the typed text", "P I R: the same", "imp" + kUp + kUp + kDown + kDown, "imp", OutcomeContinue},
	{"a recalled block is edited in the middle", "P I R: the same", kUp + kUp + kEnd + " #\r", "def f(x): #\n    return x", OutcomeAccept},
	{"Page Up moves over whole blocks", "P: the same", "\x1b[5~\x1b[5~", "import os", OutcomeContinue},
	{"Ctrl-R searches in any line", "P I: the same", "\x12turn", "def f(x):\n    return x", OutcomeContinue},
	{"Ctrl-R again finds an older text", "P I: the same", "\x12i\x12\x12\x07", "", OutcomeContinue},
	{"Ctrl-R and an arrow stays in the text", "P I: the same", "\x12sys" + kHome + "x", "ximport sys", OutcomeContinue},
	{"Ctrl-R and Enter runs it", "P: edits it; I: runs it", "\x12sys\r", "import sys", OutcomeAccept},
	{"Up continues from the text that a search found", "I: the same; P: from the newest", "\x12os" + kRight + kUp, "import sys", OutcomeContinue},
	{"Page Up continues from the text that a search found", "I: the same", "\x12os" + kRight + "\x1b[5~", "import sys", OutcomeContinue},
	{"Backspace in a search", "P I: the same", "\x12syz\x7f" + kEnd, "import sys", OutcomeContinue},
	{"Tab inserts the common prefix of the completions", "P I R: the same", "al\t", "alpha", OutcomeContinue},
	{"Tab walks through the list", "I: the same; P: more of it", "al\t\t\t\t\r", "alphabet", OutcomeContinue},
	{"Escape closes the list", "I: the same", "al\t\t\t\x1b", "alpha", OutcomeContinue},
	{"a key after the list is inserted", "P I R: the same", "al\t\t\t\tx", "alphabetx", OutcomeContinue},
	{"Ctrl-A, Ctrl-K, Ctrl-Y", "P I R: the same", "abc def\x01\x0b\x19\x19", "abc defabc def", OutcomeContinue},
	{"Ctrl-W twice is one kill", "P: the same", "a bc de\x17\x17\x19", "a bc de", OutcomeContinue},
	{"Ctrl-U kills to the beginning of the line", "P: the same; I R: the same", "a\x1b\rbc\x15", "a\n", OutcomeContinue},
	{"Alt-Y yanks an older kill", "P I: the same", "a b\x17" + kLeft + kRight + "\x15\x19\x1by", "b", OutcomeContinue},
	{"words", "P I R: the same", "foo.bar baz\x1bb\x1bb\x1bdX", "foo.X baz", OutcomeContinue},
	{"Ctrl-T", "P I: the same", "ab\x14", "ba", OutcomeContinue},
	{"Ctrl-_ undoes a change", "P I: the same", "abc \x17\x1f", "abc ", OutcomeContinue},
	{"upper and lower case words", "P I: the same", "one two three\x01\x1bu\x1bc\x1bl", "ONE Two three", OutcomeContinue},
	{"an accent is one character", "I: the same", "ae\u0301\x7f", "a", OutcomeContinue},
	{"a flag is one character", "I: two", "a🇩🇪\x7f", "a", OutcomeContinue},
	{"joined emoji are one character", "I: several", "👩‍💻b" + kLeft + "\x7f", "b", OutcomeContinue},
	{"Delete and arrows over wide characters", "P I R: the same", "中文字" + kLeft + kLeft + kDelete, "中字", OutcomeContinue},
	{"an unknown key does nothing", "P I R: the same", "a\x1b[99~\x1b[1;7Pb", "ab", OutcomeContinue},
	{"Enter within the last line of a whole block runs it", "I: the same; P: another line", "if x:\rab" + kLeft + "\r", "if x:\n    ab", OutcomeAccept},
	{"Enter at the end of a block's last line starts another line", "P I: the same", "if x:\rab\r", "if x:\n    ab\n    ", OutcomeContinue},
	{"Ctrl-R and Enter in the last line of a block runs it", "I: the same", "\x12turn\r", "def f(x):\n    return x", OutcomeAccept},
	{"a comment keeps the indentation", "P I: the same", "def f():\r# a\r", "def f():\n    # a\n    ", OutcomeContinue},
	{"a comment after a colon", "P I: the same", "if x:\rif y: # a\r", "if x:\n    if y: # a\n        ", OutcomeContinue},
	{"an empty line in brackets keeps the indentation", "I: the same", "f(\r\r1", "f(\n    \n    1", OutcomeContinue},
	{"a block of tabs continues with tabs", "P: a mixture", pasteSequence("if x:\n\tif y:") + "\r", "if x:\n\tif y:\n\t\t", OutcomeContinue},
	{"one blank more than the indentation", "P I: the same", "if x:\r a", "if x:\n     a", OutcomeContinue},
	{"Tab on an indented line", "P I: the same", "if x:\r\ta", "if x:\n        a", OutcomeContinue},
	{"a word pasted into an indented line", "P I: the same", "if x:\r" + pasteSequence("a"), "if x:\n    a", OutcomeContinue},
	{"an indented pasted block", "I: the same; P: an error", pasteSequence("    a = 1\n    if a:\n        b\n"), "a = 1\nif a:\n    b\n", OutcomeContinue},
	{"the lines of a string keep their indentation", "I: dedented", pasteSequence("  a = '''x\n  y\n'''\n  b\n"), "a = '''x\n  y\n'''\nb\n", OutcomeContinue},
	{"a paste that is not a block is unchanged", "P: the same", pasteSequence("    a\nb\n"), "    a\nb\n", OutcomeContinue},
	{"a comment at the margin of an indented paste", "I: the same", pasteSequence("    a\n# c\n\n    b\n"), "a\n# c\n\nb\n", OutcomeContinue},
	{"a paste with prompts", "I: the same; P: an error", pasteSequence(">>> a = 1\n>>> if a:\n...     b\n...\n"), "a = 1\nif a:\n    b\n\n", OutcomeContinue},
	{"a paste with prompts and output", "I: an error", pasteSequence("    >>> 1 + 1\n    2\n    ...\n    >>> x\n"), "1 + 1\nx\n", OutcomeContinue},
	{"a paste of IPython's prompts", "I: the same", pasteSequence("In [1]: a = 1\n\nIn [2]: if a:\n   ...:     b\n   ...: \nOut[2]: 3\n"), "a = 1\nif a:\n    b\n\n", OutcomeContinue},
	{"a line with its prompt", "I: the same", pasteSequence(">>> a\n"), "a", OutcomeContinue},
	{"prompts within a text stay", "I: the same", pasteSequence("x = '''\n>>> a\n'''"), "x = '''\n>>> a\n'''", OutcomeContinue},
	{"Alt-. inserts the last word of the last text", "P I R: the same", "x \x1b.", "x x", OutcomeContinue},
	{"Alt-. again goes further back", "P I R: the same", "\x1b.\x1b.\x1b.\x1b.", "sys", OutcomeContinue},
	{"Ctrl-V takes the next key as its character", "P I: the same", "a\x16\tb\x16\rc\x16\x01", "a\tb\nc\x01", OutcomeContinue},
	{"a reply about colours is not text", "P: text", "a\x1b]11;rgb:0000/0000/0000\x1b\\b\x1b]4;1;rgb:ff\ac", "abc", OutcomeContinue},
	{"replies to other queries are not text", "P: text", "a\x1bP>|XTerm(390)\x1b\\b\x1bP1+r544e=78\x1b\\\x1b_Gi=1;OK\x1b\\c\x1b[?62;22c\x1b[5;10R\x1b[?1u\x1b[?2026;2$y", "abc", OutcomeContinue},
	{"an incomplete reply ends at the next control character", "", "a\x1b]11;rgb\r", "a", OutcomeAccept},
	{"mouse and focus reports are not keys", "P I: text", "a\x1b[<0;1;1M\x1b[<0;1;1m\x1b[M !!\x1b[I\x1b[Ob", "ab", OutcomeContinue},
	{"function keys of the Linux console", "P I: the same", "a\x1b[[Ab", "ab", OutcomeContinue},
	{"Alt and an arrow as Escape and the arrow", "I: the same", "ab cd\x1b\x1b[DX", "ab Xcd", OutcomeContinue},
	{"an arrow with Ctrl on a keypad", "I: the same", "ab cd\x1bO5DX\x1bOdY\x1bOcZ", "ab YXcdZ", OutcomeContinue},
	{"a keypad that sends sequences", "I: the same", "\x1bOq\x1bOk\x1bOy\x1bOM", "1+9", OutcomeAccept},
	{"rxvt's keys with modifiers", "", "ab cd\x1b[7$\x1b[8^X", "ab cdX", OutcomeContinue},
	{"characters in kitty's encoding", "", "\x1b[97u\x1b[97;2u\x1b[97:65;2u\x1b[98;1:3u\x1b[57441;2u\x1b[57400u\x1b[104;5u", "aAA", OutcomeContinue},
	{"Ctrl-D as kitty sends it", "", "\x1b[100;5u", "", OutcomeEOF},
	{"Backspace and Ctrl-Backspace as kitty sends them", "", "ab cd ef\x1b[127;5u\x1b[127u\x1b[127u", "ab c", OutcomeContinue},
	{"Option and an arrow as iTerm2 and kitty send it", "P: text", "ab cd\x1b[1;9DX", "ab Xcd", OutcomeContinue},
	{"Alt-Right after Ctrl-P types nothing", "P I R: the same", "\x10\x01\x1b[1;3C\x1b[1;2C\x1bfX", "def f(x):\n    return xX", OutcomeContinue},
	{"Up continues from a text of the history after the cursor moved", "P: the same", "\x1b[5~\x1b[5~" + kHome + kUp, "import sys", OutcomeContinue},
	{"Right after Up in a block moves to the next character", "P I R: the same", kUp + kUp + kRight + "X", "def f(x):\nX    return x", OutcomeContinue},
	{"Tab ends a search and completes", "I: the same", "\x12sys\x05\t", "import sys", OutcomeContinue},
	{"two comments at the start of a block", "I: the same; P: indented more", "for i in x:\r# a\r# b\rc", "for i in x:\n    # a\n    # b\n    c", OutcomeContinue},
	{"blanks at the end of a block are not a line", "P I: the same", "if x:\ra\r   \r", "if x:\n    a", OutcomeAccept},
	{"tabs within a paste stay", "P: drawn wrongly", pasteSequence("from m import (\n\ta\t\t,\n\t\tb\t,\n)\n"), "from m import (\n\ta\t\t,\n\t\tb\t,\n)\n", OutcomeContinue},
	{"a focus report does not end a search", "I: the same", "\x12im\x1b[Ip\r", "import os", OutcomeAccept},
	{"Ctrl-C as kitty sends it", "", "a\x1b[99;5u", "a", OutcomeInterrupt},
}

// burstScripts are sent at once, by a program or by a terminal that does not mark pastes. The text
// is inserted unchanged, without the help that a user gets.
var burstScripts = []struct {
	name, keys, text string
	outcome          KeyOutcome
}{
	{"tabs", "def f(x):\r\tif x:\r\t\treturn 1\r\treturn 2", "def f(x):\n\tif x:\n\t\treturn 1\n\treturn 2", OutcomeContinue},
	{"blanks", "def f(x):\r  if x:\r    return 1\r  return 2", "def f(x):\n  if x:\n    return 1\n  return 2", OutcomeContinue},
	{"back to the margin", "for i in x:\r    a\rprint(i)", "for i in x:\n    a\nprint(i)", OutcomeContinue},
	{"else keeps its place", "if x:\r    if y:\r        a\r    else:\r        b", "if x:\n    if y:\n        a\n    else:\n        b", OutcomeContinue},
	{"closing brackets keep their places", "f(\r    1\r    )", "f(\n    1\n    )", OutcomeContinue},
	{"a tab within a line completes nothing", "al\t= 1\r", "al\t= 1", OutcomeAccept},
	{"Tab twice completes and opens the list", "al\t\t", "alpha", OutcomeContinue},
	{"lines run", "a = 1\r", "a = 1", OutcomeAccept},
}

func TestEditor_ProgramInput(t *testing.T) {
	for _, test := range burstScripts {
		t.Run(test.name, func(t *testing.T) {
			s := newEditorTest(t, pythonOptions())
			s.sendKeys(test.keys)
			if s.editor.Text() != test.text || s.outcome != test.outcome {
				t.Errorf("got %q, outcome %d, want %q, outcome %d", s.editor.Text(), s.outcome, test.text, test.outcome)
			}
		})
	}
	for _, test := range []struct{ name, first, then, text string }{
		{"split after a line", "for i in x:\r    a\r", "b\rc", "for i in x:\n    a\nb\nc"},
		{"split after a tab", "if x:\r\t", "a\r\tb", "if x:\n\ta\n\tb"},
		{"split within an indentation", "if x:\r", "    a\r    b", "if x:\n    a\n    b"},
		{"a line of a block that a user started", "if x:\r", "a", "if x:\n    a"},
		{"a line with a tab", "if x:\r", "\ta\r", "if x:\n\ta\n\t"},
		{"the last line of a block that a user started", "if x:\r", "a\r\r", "if x:\n    a"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newEditorTest(t, pythonOptions())
			s.sendKeys(test.first)
			s.sendKeys(test.then)
			if s.editor.Text() != test.text {
				t.Errorf("got %q, want %q", s.editor.Text(), test.text)
			}
		})
	}
}

func TestEditor_EmacsKeys(t *testing.T) {
	for _, test := range editScripts {
		t.Run(test.name, func(t *testing.T) {
			s := newEditorTest(t, Options{Prompt: ">>> ", Continuation: "... ", Syntax: Python, IsComplete: isCompletePython, Complete: completeNames},
				"import sys", "import os", "def f(x):\n    return x")
			s.typeKeys(test.keys)
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
		{"abc⎋Adef⎋u", "abc"},
		{"abc⎋Adef⎋uu", ""},
		{"abc⎋0iX⎋aY⎋u", "Xabc"},
		{"a b⎋cwx y z⎋u", "a b"},
		{"a b⎋yyu", ""},
		{"x = 1⎋.", "x = x = 11"},
		{"ab⎋x.uu", "ab"},
		{"a⎋Abc d⎋.uu", "a"},
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
		{"f(a, (b), c)⎋hci(x", "f(x)"},
		{"f(a, (b), c)⎋hhhhhdi(", "f(a, (), c)"},
		{"f(a)⎋ci)x", "f(x)"},
		{"f()⎋ci(x", "f(x)"},
		{"f(a)⎋hdab", "f"},
		{"x[1] {2}⎋hci{y⎋0lci[z", "x[z] {y}"},
		{"a = \"b c\" + 'd'⎋0ci\"x", "a = \"x\" + 'd'"},
		{"a = \"b c\" + 'd'⎋ci'x", "a = \"b c\" + 'x'"},
		{"a \"b\" c⎋0da\"", "a c"},
		{"one two three⎋bbdiw", "one  three"},
		{"one two three⎋bbdaw", "one three"},
		{"one two⎋daw", "one"},
		{"f(a)⎋0lyi($p", "f(a)a"},
		{"abc⎋ci(", "abc"},
		{"f(a(b))⎋0d%", ""},
		{"x = (a)⎋0%x", "x = (a"},
		{"a b c d e f g⎋02d3w", "g"},
		{"a b c d⎋0d2w", "c d"},
		{"a\x1b\rb\x1b\rc⎋kdk", "c"},
		{"a\x1b\rb\x1b\rc⎋kdj", "a"},
		{"a\x1b\rb\x1b\rc⎋kdG", "a"},
		{"a\x1b\rb⎋>k", "    a\n    b"},
		{"    a⎋<<", "a"},
		{"a b c d⎋0dw..", "d"},
		{"ab ab⎋0cwx⎋w.", "x x"},
		{"abc⎋0x.u", "bc"},
		{"a⎋Ab⎋..", "abbb"},
		{"ab cd\x1bbx", "ab d"},
		{"abc⎋0$x", "ab"},
		{"abc⎋xx", "a"},
		{"abc def⎋bdwx", "abc"},
		{"abc⎋0llllx", "ab"},
		{"abc⎋A⎋x", "ab"},
		{"|abcdef⎋0dte", "ef"},
		{"|abcdef⎋0dfe", "f"},
		{"a\x1b\rb⎋kddx", ""},
	} {
		s := newEditorTest(t, Options{Vi: true, IsComplete: func(string) bool { return true }}, "import sys")
		s.typeKeys(test.keys)
		if s.editor.Text() != test.text {
			t.Errorf("%q: got %q, want %q", test.keys, s.editor.Text(), test.text)
		}
	}
}

func TestEditor_Limits(t *testing.T) {
	t.Parallel()

	t.Run("completes in a text that is too large to undo", func(t *testing.T) {
		t.Parallel()
		var e Editor
		e.Begin(Options{Complete: completeNames}, nil)
		e.SetText(strings.Repeat("x", maxUndoRunes) + " alpha")
		e.Press(keys.Key{Name: "Tab"})
		if e.menu == nil {
			t.Fatal("no list is open")
		}
		e.Press(keys.Key{Name: "Tab"})
		e.Press(keys.Key{Name: "Esc"})
		if text := e.Text(); !strings.HasSuffix(text, " alpha") {
			t.Errorf("the text ends with %q", text[len(text)-10:])
		}
	})

	t.Run("never yanks a secret into another text", func(t *testing.T) {
		t.Parallel()
		for _, kills := range []string{"C-u", "C-w", "M-Backspace"} {
			var e Editor
			e.Begin(Options{Secret: true}, nil)
			e.Press(keys.Key{Name: "Paste", Text: "hunter2"})
			e.Press(keys.Key{Name: "C-x"})
			if e.Press(keys.Key{Name: "C-e"}) != OutcomeContinue {
				t.Error("a secret is passed to another program")
			}
			e.Press(keys.Key{Name: kills})
			e.Begin(Options{}, nil)
			if e.Press(keys.Key{Name: "C-y"}); e.Text() != "" {
				t.Errorf("%s: the next text got %q", kills, e.Text())
			}
		}
	})

	// The history file bounds the size of a text; a session recalls texts of any size.
	t.Run("bounds the history and keeps the newest text", func(t *testing.T) {
		t.Parallel()
		h := NewHistory(3, "old")
		h.Add("  ")
		large := strings.Repeat("x", maxHistory+1)
		h.Add("small")
		h.Add(large)
		if got := h.Texts(); len(got) != 1 || got[0] != large {
			t.Errorf("got %d texts, want the large one", len(got))
		}
		h.Add("new")
		if got := h.Texts(); len(got) != 1 || got[0] != "new" {
			t.Errorf("got %d texts, want the new one", len(got))
		}
	})
}
