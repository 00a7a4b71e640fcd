package lineedit

import (
	"strings"
	"unicode"
)

// viPairs maps each name of a bracket object to its brackets, for text objects and %.
var viPairs = map[rune][2]rune{
	'(': {'(', ')'}, ')': {'(', ')'}, 'b': {'(', ')'},
	'[': {'[', ']'}, ']': {'[', ']'},
	'{': {'{', '}'}, '}': {'{', '}'}, 'B': {'{', '}'},
	'<': {'<', '>'}, '>': {'<', '>'},
}

// viOnObject runs the operator on the text object around the cursor: all of it, or its inside.
func (e *Editor) viOnObject(name rune, around bool) {
	from, to, ok := e.viObject(name, around)
	if !ok {
		e.vi.operator, e.vi.count, e.bell = 0, 0, true
		return
	}
	e.vi.count = 0
	e.viApply(from, to, false)
}

func (e *Editor) viObject(name rune, around bool) (from, to int, ok bool) {
	if pair, known := viPairs[name]; known {
		from, to, ok = e.viBrackets(pair)
		if ok && !around {
			from, to = from+1, to-1
		}
		return from, to, ok
	}
	switch name {
	case 'w', 'W':
		from, to, ok = e.viWordAround(name == 'W')
	case '"', '\'', '`':
		if from, to, ok = e.viQuotes(name); ok && !around {
			return from + 1, to - 1, true
		}
	}
	if ok && around {
		from, to = e.viWithBlanks(from, to)
	}
	return from, to, ok
}

// viBrackets returns the innermost pair around the cursor, which may be on either bracket.
func (e *Editor) viBrackets(pair [2]rune) (from, to int, ok bool) {
	if from, ok = e.viPartner(e.cursor, -1, pair[1], pair[0]); !ok {
		return 0, 0, false
	}
	to, ok = e.viPartner(from+1, 1, pair[0], pair[1])
	return from, to + 1, ok
}

// viPartner searches from a position for the bracket that closes the pair around that position. A
// bracket under the cursor that opens another pair does not count.
func (e *Editor) viPartner(at, step int, opens, closes rune) (int, bool) {
	for i, depth := at, 0; i >= 0 && i < len(e.text); i += step {
		switch {
		case e.text[i] == closes && depth == 0:
			return i, true
		case e.text[i] == closes:
			depth--
		case e.text[i] == opens && (i != e.cursor || step > 0):
			depth++
		}
	}
	return 0, false
}

// viQuotes returns the quoted text around the cursor in its line, or the next one.
func (e *Editor) viQuotes(quote rune) (from, to int, ok bool) {
	open := -1
	for i := lineBegin(e.text, e.cursor); i < lineEnd(e.text, e.cursor); i++ {
		switch {
		case e.text[i] == '\\':
			i++
		case e.text[i] != quote:
		case open < 0:
			open = i
		case i >= e.cursor:
			return open, i + 1, true
		default:
			open = -1
		}
	}
	return 0, 0, false
}

// viWordAround returns the word, or the blanks, under the cursor.
func (e *Editor) viWordAround(big bool) (from, to int, ok bool) {
	begin, end := lineBegin(e.text, e.cursor), lineEnd(e.text, e.cursor)
	if e.cursor >= end {
		return 0, 0, false
	}
	from, to = e.cursor, e.cursor
	kind := charClass(e.text[e.cursor], big)
	for from > begin && charClass(e.text[from-1], big) == kind {
		from--
	}
	for to < end && charClass(e.text[to], big) == kind {
		to++
	}
	return from, to, true
}

// viWithBlanks adds the blanks after a part of a line. Without any, it adds the blanks before the
// part.
func (e *Editor) viWithBlanks(from, to int) (int, int) {
	blank := func(i int) bool { return e.text[i] != '\n' && unicode.IsSpace(e.text[i]) }
	end := to
	for end < len(e.text) && blank(end) {
		end++
	}
	if end == to {
		for from > lineBegin(e.text, from) && blank(from-1) {
			from--
		}
	}
	return from, end
}

// viMatch returns the partner of the first bracket in the line from the cursor on.
func (e *Editor) viMatch() (at int, ok bool) {
	for i := e.cursor; i < lineEnd(e.text, e.cursor); i++ {
		pair, known := viPairs[e.text[i]]
		switch {
		case !known || strings.ContainsRune("bB<>", e.text[i]):
		case e.text[i] == pair[0]:
			return e.viPartner(i+1, 1, pair[0], pair[1])
		default:
			return e.viPartner(i-1, -1, pair[1], pair[0])
		}
	}
	return 0, false
}

// viShift indents lines by a step, or removes one.
func (e *Editor) viShift(from, to int, more bool) {
	step := "    "
	if s := e.options.Syntax; s != nil && s.IndentWidth > 0 {
		step = strings.Repeat(" ", s.IndentWidth)
	}
	begin := lineBegin(e.text, from)
	lines := strings.Split(string(e.text[begin:lineEnd(e.text, to)]), "\n")
	for i, line := range lines {
		bare := strings.TrimLeft(line, " ")
		switch {
		case more && line != "":
			lines[i] = step + line
		case !more:
			lines[i] = line[min(len(step), len(line)-len(bare)):]
		}
	}
	e.saveUndo()
	e.replaceRange(begin, lineEnd(e.text, to), strings.Join(lines, "\n"))
	e.cursor = begin
	e.cursor = e.viFirstNonBlank()
}
