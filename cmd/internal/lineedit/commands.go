package lineedit

import (
	"slices"
	"strings"
	"unicode"
)

// emacsCommands maps keys to commands, following readline's Emacs mode. Vi's insert mode uses them,
// too.
func emacsCommands() map[string]func(*Editor) KeyOutcome {
	return map[string]func(*Editor) KeyOutcome{
		"Enter":   (*Editor).acceptOrNewLine,
		"M-Enter": (*Editor).newLine, "S-Enter": (*Editor).newLine,
		"Tab": (*Editor).completeOrIndent, "S-Tab": (*Editor).dedentLine,
		"C-d":       (*Editor).deleteOrEnd,
		"Delete":    (*Editor).deleteForward,
		"Backspace": (*Editor).deleteBackward,

		"Left": (*Editor).moveLeft, "C-b": (*Editor).moveLeft,
		"Right": (*Editor).moveRight, "C-f": (*Editor).moveRight,
		"M-b": (*Editor).moveWordLeft, "C-Left": (*Editor).moveWordLeft, "M-Left": (*Editor).moveWordLeft,
		"M-f": (*Editor).moveWordRight, "C-Right": (*Editor).moveWordRight, "M-Right": (*Editor).moveWordRight,
		"C-a": (*Editor).moveToLineStart, "Home": (*Editor).moveToLineStart,
		"C-e": (*Editor).moveToLineEnd, "End": (*Editor).moveToLineEnd,
		"M-<": moveToCommand(func(*Editor) int { return 0 }), "C-Home": moveToCommand(func(*Editor) int { return 0 }),
		"M->": moveToCommand(func(e *Editor) int { return len(e.text) }), "C-End": moveToCommand(func(e *Editor) int { return len(e.text) }),
		"Up": (*Editor).moveUp, "C-p": (*Editor).moveUp,
		"Down": (*Editor).moveDown, "C-n": (*Editor).moveDown,
		"PageUp": (*Editor).olderText, "M-p": (*Editor).olderText,
		"PageDown": (*Editor).newerText, "M-n": (*Editor).newerText,
		"C-r": (*Editor).startSearch, "C-s": (*Editor).startSearch,

		"C-k":         killToCommand((*Editor).endOrNext),
		"C-u":         killToCommand(func(e *Editor) int { return lineBegin(e.text, e.cursor) }),
		"C-w":         killToCommand((*Editor).blankStartBefore),
		"M-Backspace": killToCommand(func(e *Editor) int { return wordStartBefore(e.text, e.cursor) }),
		"C-Backspace": killToCommand(func(e *Editor) int { return wordStartBefore(e.text, e.cursor) }),
		"M-d":         killToCommand(func(e *Editor) int { return wordEndAfter(e.text, e.cursor) }),
		"C-Delete":    killToCommand(func(e *Editor) int { return wordEndAfter(e.text, e.cursor) }),
		"C-y":         (*Editor).yankText, "M-y": (*Editor).yankOlder,

		"M-.": (*Editor).insertLastWord, "M-_": (*Editor).insertLastWord,

		"C-t": (*Editor).transposeChars,
		"M-u": wordCommand(strings.ToUpper), "M-l": wordCommand(strings.ToLower), "M-c": wordCommand(capitalizeWord),
		"C-_": (*Editor).undoLast, "C-x C-u": (*Editor).undoLast,
		"C-l":     func(*Editor) KeyOutcome { return OutcomeClearScreen },
		"C-x C-e": (*Editor).editExternally,
		"C-g":     func(*Editor) KeyOutcome { return OutcomeContinue },
	}
}

func moveToCommand(where func(*Editor) int) func(*Editor) KeyOutcome {
	return func(e *Editor) KeyOutcome {
		e.cursor, e.ownIndent = where(e), ""
		return OutcomeContinue
	}
}

func killToCommand(where func(*Editor) int) func(*Editor) KeyOutcome {
	return func(e *Editor) KeyOutcome { return e.killUntil(where(e)) }
}

