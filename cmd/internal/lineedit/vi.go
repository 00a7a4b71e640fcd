package lineedit

import (
	"slices"
	"strings"
	"unicode"

	"github.com/turnstone-repl/turnstone/cmd/internal/lineedit/keys"
)

// viState is the state of the vi mode. Its insert mode also has the Emacs commands.
type viState struct {
	insert        bool
	count         int      // typed before a command; 0 if none was
	operatorCount int      // the count before the operator
	operator      rune     // d, c, y, < or >, waiting for a motion
	object        rune     // i or a, waiting for the name of a text object
	charCommand   rune     // f, t, F, T or r, waiting for a character
	lastFind      keys.Key // of f, t, F, T: the command, and its character as Text
	register      string
	linewise      bool // register holds whole lines

	keys      []keys.Key // of this command
	before    []rune     // the text before it
	change    []keys.Key // the keys of the last command that changed the text
	repeating bool
}

// repeatable lists the commands that "." repeats.
const repeatable = "xXdDcCsSrpPaAiIoOJ~<>"

// handleViKey handles a key of the vi mode, and reports false for all other keys.
func (e *Editor) handleViKey(k keys.Key) (KeyOutcome, bool) {
	if name := []rune(k.Name); len(name) == 3 && strings.HasPrefix(k.Name, "M-") { // Escape, followed at once by a key
		_, _ = e.handleViKey(keys.Key{Name: "Esc"})
		return e.handleViKey(keys.Key{Text: string(name[2])})
	}
	v := &e.vi
	if v.repeating {
		return e.viKey(k)
	}
	if !v.insert && !v.isPending() {
		v.keys, v.before = nil, slices.Clone(e.text)
	}
	v.keys = append(v.keys, k)
	out, done := e.viKey(k)
	if end := lineEnd(e.text, e.cursor); done && !v.insert && v.operator == 0 && e.cursor == end && end > lineBegin(e.text, e.cursor) {
		e.cursor = clusterBegin(e.text, end) // the cursor cannot be after the last character
	}
	if !v.insert && !v.isPending() && !slices.Equal(v.before, e.text) && v.commandKey() != "u" {
		e.mergeUndo(v.before)
	}
	if !v.insert && !v.isPending() && !slices.Equal(v.before, e.text) && strings.Contains(repeatable, v.commandKey()) {
		v.change = v.keys
	}
	return out, done
}

// isPending reports whether the command continues with the next key.
func (v *viState) isPending() bool {
	return v.count > 0 || v.operator != 0 || v.object != 0 || v.charCommand != 0
}

// commandKey returns the first key that is not part of a count, or "".
func (v *viState) commandKey() string {
	for _, k := range v.keys {
		if k.Name != "" || k.Text < "0" || k.Text > "9" {
			return k.Text
		}
	}
	return ""
}

// viRepeat repeats the last change.
func (e *Editor) viRepeat() {
	e.vi.repeating = true
	for _, k := range e.vi.change {
		e.Press(k)
	}
	e.vi.repeating = false
}

// mergeUndo merges all changes since the text was before into one undo step.
func (e *Editor) mergeUndo(before []rune) {
	for i, s := range slices.Backward(e.undo) {
		if slices.Equal(s.text, before) {
			e.undo = e.undo[:i+1]
			return
		}
	}
}

