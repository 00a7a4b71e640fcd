package edit

import (
	"slices"
	"strings"
	"unicode"
)

// vi is the state of the vi mode. Its insert mode has the other commands, too.
type vi struct {
	insert   bool
	count    int  // typed before a command; 0 is none
	times    int  // the count before the operator
	operator rune // d, c, y, < or >, that waits for a motion
	object   rune // i or a, that waits for what it is the inside or all of
	waits    rune // f, t, F, T or r, that waits for a character
	last     Key  // of f, t, F, T: the command, and its character as Text
	register string
	lines    bool // register is of whole lines

	keys      []Key  // of this command
	before    []rune // the text before it
	change    []Key  // the keys of the last command that changed the text
	repeating bool
}

// repeatable are the commands that "." does again.
const repeatable = "xXdDcCsSrpPaAiIoOJ~<>"

// inVi handles a key of the vi mode, and reports false when it is one of the others.
func (e *Editor) inVi(k Key) (Outcome, bool) {
	if name := []rune(k.Name); len(name) == 3 && strings.HasPrefix(k.Name, "M-") { // Escape, and a key at once
		_, _ = e.inVi(Key{Name: "Esc"})
		return e.inVi(Key{Text: string(name[2])})
	}
	v := &e.vi
	if v.repeating {
		return e.viKey(k)
	}
	if !v.insert && !v.pending() {
		v.keys, v.before = nil, slices.Clone(e.text)
	}
	v.keys = append(v.keys, k)
	out, done := e.viKey(k)
	if end := lineEnd(e.text, e.at); done && !v.insert && v.operator == 0 && e.at == end && end > lineBegin(e.text, e.at) {
		e.at = clusterBegin(e.text, end) // there is no place behind the last character
	}
	if !v.insert && !v.pending() && !slices.Equal(v.before, e.text) && v.command() != "u" {
		e.oneStep(v.before)
	}
	if !v.insert && !v.pending() && !slices.Equal(v.before, e.text) && strings.Contains(repeatable, v.command()) {
		v.change = v.keys
	}
	return out, done
}

// pending reports whether a command goes on with the next key.
func (v *vi) pending() bool {
	return v.count > 0 || v.operator != 0 || v.object != 0 || v.waits != 0
}

// command returns the first key that is not of a count.
func (v *vi) command() string {
	for _, k := range v.keys {
		if k.Name != "" || k.Text < "0" || k.Text > "9" {
			return k.Text
		}
	}
	return ""
}

// viRepeat does the last change again.
func (e *Editor) viRepeat() {
	e.vi.repeating = true
	for _, k := range e.vi.change {
		e.Press(k)
	}
	e.vi.repeating = false
}

// oneStep makes one step, to take back, of all since the text was before.
func (e *Editor) oneStep(before []rune) {
	for i, s := range slices.Backward(e.undo) {
		if slices.Equal(s.text, before) {
			e.undo = e.undo[:i+1]
			return
		}
	}
}

func (e *Editor) viKey(k Key) (Outcome, bool) {
	v := &e.vi
	if v.insert {
		if k.Name == "Esc" {
			v.insert = false
			if e.at > lineBegin(e.text, e.at) {
				e.left()
			}
			return Continues, true
		}
		return Continues, false
	}
	if v.waits != 0 && k.Name == "" {
		command := v.waits
		v.waits = 0
		e.viCharacter(command, k.Text)
		return Continues, true
	}
	if v.object != 0 && k.Name == "" {
		around := v.object == 'a'
		v.object = 0
		e.viOnObject([]rune(k.Text)[0], around)
		return Continues, true
	}
	switch {
	case k.Name == "Esc":
		v.count, v.operator, v.object, v.waits = 0, 0, 0, 0
		return Continues, true
	case k.Name == "Backspace":
		e.left()
		return Continues, true
	case k.Name != "":
		return Continues, false
	}
	r := []rune(k.Text)[0]
	if r >= '1' && r <= '9' || r == '0' && v.count > 0 {
		v.count = min(v.count*10+int(r-'0'), 9999)
		return Continues, true
	}
	if r == 'v' && v.operator == 0 {
		return e.external(), true
	}
	e.viCommand(r)
	return Continues, true
}

