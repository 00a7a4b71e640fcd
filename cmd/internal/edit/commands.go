package edit

import (
	"slices"
	"strings"
	"unicode"
)

// emacs returns the commands of the keys, by readline's Emacs mode. Vi's insert mode has
// them, too.
func emacs() map[string]func(*Editor) Outcome {
	return map[string]func(*Editor) Outcome{
		"Enter":   (*Editor).enter,
		"M-Enter": (*Editor).newLine, "S-Enter": (*Editor).newLine,
		"Tab": (*Editor).tab, "S-Tab": (*Editor).outdent,
		"C-d":       (*Editor).deleteOrEnd,
		"Delete":    (*Editor).deleteForward,
		"Backspace": (*Editor).deleteBackward,

		"Left": (*Editor).left, "C-b": (*Editor).left,
		"Right": (*Editor).right, "C-f": (*Editor).right,
		"M-b": (*Editor).wordLeft, "C-Left": (*Editor).wordLeft, "M-Left": (*Editor).wordLeft,
		"M-f": (*Editor).wordRight, "C-Right": (*Editor).wordRight, "M-Right": (*Editor).wordRight,
		"C-a": (*Editor).lineStart, "Home": (*Editor).lineStart,
		"C-e": (*Editor).lineEnd, "End": (*Editor).lineEnd,
		"M-<": moveTo(func(*Editor) int { return 0 }), "C-Home": moveTo(func(*Editor) int { return 0 }),
		"M->": moveTo(func(e *Editor) int { return len(e.text) }), "C-End": moveTo(func(e *Editor) int { return len(e.text) }),
		"Up": (*Editor).up, "C-p": (*Editor).up,
		"Down": (*Editor).down, "C-n": (*Editor).down,
		"PageUp": (*Editor).older, "M-p": (*Editor).older,
		"PageDown": (*Editor).newer, "M-n": (*Editor).newer,
		"C-r": (*Editor).searchBack, "C-s": (*Editor).searchBack,

		"C-k":         killTo((*Editor).endOrNext),
		"C-u":         killTo(func(e *Editor) int { return lineBegin(e.text, e.at) }),
		"C-w":         killTo((*Editor).blankBefore),
		"M-Backspace": killTo(func(e *Editor) int { return wordBefore(e.text, e.at) }),
		"C-Backspace": killTo(func(e *Editor) int { return wordBefore(e.text, e.at) }),
		"M-d":         killTo(func(e *Editor) int { return wordAfter(e.text, e.at) }),
		"C-Delete":    killTo(func(e *Editor) int { return wordAfter(e.text, e.at) }),
		"C-y":         (*Editor).yank, "M-y": (*Editor).yankOlder,

		"M-.": (*Editor).lastWord, "M-_": (*Editor).lastWord,

		"C-t": (*Editor).transpose,
		"M-u": onWord(strings.ToUpper), "M-l": onWord(strings.ToLower), "M-c": onWord(capitalized),
		"C-_": (*Editor).takeBack, "C-x C-u": (*Editor).takeBack,
		"C-l":     func(*Editor) Outcome { return Cleared },
		"C-x C-e": (*Editor).external,
		"C-g":     func(*Editor) Outcome { return Continues },
	}
}

func moveTo(where func(*Editor) int) func(*Editor) Outcome {
	return func(e *Editor) Outcome {
		e.at, e.ours = where(e), ""
		return Continues
	}
}

func killTo(where func(*Editor) int) func(*Editor) Outcome {
	return func(e *Editor) Outcome { return e.kill(where(e)) }
}

func onWord(change func(string) string) func(*Editor) Outcome {
	return func(e *Editor) Outcome {
		e.save()
		end := wordAfter(e.text, e.at)
		e.replace(e.at, end, change(string(e.text[e.at:end])))
		return Continues
	}
}

func capitalized(s string) string {
	r := []rune(strings.ToLower(s))
	if i := slices.IndexFunc(r, isWord); i >= 0 {
		r[i] = unicode.ToUpper(r[i])
	}
	return string(r)
}

func wordBefore(text []rune, i int) int {
	for i > 0 && !isWord(text[i-1]) {
		i--
	}
	for i > 0 && isWord(text[i-1]) {
		i--
	}
	return i
}

func wordAfter(text []rune, i int) int {
	for i < len(text) && !isWord(text[i]) {
		i++
	}
	for i < len(text) && isWord(text[i]) {
		i++
	}
	return i
}

// blankBefore returns the beginning of the word before the cursor, as blanks separate words.
func (e *Editor) blankBefore() int {
	i := e.at
	for i > 0 && unicode.IsSpace(e.text[i-1]) {
		i--
	}
	for i > 0 && !unicode.IsSpace(e.text[i-1]) {
		i--
	}
	return i
}

// endOrNext returns the end of the cursor's line, or the next line if it is there already.
func (e *Editor) endOrNext() int {
	if end := lineEnd(e.text, e.at); end > e.at || end == len(e.text) {
		return end
	}
	return e.at + 1
}

func (e *Editor) left() Outcome {
	if e.at > 0 {
		e.at = clusterBegin(e.text, e.at)
	}
	return Continues
}

func (e *Editor) right() Outcome {
	e.at = clusterEnd(e.text, e.at)
	return Continues
}