func (e *Editor) viKey(k keys.Key) (KeyOutcome, bool) {
	v := &e.vi
	if v.insert {
		if k.Name == "Esc" {
			v.insert = false
			if e.cursor > lineBegin(e.text, e.cursor) {
				e.moveLeft()
			}
			return OutcomeContinue, true
		}
		return OutcomeContinue, false
	}
	if v.charCommand != 0 && k.Name == "" {
		command := v.charCommand
		v.charCommand = 0
		e.viCharacter(command, k.Text)
		return OutcomeContinue, true
	}
	if v.object != 0 && k.Name == "" {
		around := v.object == 'a'
		v.object = 0
		e.viOnObject([]rune(k.Text)[0], around)
		return OutcomeContinue, true
	}
	switch {
	case k.Name == "Esc":
		v.count, v.operator, v.object, v.charCommand = 0, 0, 0, 0
		return OutcomeContinue, true
	case k.Name == "Backspace":
		e.moveLeft()
		return OutcomeContinue, true
	case k.Name != "":
		return OutcomeContinue, false
	}
	r := []rune(k.Text)[0]
	if r >= '1' && r <= '9' || r == '0' && v.count > 0 {
		v.count = min(v.count*10+int(r-'0'), 9999)
		return OutcomeContinue, true
	}
	if r == 'v' && v.operator == 0 {
		return e.editExternally(), true
	}
	e.viCommand(r)
	return OutcomeContinue, true
}

func (e *Editor) viCommand(r rune) {
	v := &e.vi
	if strings.ContainsRune("fFtTr", r) {
		v.charCommand = r
		return
	}
	if v.operator != 0 {
		e.viOperate(r)
		return
	}
	if strings.ContainsRune("dcy<>", r) {
		v.operator, v.operatorCount, v.count = r, max(1, v.count), 0
		return
	}
	count := max(1, v.count)
	v.count = 0
	if to, _, ok := e.viMotion(r, count); ok {
		e.cursor = to
		return
	}
	switch r {
	case 'j':
		e.moveDown()
	case 'k':
		e.moveUp()
	case 'i', 'a', 'I', 'A', 'o', 'O', 's', 'S', 'C':
		e.viInsert(r, count)
	case 'x':
		e.viRemove(e.cursor, min(e.cursor+count, lineEnd(e.text, e.cursor)), false)
	case 'X':
		e.viRemove(max(e.cursor-count, lineBegin(e.text, e.cursor)), e.cursor, false)
	case 'D':
		e.viRemove(e.cursor, lineEnd(e.text, e.cursor), false)
	case 'Y':
		e.vi.register, e.vi.linewise = string(e.text[lineBegin(e.text, e.cursor):lineEnd(e.text, e.cursor)]), true
	case 'p', 'P':
		e.viPut(r == 'p', count)
	case 'u':
		e.undoLast()
	case '~':
		for range min(count, lineEnd(e.text, e.cursor)-e.cursor) {
			c := e.text[e.cursor]
			changed := unicode.ToUpper(c)
			if changed == c {
				changed = unicode.ToLower(c)
			}
			e.saveUndo()
			e.replaceRange(e.cursor, e.cursor+1, string(changed))
		}
	case 'J':
		if end := lineEnd(e.text, e.cursor); end < len(e.text) {
			e.saveUndo()
			next := end + 1
			for next < len(e.text) && e.text[next] == ' ' {
				next++
			}
			e.replaceRange(end, next, " ")
			e.cursor = end
		}
	case '/', '?':
		e.startSearch()
	case '.':
		e.viRepeat()
	default:
		e.bell = true
	}
}

// viInsert enters insert mode.
func (e *Editor) viInsert(r rune, count int) {
	switch r {
	case 'a':
		e.cursor = min(e.cursor+1, lineEnd(e.text, e.cursor))
	case 'I':
		e.cursor = e.viFirstNonBlank()
	case 'A':
		e.cursor = lineEnd(e.text, e.cursor)
	case 'o':
		e.cursor = lineEnd(e.text, e.cursor)
		e.newLine()
	case 'O':
		e.cursor = lineBegin(e.text, e.cursor)
		e.insertText("\n")
		e.cursor--
	case 's':
		e.viRemove(e.cursor, min(e.cursor+count, lineEnd(e.text, e.cursor)), false)
	case 'S':
		e.viRemove(lineBegin(e.text, e.cursor), lineEnd(e.text, e.cursor), false)
	case 'C':
		e.viRemove(e.cursor, lineEnd(e.text, e.cursor), false)
	}
	e.vi.insert = true
	e.lastWasTyped = false
}

