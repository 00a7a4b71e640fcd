package lineedit

import (
	"slices"
	"strings"
	"unicode"
)

// A Syntax describes as much of a language as colours and indentation need. It is not enough to
// validate a text. The zero value is for a language without either.
type Syntax struct {
	Keywords wordList
	Builtins wordList

	Comment   rune   // starts a comment that runs to the end of its line
	Triple    bool   // triple-quoted strings span lines, others do not
	Raw       bool   // R's raw strings: r"(…)"
	NameChars string // characters in names besides letters, digits and _

	IndentWidth        int      // the columns of one step; 0 disables indentation
	BlockOpener        rune     // a line that ends in it opens a block, as the brackets do
	BlockEnders        []string // a line that starts with one is the last of its block
	DedentWords        []string // a line that starts with one goes back a step,
	DedentAfter        []string // unless the line above has the same indentation, and starts with one of these
	BracketBlocks      bool     // blocks are enclosed in brackets
	Prompt             string   // of the language's own REPL,
	ContinuationPrompt string   // and before further lines
	Filename           string   // of a text in another editor, such as "input.py"
}

// A Style is a kind of highlighting for a character.
type Style byte

// The styles of code follow the tokens of its language.
const (
	Plain Style = iota
	Keyword
	Builtin
	String
	Number
	Comment
	Faint    // messages of repl
	Selected // the chosen completion
)

// sgr holds the styles as the terminal's own colours, which follow its theme.
var sgr = [...]string{"", "1;34", "36", "32", "33", "31", "2", "7"}

// wordList is a set of words, separated by blanks. A map would be built at the start of each
// program that imports this package, and of every monitor.
type wordList string

func (w wordList) contains(word string) bool {
	for one := range strings.FieldsSeq(string(w)) {
		if one == word {
			return true
		}
	}
	return false
}

// Python is the syntax of Python 3.
var Python = &Syntax{
	Keywords: `False None True and as assert async await break class continue def del elif else
		except finally for from global if import in is lambda nonlocal not or pass raise return try while with yield`,
	Builtins: `abs all any bool breakpoint bytearray bytes callable chr classmethod compile complex
		delattr dict dir divmod enumerate eval exec filter float format frozenset getattr globals hasattr hash
		help hex id input int isinstance issubclass iter len list locals map max memoryview min next object oct
		open ord pow print property range repr reversed round set setattr slice sorted staticmethod str sum
		super tuple type vars zip`,
	Comment:            '#',
	Triple:             true,
	IndentWidth:        4,
	BlockOpener:        ':',
	BlockEnders:        []string{"return", "pass", "break", "continue", "raise"},
	DedentWords:        []string{"else", "elif", "except", "finally"},
	DedentAfter:        []string{"if", "elif", "for", "while", "try", "except", "else", "async"},
	Prompt:             ">>>",
	ContinuationPrompt: "...",
	Filename:           "input.py",
}

// R is the syntax of R.
var R = &Syntax{
	Keywords: `if else repeat while function for next break TRUE FALSE NULL Inf NaN NA NA_integer_
		NA_real_ NA_character_ NA_complex_ in return library require`,
	Comment:            '#',
	Raw:                true,
	NameChars:          ".",
	IndentWidth:        2,
	BracketBlocks:      true,
	Prompt:             ">",
	ContinuationPrompt: "+",
	Filename:           "input.R",
}

// styleText returns the style of each character. A string that is open at the end extends to it.
func (s *Syntax) styleText(text []rune) []Style {
	all := make([]Style, len(text))
	s.scanTokens(text, func(from, to int, style Style) {
		for i := from; i < to; i++ {
			all[i] = style
		}
	})
	return all
}

// scanTokens calls each for the highlighted parts of a text, in order. It returns the brackets that
// are open at the end, and whether the end is inside a string.
func (s *Syntax) scanTokens(text []rune, each func(from, to int, style Style)) (open []int, inString bool) {
	for i := 0; i < len(text); {
		r, from := text[i], i
		switch {
		case r == s.Comment && r != 0:
			for i < len(text) && text[i] != '\n' {
				i++
			}
			each(from, i, Comment)
		case r == '"' || r == '\'' || r == '`' && !s.Triple:
			i, inString = s.stringEnd(text, i, false)
			each(from, i, String)
		case unicode.IsDigit(r) || r == '.' && i+1 < len(text) && unicode.IsDigit(text[i+1]):
			for i++; i < len(text) && (isWord(text[i]) || text[i] == '.' || (text[i] == '-' || text[i] == '+') && (text[i-1] == 'e' || text[i-1] == 'E') && !isHex(text[from:i])); i++ {
			}
			each(from, i, Number)
		case isWord(r) || strings.ContainsRune(s.NameChars, r):
			for i < len(text) && (isWord(text[i]) || strings.ContainsRune(s.NameChars, text[i])) {
				i++
			}
			name := string(text[from:i])
			if i < len(text) && (text[i] == '"' || text[i] == '\'') && s.isPrefix(name) {
				i, inString = s.stringEnd(text, i, strings.ContainsAny(name, "rR"))
				each(from, i, String)
				break
			}
			behindDot := from > 0 && text[from-1] == '.'
			switch {
			case s.Keywords.contains(name):
				each(from, i, Keyword)
			case s.Builtins.contains(name) && !behindDot:
				each(from, i, Builtin)
			}
		default:
			if strings.ContainsRune("([{", r) {
				open = append(open, i)
			} else if strings.ContainsRune(")]}", r) && len(open) > 0 {
				open = open[:len(open)-1]
			}
			i++
		}
	}
	return open, inString
}