func wordCommand(change func(string) string) func(*Editor) KeyOutcome {
	return func(e *Editor) KeyOutcome {
		e.saveUndo()
		end := wordEndAfter(e.text, e.cursor)
		e.replaceRange(e.cursor, end, change(string(e.text[e.cursor:end])))
		return OutcomeContinue
	}
}

func capitalizeWord(s string) string {
	r := []rune(strings.ToLower(s))
	if i := slices.IndexFunc(r, isWord); i >= 0 {
		r[i] = unicode.ToUpper(r[i])
	}
	return string(r)
}

func wordStartBefore(text []rune, i int) int {
	for i > 0 && !isWord(text[i-1]) {
		i--
	}
	for i > 0 && isWord(text[i-1]) {
		i--
	}
	return i
}

func wordEndAfter(text []rune, i int) int {
	for i < len(text) && !isWord(text[i]) {
		i++
	}
	for i < len(text) && isWord(text[i]) {
		i++
	}
	return i
}

// blankStartBefore returns the start of the blank-separated word before the cursor.
func (e *Editor) blankStartBefore() int {
	i := e.cursor
	for i > 0 && unicode.IsSpace(e.text[i-1]) {
		i--
	}
	for i > 0 && !unicode.IsSpace(e.text[i-1]) {
		i--
	}
	return i
}

// endOrNext returns the end of the cursor's line, or the start of the next line if the cursor is at
// that end.
func (e *Editor) endOrNext() int {
	if end := lineEnd(e.text, e.cursor); end > e.cursor || end == len(e.text) {
		return end
	}
	return e.cursor + 1
}

func (e *Editor) moveLeft() KeyOutcome {
	if e.cursor > 0 {
		e.cursor = clusterBegin(e.text, e.cursor)
	}
	return OutcomeContinue
}

func (e *Editor) moveRight() KeyOutcome {
	e.cursor = clusterEnd(e.text, e.cursor)
	return OutcomeContinue
}

func (e *Editor) moveWordLeft() KeyOutcome {
	e.cursor = wordStartBefore(e.text, e.cursor)
	return OutcomeContinue
}

func (e *Editor) moveWordRight() KeyOutcome {
	e.cursor = wordEndAfter(e.text, e.cursor)
	return OutcomeContinue
}

func (e *Editor) moveToLineStart() KeyOutcome {
	e.cursor = lineBegin(e.text, e.cursor)
	return OutcomeContinue
}

func (e *Editor) moveToLineEnd() KeyOutcome {
	e.cursor = lineEnd(e.text, e.cursor)
	return OutcomeContinue
}

// moveUp moves to the line above, or to an older text from the first line.
func (e *Editor) moveUp() KeyOutcome {
	begin := lineBegin(e.text, e.cursor)
	if begin == 0 {
		return e.olderText()
	}
	e.moveToColumn(lineBegin(e.text, begin-1))
	return OutcomeContinue
}

// moveDown moves to the line below, or to a newer text from the last line.
func (e *Editor) moveDown() KeyOutcome {
	end := lineEnd(e.text, e.cursor)
	if end == len(e.text) {
		return e.newerText()
	}
	e.moveToColumn(end + 1)
	return OutcomeContinue
}

// moveToColumn moves to the line that starts at begin, and keeps the cursor's column.
func (e *Editor) moveToColumn(begin int) {
	if e.goalColumn < 0 {
		e.goalColumn = displayWidth(e.text[lineBegin(e.text, e.cursor):e.cursor])
	}
	e.cursor = begin
	column := 0
	for end := lineEnd(e.text, begin); e.cursor < end; {
		next, cells := displayedAt(e.text, e.cursor, column)
		if column += cells; column > e.goalColumn {
			break
		}
		e.cursor = next
	}
	e.ownIndent = ""
}

// displayWidth returns the width of a part of a line, in cells.
func displayWidth(text []rune) int {
	column := 0
	for i := 0; i < len(text); {
		next, cells := displayedAt(text, i, column)
		i, column = next, column+cells
	}
	return column
}

func (e *Editor) deleteOrEnd() KeyOutcome {
	if len(e.text) == 0 {
		return OutcomeEOF
	}
	return e.deleteForward()
}