// viFirstNonBlank returns the first character of the line that is not a blank.
func (e *Editor) viFirstNonBlank() int {
	i := lineBegin(e.text, e.cursor)
	for end := lineEnd(e.text, i); i < end && unicode.IsSpace(e.text[i]); {
		i++
	}
	return i
}

// viMotion returns the target of a motion, and whether an operator includes the character there.
func (e *Editor) viMotion(r rune, count int) (to int, inclusive, ok bool) {
	to = e.cursor
	begin, end := lineBegin(e.text, e.cursor), lineEnd(e.text, e.cursor)
	switch r {
	case '0':
		return begin, false, true
	case '^':
		return e.viFirstNonBlank(), false, true
	case '$':
		return end, false, true
	case 'G':
		return len(e.text), false, true
	case 'g':
		return 0, false, true
	case '%':
		if at, ok := e.viMatch(); ok {
			return at, true, true
		}
		return to, false, false
	case ';', ',':
		if e.vi.lastFind.Name == "" {
			return to, false, true
		}
		command := rune(e.vi.lastFind.Name[0])
		if r == ',' {
			command = map[rune]rune{'f': 'F', 'F': 'f', 't': 'T', 'T': 't'}[command]
		}
		to = e.viFind(command, e.vi.lastFind.Text)
		return to, command == 'f' || command == 't', true
	}
	for range count {
		switch r {
		case 'h':
			to = max(begin, to-1)
		case 'l', ' ':
			to = min(end, to+1)
		case 'w', 'W':
			to = e.viWordStart(to, r == 'W')
		case 'b', 'B':
			to = e.viWordBack(to, r == 'B')
		case 'e', 'E':
			to, inclusive = e.viWordEnd(to, r == 'E'), true
		default:
			return e.cursor, false, false
		}
	}
	return to, inclusive, true
}

// charClass distinguishes the characters of words from other signs and from blanks.
func charClass(r rune, big bool) int {
	switch {
	case unicode.IsSpace(r):
		return 0
	case big || isWord(r):
		return 1
	}
	return 2
}

func (e *Editor) viWordStart(i int, big bool) int {
	if i < len(e.text) {
		for first := charClass(e.text[i], big); i < len(e.text) && first != 0 && charClass(e.text[i], big) == first; {
			i++
		}
	}
	for i < len(e.text) && charClass(e.text[i], big) == 0 {
		i++
	}
	return i
}

func (e *Editor) viWordBack(i int, big bool) int {
	for i > 0 && charClass(e.text[i-1], big) == 0 {
		i--
	}
	if i == 0 {
		return 0
	}
	for first := charClass(e.text[i-1], big); i > 0 && charClass(e.text[i-1], big) == first; {
		i--
	}
	return i
}

func (e *Editor) viWordEnd(i int, big bool) int {
	i++
	for i < len(e.text) && charClass(e.text[i], big) == 0 {
		i++
	}
	if i >= len(e.text) {
		return max(0, len(e.text)-1)
	}
	for first := charClass(e.text[i], big); i+1 < len(e.text) && charClass(e.text[i+1], big) == first; {
		i++
	}
	return i
}

// viFind returns the next position of a character in the line, as f, t, F and T find it.
func (e *Editor) viFind(command rune, text string) int {
	c := []rune(text)[0]
	begin, end := lineBegin(e.text, e.cursor), lineEnd(e.text, e.cursor)
	switch command {
	case 'f', 't':
		for i := e.cursor + 1; i < end; i++ {
			if e.text[i] == c {
				if command == 't' {
					return i - 1
				}
				return i
			}
		}
	default:
		for i := e.cursor - 1; i >= begin; i-- {
			if e.text[i] == c {
				if command == 'T' {
					return i + 1
				}
				return i
			}
		}
	}
	return e.cursor
}