// viCommand runs a command of normal mode.
func (e *Editor) viCommand(r rune) {
	v := &e.vi
	if strings.ContainsRune("fFtTr", r) {
		v.waits = r
		return
	}
	if v.operator != 0 {
		e.viOperate(r)
		return
	}
	if strings.ContainsRune("dcy<>", r) {
		v.operator, v.times, v.count = r, max(1, v.count), 0
		return
	}
	count := max(1, v.count)
	v.count = 0
	if to, _, ok := e.viMotion(r, count); ok {
		e.at = to
		return
	}
	switch r {
	case 'j':
		e.down()
	case 'k':
		e.up()
	case 'i', 'a', 'I', 'A', 'o', 'O', 's', 'S', 'C':
		e.viInsert(r, count)
	case 'x':
		e.viRemove(e.at, min(e.at+count, lineEnd(e.text, e.at)), false)
	case 'X':
		e.viRemove(max(e.at-count, lineBegin(e.text, e.at)), e.at, false)
	case 'D':
		e.viRemove(e.at, lineEnd(e.text, e.at), false)
	case 'Y':
		e.vi.register, e.vi.lines = string(e.text[lineBegin(e.text, e.at):lineEnd(e.text, e.at)]), true
	case 'p', 'P':
		e.viPut(r == 'p', count)
	case 'u':
		e.takeBack()
	case '~':
		for range min(count, lineEnd(e.text, e.at)-e.at) {
			c := e.text[e.at]
			changed := unicode.ToUpper(c)
			if changed == c {
				changed = unicode.ToLower(c)
			}
			e.save()
			e.replace(e.at, e.at+1, string(changed))
		}
	case 'J':
		if end := lineEnd(e.text, e.at); end < len(e.text) {
			e.save()
			next := end + 1
			for next < len(e.text) && e.text[next] == ' ' {
				next++
			}
			e.replace(end, next, " ")
			e.at = end
		}
	case '/', '?':
		e.searchBack()
	case '.':
		e.viRepeat()
	default:
		e.bell = true
	}
}

// viInsert goes to insert mode.
func (e *Editor) viInsert(r rune, count int) {
	switch r {
	case 'a':
		e.at = min(e.at+1, lineEnd(e.text, e.at))
	case 'I':
		e.at = e.viFirst()
	case 'A':
		e.at = lineEnd(e.text, e.at)
	case 'o':
		e.at = lineEnd(e.text, e.at)
		e.newLine()
	case 'O':
		e.at = lineBegin(e.text, e.at)
		e.insert("\n")
		e.at--
	case 's':
		e.viRemove(e.at, min(e.at+count, lineEnd(e.text, e.at)), false)
	case 'S':
		e.viRemove(lineBegin(e.text, e.at), lineEnd(e.text, e.at), false)
	case 'C':
		e.viRemove(e.at, lineEnd(e.text, e.at), false)
	}
	e.vi.insert = true
	e.typed = false
}

// viFirst returns the first character of the line that is no blank.
func (e *Editor) viFirst() int {
	i := lineBegin(e.text, e.at)
	for end := lineEnd(e.text, i); i < end && unicode.IsSpace(e.text[i]); {
		i++
	}
	return i
}

// viMotion returns the target of a motion, and whether an operator takes the character there, too.
func (e *Editor) viMotion(r rune, count int) (to int, inclusive, ok bool) {
	to = e.at
	begin, end := lineBegin(e.text, e.at), lineEnd(e.text, e.at)
	switch r {
	case '0':
		return begin, false, true
	case '^':
		return e.viFirst(), false, true
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
		if e.vi.last.Name == "" {
			return to, false, true
		}
		command := rune(e.vi.last.Name[0])
		if r == ',' {
			command = map[rune]rune{'f': 'F', 'F': 'f', 't': 'T', 'T': 't'}[command]
		}
		to = e.viFind(command, e.vi.last.Text)
		return to, command == 'f' || command == 't', true
	}
	for range count {
		switch r {
		case 'h':
			to = max(begin, to-1)
		case 'l', ' ':
			to = min(end, to+1)
		case 'w', 'W':
			to = e.viWord(to, r == 'W')
		case 'b', 'B':
			to = e.viBack(to, r == 'B')
		case 'e', 'E':
			to, inclusive = e.viWordEnd(to, r == 'E'), true
		default:
			return e.at, false, false
		}
	}
	return to, inclusive, true
}

// class tells the characters of words from other signs and from blanks.
func class(r rune, big bool) int {
	switch {
	case unicode.IsSpace(r):
		return 0
	case big || isWord(r):
		return 1
	}
	return 2
}