func (e *Editor) wordLeft() Outcome {
	e.at = wordBefore(e.text, e.at)
	return Continues
}

func (e *Editor) wordRight() Outcome {
	e.at = wordAfter(e.text, e.at)
	return Continues
}

func (e *Editor) lineStart() Outcome {
	e.at = lineBegin(e.text, e.at)
	return Continues
}

func (e *Editor) lineEnd() Outcome {
	e.at = lineEnd(e.text, e.at)
	return Continues
}

// up goes to the line above, or to an older text.
func (e *Editor) up() Outcome {
	begin := lineBegin(e.text, e.at)
	if begin == 0 {
		return e.older()
	}
	e.toColumn(lineBegin(e.text, begin-1))
	return Continues
}

// down goes to the line below, or to a newer text.
func (e *Editor) down() Outcome {
	end := lineEnd(e.text, e.at)
	if end == len(e.text) {
		return e.newer()
	}
	e.toColumn(end + 1)
	return Continues
}

// toColumn goes to the line that begins at begin, to the cells of the cursor.
func (e *Editor) toColumn(begin int) {
	if e.goal < 0 {
		e.goal = cellsOf(e.text[lineBegin(e.text, e.at):e.at])
	}
	e.at = begin
	column := 0
	for end := lineEnd(e.text, begin); e.at < end; {
		next, cells := shownAt(e.text, e.at, column)
		if column += cells; column > e.goal {
			break
		}
		e.at = next
	}
	e.ours = ""
}

// cellsOf returns the cells of a part of a line.
func cellsOf(text []rune) int {
	column := 0
	for i := 0; i < len(text); {
		next, cells := shownAt(text, i, column)
		i, column = next, column+cells
	}
	return column
}

func (e *Editor) deleteOrEnd() Outcome {
	if len(e.text) == 0 {
		return Ended
	}
	return e.deleteForward()
}

func (e *Editor) deleteForward() Outcome {
	e.save()
	e.replace(e.at, clusterEnd(e.text, e.at), "")
	return Continues
}

// deleteBackward removes the character before the cursor, and of an indentation one step.
func (e *Editor) deleteBackward() Outcome {
	if e.at == 0 {
		return Continues
	}
	e.save()
	begin := lineBegin(e.text, e.at)
	before := string(e.text[begin:e.at])
	from := clusterBegin(e.text, e.at)
	if s := e.o.Syntax; s != nil && s.Indent > 0 && before != "" && strings.Trim(before, " ") == "" {
		from = begin + (len(before)-1)/s.Indent*s.Indent
	}
	e.replace(from, e.at, "")
	return Continues
}

// outdent takes one step from the indentation of the cursor's line.
func (e *Editor) outdent() Outcome {
	if e.o.Syntax == nil || e.o.Syntax.Indent == 0 {
		return Continues
	}
	e.save()
	begin, n := lineBegin(e.text, e.at), 0
	for n < e.o.Syntax.Indent && begin+n < len(e.text) && e.text[begin+n] == ' ' {
		n++
	}
	at := max(begin, e.at-n)
	e.replace(begin, begin+n, "")
	e.at = at
	return Continues
}

func (e *Editor) yank() Outcome {
	if len(e.kills) == 0 {
		return Continues
	}
	e.ring = 1
	text := e.kills[len(e.kills)-1]
	e.insert(text)
	e.yanked = len([]rune(text))
	e.wasYank = true
	return Continues
}

// yankOlder puts an older text in the place of the one that was just yanked.
func (e *Editor) yankOlder() Outcome {
	if e.yanked == 0 {
		return Continues
	}
	e.ring = e.ring%len(e.kills) + 1
	text := e.kills[len(e.kills)-e.ring]
	e.replace(e.at-e.yanked, e.at, text)
	e.yanked = len([]rune(text))
	e.wasYank = true
	return Continues
}

// lastWord puts in the last word of the text before, as blanks separate words, and in the place of
// that the one of an older text.
func (e *Editor) lastWord() Outcome {
	if e.history == nil {
		e.bell = true
		return Continues
	}
	texts := e.history.texts
	for i := e.words + 1; i <= len(texts); i++ {
		words := strings.Fields(texts[len(texts)-i])
		if len(words) == 0 {
			continue
		}
		last := words[len(words)-1]
		if e.words > 0 {
			e.replace(e.at-e.wordSize, e.at, last)
		} else {
			e.insert(last)
		}
		e.words, e.wordSize = i, len([]rune(last))
		return Continues
	}
	e.bell = true
	return Continues
}

// transpose exchanges the characters around the cursor.
func (e *Editor) transpose() Outcome {
	at := e.at
	if at == lineEnd(e.text, at) && at > 0 {
		at = clusterBegin(e.text, at)
	}
	if at <= lineBegin(e.text, e.at) {
		return Continues
	}
	e.save()
	before, end := clusterBegin(e.text, at), clusterEnd(e.text, at)
	e.replace(before, end, string(e.text[at:end])+string(e.text[before:at]))
	return Continues
}

// takeBack undoes the last change.
func (e *Editor) takeBack() Outcome {
	for n := len(e.undo); n > 0; n = len(e.undo) {
		last := e.undo[n-1]
		e.undo = e.undo[:n-1]
		if !slices.Equal(last.text, e.text) {
			e.text, e.at = last.text, last.at
			break
		}
	}
	return Continues
}