// isPrefix reports whether name before a quote belongs to the string.
func (s *Syntax) isPrefix(name string) bool {
	if s.Raw {
		return name == "r" || name == "R"
	}
	return s.Triple && len(name) <= 2 && strings.Trim(strings.ToLower(name), "rbuft") == ""
}

// stringEnd returns the end of the string whose quote is at i, and whether it is still open.
func (s *Syntax) stringEnd(text []rune, i int, raw bool) (end int, open bool) {
	quote := text[i]
	if s.Raw && raw {
		return rawEnd(text, i)
	}
	triple := s.Triple && i+2 < len(text) && text[i+1] == quote && text[i+2] == quote
	if triple {
		i += 2
	}
	for i++; i < len(text); i++ {
		switch {
		case text[i] == '\\':
			i++
		case text[i] == '\n' && s.Triple && !triple:
			return i, false
		case text[i] == quote && !triple:
			return i + 1, false
		case text[i] == quote && i+2 < len(text) && text[i+1] == quote && text[i+2] == quote:
			return i + 3, false
		}
	}
	return len(text), true
}

// rawEnd returns the end of R's raw string whose quote is at i.
func rawEnd(text []rune, i int) (end int, open bool) {
	rest := string(text[i+1:])
	dashes := len(rest) - len(strings.TrimLeft(rest, "-"))
	if dashes == len(rest) {
		return len(text), true
	}
	closing, ok := map[byte]string{'(': ")", '[': "]", '{': "}"}[rest[dashes]]
	if !ok {
		return i + 1, false
	}
	closing += strings.Repeat("-", dashes) + string(text[i])
	at := strings.Index(rest, closing)
	if at < 0 {
		return len(text), true
	}
	return i + 1 + len([]rune(rest[:at+len(closing)])), false
}

func isWord(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }

func isHex(number []rune) bool {
	return len(number) > 1 && number[0] == '0' && (number[1] == 'x' || number[1] == 'X')
}

// indentAfter returns the indentation of the line after text, or "" if the language has none. It
// continues the tabs and blanks of the line before, because Python rejects a block that mixes them.
func (s *Syntax) indentAfter(text []rune) string {
	if s == nil || s.IndentWidth == 0 {
		return ""
	}
	comment := len(text) // where a comment at the end starts
	var quoted [][2]int  // strings over several lines
	open, inString := s.scanTokens(text, func(from, to int, style Style) {
		switch {
		case style == Comment && to == len(text):
			comment = from
		case style == String && slices.Contains(text[from:to], '\n'):
			quoted = append(quoted, [2]int{from, to})
		}
	})
	if inString {
		return ""
	}
	if s.BracketBlocks {
		return strings.Repeat(" ", s.IndentWidth*len(open))
	}
	last := lineBegin(text, len(text))
	begin := s.continued(text, last, open, quoted)
	first := string(text[begin:lineEnd(text, begin)])
	word := strings.TrimLeft(first, " \t")
	indent := strings.TrimSuffix(first, word)
	line := strings.TrimRight(string(text[last:max(last, comment)]), " \t")
	switch {
	case len(open) > 0 && open[len(open)-1] >= last, s.BlockOpener != 0 && strings.HasSuffix(line, string(s.BlockOpener)):
		return indent + s.step(indent)
	case len(open) == 0 && beginsWithWord(word, s.BlockEnders):
		return indent[:max(0, len(indent)-len(s.step(indent)))]
	}
	return indent
}

// maxContinued bounds how often continued looks for a line further up.
const maxContinued = 100