func (e *Editor) deleteForward() KeyOutcome {
	e.saveUndo()
	e.replaceRange(e.cursor, clusterEnd(e.text, e.cursor), "")
	return OutcomeContinue
}

// deleteBackward removes the character before the cursor, or one step of an indentation.
func (e *Editor) deleteBackward() KeyOutcome {
	if e.cursor == 0 {
		return OutcomeContinue
	}
	e.saveUndo()
	begin := lineBegin(e.text, e.cursor)
	before := string(e.text[begin:e.cursor])
	from := clusterBegin(e.text, e.cursor)
	if s := e.options.Syntax; s != nil && s.IndentWidth > 0 && before != "" && strings.Trim(before, " ") == "" {
		from = begin + (len(before)-1)/s.IndentWidth*s.IndentWidth
	}
	e.replaceRange(from, e.cursor, "")
	return OutcomeContinue
}

// dedentLine removes one step of the indentation of the cursor's line.
func (e *Editor) dedentLine() KeyOutcome {
	if e.options.Syntax == nil || e.options.Syntax.IndentWidth == 0 {
		return OutcomeContinue
	}
	e.saveUndo()
	begin, n := lineBegin(e.text, e.cursor), 0
	for n < e.options.Syntax.IndentWidth && begin+n < len(e.text) && e.text[begin+n] == ' ' {
		n++
	}
	at := max(begin, e.cursor-n)
	e.replaceRange(begin, begin+n, "")
	e.cursor = at
	return OutcomeContinue
}

func (e *Editor) yankText() KeyOutcome {
	if len(e.kills) == 0 {
		return OutcomeContinue
	}
	e.yankIndex = 1
	text := e.kills[len(e.kills)-1]
	e.insertText(text)
	e.lastYankLength = len([]rune(text))
	e.wasYank = true
	return OutcomeContinue
}

// yankOlder replaces the text that was just yanked by an older one.
func (e *Editor) yankOlder() KeyOutcome {
	if e.lastYankLength == 0 {
		return OutcomeContinue
	}
	e.yankIndex = e.yankIndex%len(e.kills) + 1
	text := e.kills[len(e.kills)-e.yankIndex]
	e.replaceRange(e.cursor-e.lastYankLength, e.cursor, text)
	e.lastYankLength = len([]rune(text))
	e.wasYank = true
	return OutcomeContinue
}

// insertLastWord inserts the last blank-separated word of the previous text. Repeated, it replaces
// that word by the last word of an older text.
func (e *Editor) insertLastWord() KeyOutcome {
	if e.history == nil {
		e.bell = true
		return OutcomeContinue
	}
	texts := e.history.texts
	for i := e.lastWordIndex + 1; i <= len(texts); i++ {
		words := strings.Fields(texts[len(texts)-i])
		if len(words) == 0 {
			continue
		}
		last := words[len(words)-1]
		if e.lastWordIndex > 0 {
			e.replaceRange(e.cursor-e.lastWordLength, e.cursor, last)
		} else {
			e.insertText(last)
		}
		e.lastWordIndex, e.lastWordLength = i, len([]rune(last))
		return OutcomeContinue
	}
	e.bell = true
	return OutcomeContinue
}

// transposeChars swaps the characters around the cursor.
func (e *Editor) transposeChars() KeyOutcome {
	at := e.cursor
	if at == lineEnd(e.text, at) && at > 0 {
		at = clusterBegin(e.text, at)
	}
	if at <= lineBegin(e.text, e.cursor) {
		return OutcomeContinue
	}
	e.saveUndo()
	before, end := clusterBegin(e.text, at), clusterEnd(e.text, at)
	e.replaceRange(before, end, string(e.text[at:end])+string(e.text[before:at]))
	return OutcomeContinue
}

// undoLast undoes the last change.
func (e *Editor) undoLast() KeyOutcome {
	for n := len(e.undo); n > 0; n = len(e.undo) {
		last := e.undo[n-1]
		e.undo = e.undo[:n-1]
		if !slices.Equal(last.text, e.text) {
			e.text, e.cursor = last.text, last.cursor
			break
		}
	}
	return OutcomeContinue
}