// viCharacter completes a command that waited for a character.
func (e *Editor) viCharacter(command rune, text string) {
	if command == 'r' {
		if e.cursor < lineEnd(e.text, e.cursor) {
			e.saveUndo()
			e.replaceRange(e.cursor, e.cursor+1, text)
			e.cursor--
		}
		return
	}
	e.vi.lastFind = keys.Key{Name: string(command), Text: text}
	to := e.viFind(command, text)
	if e.vi.operator == 0 {
		e.cursor = to
		return
	}
	if to != e.cursor && (command == 'f' || command == 't') {
		to++
	}
	e.viApply(min(e.cursor, to), max(e.cursor, to), false)
}

// viOperate completes an operator with its motion.
func (e *Editor) viOperate(r rune) {
	v := &e.vi
	if r == 'i' || r == 'a' {
		v.object = r
		return
	}
	count := max(1, v.count) * v.operatorCount
	v.count = 0
	if r == v.operator || strings.ContainsRune("jkGg", r) {
		e.viOnLines(r, count)
		return
	}
	if v.operator == 'c' && (r == 'w' || r == 'W') { // as vi does
		r += 'e' - 'w'
	}
	to, inclusive, ok := e.viMotion(r, count)
	if !ok {
		v.operator, e.bell = 0, true
		return
	}
	if r == 'w' || r == 'W' {
		to = min(to, max(e.cursor, lineEnd(e.text, e.cursor)))
	}
	from, end := min(e.cursor, to), max(e.cursor, to)
	if inclusive {
		end = min(end+1, len(e.text))
	}
	e.viApply(from, end, false)
}

// viOnLines runs the operator on whole lines. These are count lines from the cursor's line on, as
// with dd, or the lines up to the target of a motion.
func (e *Editor) viOnLines(r rune, count int) {
	from, to := e.cursor, e.cursor
	switch r {
	case 'G':
		to = len(e.text)
	case 'g':
		from = 0
	case 'k':
		for range count {
			from = max(0, lineBegin(e.text, from)-1)
		}
	case 'j':
		count++
		fallthrough
	default:
		for range count - 1 {
			to = min(len(e.text), lineEnd(e.text, to)+1)
		}
	}
	e.viApply(lineBegin(e.text, from), lineEnd(e.text, to), true)
}

// viApply runs the operator on a part of the text.
func (e *Editor) viApply(from, to int, lines bool) {
	operator := e.vi.operator
	e.vi.operator = 0
	e.cursor = from
	switch operator {
	case '<', '>':
		e.viShift(from, to, operator == '>')
	case 'y':
		e.vi.register, e.vi.linewise = string(e.text[from:to]), lines
	case 'c':
		e.viRemove(from, to, lines)
		e.vi.insert = true
	case 'd':
		e.viRemove(from, to, lines)
		if lines && e.cursor < len(e.text) && e.text[e.cursor] == '\n' {
			e.replaceRange(e.cursor, e.cursor+1, "")
		} else if lines && e.cursor > 0 {
			e.replaceRange(e.cursor-1, e.cursor, "")
			e.cursor = lineBegin(e.text, e.cursor)
		}
	}
}

// viRemove removes a part of the text into the register.
func (e *Editor) viRemove(from, to int, lines bool) {
	if to > from || lines {
		e.saveUndo()
		e.vi.register, e.vi.linewise = string(e.text[from:to]), lines
		e.replaceRange(from, to, "")
	}
}

// viPut inserts the text that was removed or yanked last.
func (e *Editor) viPut(after bool, count int) {
	v := e.vi
	text := strings.Repeat(v.register, count)
	switch {
	case v.linewise && after:
		e.cursor = lineEnd(e.text, e.cursor)
		begin := e.cursor + 1
		e.insertText(strings.Repeat("\n"+v.register, count))
		e.cursor = begin
	case v.linewise:
		begin := lineBegin(e.text, e.cursor)
		e.cursor = begin
		e.insertText(strings.Repeat(v.register+"\n", count))
		e.cursor = begin
	case text != "":
		if after {
			e.cursor = min(e.cursor+1, lineEnd(e.text, e.cursor))
		}
		e.insertText(text)
		e.cursor--
	}
}