// continued returns the start of the logical line that the line at begin continues. A line
// continues another one if it ends a bracket or string opened there, or if the line above ends in a
// backslash. open lists the brackets that are open at the end of text, and quoted lists the strings
// that span several lines.
func (s *Syntax) continued(text []rune, begin int, open []int, quoted [][2]int) int {
	for range maxContinued {
		i := slices.IndexFunc(quoted, func(q [2]int) bool { return q[0] < begin && begin < q[1] })
		before, _ := s.scanTokens(text[:begin], func(int, int, Style) {})
		closed := 0
		for closed < min(len(before), len(open)) && before[closed] == open[closed] {
			closed++
		}
		switch {
		case i >= 0:
			begin = lineBegin(text, quoted[i][0])
		case closed < len(before):
			begin = lineBegin(text, before[closed])
		case begin > 1 && text[begin-2] == '\\':
			begin = lineBegin(text, begin-1)
		default:
			return begin
		}
	}
	return begin
}

// step returns the text that one step adds to an indentation.
func (s *Syntax) step(indent string) string {
	if strings.HasSuffix(indent, "\t") {
		return "\t"
	}
	return strings.Repeat(" ", s.IndentWidth)
}

func beginsWithWord(line string, list []string) bool {
	for _, w := range list {
		if rest, ok := strings.CutPrefix(line, w); ok && (rest == "" || !isWord([]rune(rest)[0])) {
			return true
		}
	}
	return false
}

// lineBegin and lineEnd return the start and end of the line of text that contains i.
func lineBegin(text []rune, i int) int {
	for i > 0 && text[i-1] != '\n' {
		i--
	}
	return i
}

func lineEnd(text []rune, i int) int {
	for i < len(text) && text[i] != '\n' {
		i++
	}
	return i
}

// flush returns a text as it would be typed at a prompt: without prompts and the output between
// them, and without a common indentation.
func (s *Syntax) flush(text string) string {
	text = s.withoutPrompts(text)
	if s.IndentWidth == 0 || s.BracketBlocks { // indentation means nothing
		return text
	}
	rest := strings.TrimLeft(text, " \t\n")
	indent := text[strings.LastIndex(text[:len(text)-len(rest)], "\n")+1 : len(text)-len(rest)]
	if indent == "" {
		return text
	}
	inside := s.insideStrings(text)
	var flushed strings.Builder
	at := 0
	for line := range strings.Lines(text) {
		begin := at
		at += len(line)
		cut, ok := strings.CutPrefix(line, indent)
		bare := strings.TrimSpace(line)
		switch {
		case inside(begin): // the indentation belongs to the string
			cut = line
		case ok:
		case bare == "" || strings.HasPrefix(bare, string(s.Comment)):
			cut = strings.TrimLeft(line, " \t")
		default:
			return text
		}
		flushed.WriteString(cut)
	}
	return flushed.String()
}

// insideStrings returns a function that reports whether a byte of text is within a string, after
// its first byte. It must be called with increasing positions.
func (s *Syntax) insideStrings(text string) func(at int) bool {
	type part struct{ from, to int }
	var parts []part
	runes := []rune(text)
	bytes, counted := 0, 0
	upTo := func(i int) int {
		bytes += len(string(runes[counted:i]))
		counted = i
		return bytes
	}
	s.scanTokens(runes, func(from, to int, style Style) {
		if style == String {
			parts = append(parts, part{upTo(from), upTo(to)})
		}
	})
	return func(at int) bool {
		for len(parts) > 0 && parts[0].to <= at {
			parts = parts[1:]
		}
		return len(parts) > 0 && parts[0].from < at
	}
}

// withoutPrompts returns the inputs in a text from a REPL or a docstring. A text that does not
// start with a prompt is returned unchanged.
func (s *Syntax) withoutPrompts(text string) string {
	var inputs []string
	isInput := false // the last line was input, not output
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		input, first, ok := s.cutPrompt(line)
		if !first && len(inputs) == 0 && strings.TrimSpace(line) != "" {
			return text
		}
		if isInput = ok && (first || isInput); isInput {
			inputs = append(inputs, input)
		}
	}
	if len(inputs) == 0 {
		return text
	}
	return strings.Join(inputs, "\n") + "\n"
}

// cutPrompt removes the prompt of a line: the language's own, or IPython's. first means that it is
// a primary prompt.
func (s *Syntax) cutPrompt(line string) (input string, first, ok bool) {
	bare := strings.TrimLeft(line, " \t")
	prompt := func(mark string) bool {
		rest, found := strings.CutPrefix(bare, mark)
		if found = found && mark != "" && (rest == "" || rest[0] == ' '); found {
			input = strings.TrimPrefix(rest, " ")
		}
		return found
	}
	switch {
	case prompt(s.Prompt):
		return input, true, true
	case prompt(s.ContinuationPrompt), prompt("...:"):
		return input, false, true
	}
	number, rest, found := strings.Cut(strings.TrimPrefix(bare, "In ["), "]:")
	if found && strings.HasPrefix(bare, "In [") && strings.Trim(number, "0123456789 ") == "" {
		return strings.TrimPrefix(rest, " "), true, true
	}
	return "", false, false
}