func (e *Editor) viWord(i int, big bool) int {
	if i < len(e.text) {
		for first := class(e.text[i], big); i < len(e.text) && first != 0 && class(e.text[i], big) == first; {
			i++
		}
	}
	for i < len(e.text) && class(e.text[i], big) == 0 {
		i++
	}
	return i
}

func (e *Editor) viBack(i int, big bool) int {
	for i > 0 && class(e.text[i-1], big) == 0 {
		i--
	}
	if i == 0 {
		return 0
	}
	for first := class(e.text[i-1], big); i > 0 && class(e.text[i-1], big) == first; {
		i--
	}
	return i
}

func (e *Editor) viWordEnd(i int, big bool) int {
	i++
	for i < len(e.text) && class(e.text[i], big) == 0 {
		i++
	}
	if i >= len(e.text) {
		return max(0, len(e.text)-1)
	}
	for first := class(e.text[i], big); i+1 < len(e.text) && class(e.text[i+1], big) == first; {
		i++
	}
	return i
}

// viFind returns the next place of a character in the line, as f, t, F and T go there.
func (e *Editor) viFind(command rune, text string) int {
	c := []rune(text)[0]
	begin, end := lineBegin(e.text, e.at), lineEnd(e.text, e.at)
	switch command {
	case 'f', 't':
		for i := e.at + 1; i < end; i++ {
			if e.text[i] == c {
				if command == 't' {
					return i - 1
				}
				return i
			}
		}
	default:
		for i := e.at - 1; i >= begin; i-- {
			if e.text[i] == c {
				if command == 'T' {
					return i + 1
				}
				return i
			}
		}
	}
	return e.at
}

// viCharacter ends a command that waited for a character.
func (e *Editor) viCharacter(command rune, text string) {
	if command == 'r' {
		if e.at < lineEnd(e.text, e.at) {
			e.save()
			e.replace(e.at, e.at+1, text)
			e.at--
		}
		return
	}
	e.vi.last = Key{Name: string(command), Text: text}
	to := e.viFind(command, text)
	if e.vi.operator == 0 {
		e.at = to
		return
	}
	if to != e.at && (command == 'f' || command == 't') {
		to++
	}
	e.viApply(min(e.at, to), max(e.at, to), false)
}

// viOperate ends an operator with its motion.
func (e *Editor) viOperate(r rune) {
	v := &e.vi
	if r == 'i' || r == 'a' {
		v.object = r
		return
	}
	count := max(1, v.count) * v.times
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
		to = min(to, max(e.at, lineEnd(e.text, e.at)))
	}
	from, end := min(e.at, to), max(e.at, to)
	if inclusive {
		end = min(end+1, len(e.text))
	}
	e.viApply(from, end, false)
}

// viOnLines runs the operator on whole lines: count of them from the cursor's on, as dd does, or those
// to which a motion goes.
func (e *Editor) viOnLines(r rune, count int) {
	from, to := e.at, e.at
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
	e.at = from
	switch operator {
	case '<', '>':
		e.viShift(from, to, operator == '>')
	case 'y':
		e.vi.register, e.vi.lines = string(e.text[from:to]), lines
	case 'c':
		e.viRemove(from, to, lines)
		e.vi.insert = true
	case 'd':
		e.viRemove(from, to, lines)
		if lines && e.at < len(e.text) && e.text[e.at] == '\n' {
			e.replace(e.at, e.at+1, "")
		} else if lines && e.at > 0 {
			e.replace(e.at-1, e.at, "")
			e.at = lineBegin(e.text, e.at)
		}
	}
}

// viRemove removes a part of the text, to be put elsewhere.
func (e *Editor) viRemove(from, to int, lines bool) {
	if to > from || lines {
		e.save()
		e.vi.register, e.vi.lines = string(e.text[from:to]), lines
		e.replace(from, to, "")
	}
}

// viPut inserts what was removed or yanked last.
func (e *Editor) viPut(after bool, count int) {
	v := e.vi
	text := strings.Repeat(v.register, count)
	switch {
	case v.lines && after:
		e.at = lineEnd(e.text, e.at)
		begin := e.at + 1
		e.insert(strings.Repeat("\n"+v.register, count))
		e.at = begin
	case v.lines:
		begin := lineBegin(e.text, e.at)
		e.at = begin
		e.insert(strings.Repeat(v.register+"\n", count))
		e.at = begin
	case text != "":
		if after {
			e.at = min(e.at+1, lineEnd(e.text, e.at))
		}
		e.insert(text)
		e.at--
	}
}
