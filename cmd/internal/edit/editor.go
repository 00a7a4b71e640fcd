package edit

import (
	"slices"
	"strings"
	"unicode"
)

// An Outcome is the result of a key for the text.
type Outcome int

const (
	Continues   Outcome = iota
	Accepted            // Text is to be used
	Interrupted         // Ctrl-C: Text is given up
	Ended               // Ctrl-D with nothing typed
	Cleared             // the screen is to be cleared
	External            // Text is to be edited by another program, see SetText
)

// Options say what is edited. The zero value is one line without any help.
type Options struct {
	Prompt       string
	Continuation string // before the further lines
	Syntax       *Syntax
	Colour       bool
	Secret       bool // nothing is shown
	Vi           bool

	// Whole reports whether Enter ends the text. nil means that it always does.
	Whole func(text string) bool

	// Complete is asked by the Tab key. cursor is in bytes. nil completes nothing.
	Complete func(text string, cursor int) Completion
}

// A Completion lists what may replace the text from Start to the cursor.
type Completion struct {
	Start   int // bytes
	Matches []string
	Hint    string // about the call at the cursor, in a few lines; may be ""
}

// maxUndo bounds the states that are kept to come back to, and maxUndoRunes their size. The last one is
// always kept.
const (
	maxUndo      = 200
	maxUndoRunes = 1 << 20
)

// maxKills bounds the killed texts that can be yanked.
const maxKills = 30

// An Editor edits one text after the other, each from Begin to an Outcome that ends it. Killed
// text stays for the next one.
type Editor struct {
	o        Options
	history  *History // nil for a text that is not remembered
	commands map[string]func(*Editor) Outcome

	text []rune
	at   int // the cursor
	goal int // the column to which Up and Down go back; -1 when they begin anew

	undo  []state
	typed bool // the last command only inserted a character, so undo goes on with it

	kills   []string // the newest is the last
	killed  bool     // the last command killed, so the next one adds to it
	yanked  int      // how much the last command has yanked; 0 when it has not
	ring    int      // of kills, counted from the last: what was yanked
	wasKill bool     // this command kills,
	wasYank bool     // or yanks

	prefix string // keys of which the next one is a part, such as "C-x"
	ours   string // the indentation of the cursor's line as we made it, and it is untouched
	burst  Burst  // of this key

	words    int // how many texts ago the last command found the word that it put in; 0 when it did not
	wordSize int // of that word

	recall recall
	search *search // nil when none goes on
	menu   *menu   // nil when none is open
	hint   string
	bell   bool
	vi     vi
}

type state struct {
	text []rune
	at   int
}

// Begin starts a new, empty text. history may be nil.
func (e *Editor) Begin(o Options, history *History) {
	*e = Editor{o: o, history: history, kills: e.kills, commands: e.commands, goal: -1}
	if e.commands == nil {
		e.commands = emacs()
	}
	e.vi.insert, e.vi.keys = true, []Key{{Text: "i"}} // as if by that command
}

// Text returns the text.
func (e *Editor) Text() string { return string(e.text) }

// SetText replaces the text, with the cursor at its end.
func (e *Editor) SetText(text string) {
	e.save()
	e.text = []rune(text)
	e.at, e.menu, e.search, e.hint = len(e.text), nil, nil, ""
}

// WantsEscape reports whether the Escape key has a meaning of its own now. See ReadKey.
func (e *Editor) WantsEscape() bool {
	return e.o.Vi || e.menu != nil || e.search != nil || e.hint != ""
}

// Rang reports, once, that the last keys had no effect.
func (e *Editor) Rang() bool {
	rang := e.bell
	e.bell = false
	return rang
}

// Press handles a key.
func (e *Editor) Press(k Key) Outcome {
	if k.Name == "?" { // a report of the terminal
		return Continues
	}
	e.burst = k.Burst
	if k.Name == "C-c" {
		e.menu, e.search, e.hint = nil, nil, ""
		return Interrupted
	}
	if e.menu != nil && e.inMenu(k) {
		return Continues
	}
	if e.search != nil && e.inSearch(k) {
		return Continues
	}
	hint := e.hint
	e.hint = ""
	if hint != "" && (k.Name == "Esc" || k.Name == "C-g") {
		return Continues // it closes the hint
	}
	if e.o.Vi {
		if out, done := e.inVi(k); done {
			return out
		}
	}
	if e.prefix == quotes {
		e.prefix = ""
		return e.quoted(k)
	}
	name := e.prefix + k.Name
	e.prefix = ""
	switch name {
	case "C-x":
		e.prefix = "C-x "
		return Continues
	case "C-v", "C-q":
		e.prefix = quotes
		return Continues
	}
	out := e.do(name, k.Text)
	if k.Cut {
		e.hint, e.bell = "the paste was too large: its end is missing", true
	}
	return out
}

// do runs the command of a key and keeps what the next one depends on.
func (e *Editor) do(name, text string) Outcome {
	e.wasKill, e.wasYank = false, false
	if name != "" && name != "Paste" && name != "Tab" {
		e.ours = ""
	}
	if name != "M-." && name != "M-_" {
		e.words = 0
	}
	if name != "Up" && name != "Down" && name != "C-p" && name != "C-n" {
		e.goal = -1
	}
	var out Outcome
	command, known := e.commands[name]
	switch {
	case name == "" && text != "":
		e.insertTyped(text)
	case name == "Paste":
		e.paste(text)
	case known:
		out = command(e)
	default:
		e.bell = name != "" && name != "Esc"
	}
	e.killed = e.wasKill
	if !e.wasYank {
		e.yanked = 0
	}
	if name != "" {
		e.typed = false
	}
	return out
}

// save lets undo come back to the text as it is now.
func (e *Editor) save() {
	e.typed = false
	if n := len(e.undo); n > 0 && slices.Equal(e.undo[n-1].text, e.text) {
		return
	}
	e.undo = append(e.undo, state{slices.Clone(e.text), e.at})
	size := 0
	for i, s := range slices.Backward(e.undo) {
		if size += len(s.text); i < len(e.undo)-1 && (size > maxUndoRunes || len(e.undo)-i > maxUndo) {
			e.undo = slices.Delete(e.undo, 0, i+1)
			return
		}
	}
}

// replace puts text in the place of the characters from from to to, and the cursor behind it.
func (e *Editor) replace(from, to int, text string) {
	r := []rune(text)
	e.text = slices.Replace(e.text, from, to, r...)
	e.at = from + len(r)
	e.ours = ""
}

// insert puts text at the cursor.
func (e *Editor) insert(text string) {
	e.save()
	e.replace(e.at, e.at, text)
}

// insertTyped inserts a character that was typed.
func (e *Editor) insertTyped(text string) {
	r := []rune(text)[0]
	if !e.typed || unicode.IsSpace(r) {
		e.save()
	}
	ours := e.ours
	before := string(e.text[lineBegin(e.text, e.at):e.at])
	switch { // a program's lines have their own indentation, and so has who types a second blank
	case ours != "" && e.burst.Lines && before == ours:
		e.dropIndent()
		ours = ""
	case ours != "" && r == ' ' && before == ours+" ":
		e.dropIndent()
		text, ours = "  ", ""
	}
	e.replace(e.at, e.at, text)
	e.ours = ours
	e.typed = true
	if e.o.Syntax != nil && !e.burst.Lines && (ours != "" || strings.ContainsRune(")]}", r)) {
		e.dedent(r)
	}
}

// dropIndent removes what is before the cursor in its line.
func (e *Editor) dropIndent() { e.replace(lineBegin(e.text, e.at), e.at, "") }

// dedent takes back one step of the cursor's line, if it now has what closes a block.
func (e *Editor) dedent(typed rune) {
	s := e.o.Syntax
	begin := lineBegin(e.text, e.at)
	line := string(e.text[begin:e.at])
	word := strings.TrimLeft(line, " \t")
	closes := begin > 0 && len(word) == 1 && strings.ContainsRune(")]}", typed)
	if !closes && !(typed == ':' && beginsWithWord(word, s.Dedents)) {
		return
	}
	indent := strings.TrimSuffix(line, word)
	if above, ok := strings.CutPrefix(string(e.text[lineBegin(e.text, max(0, begin-1)):begin]), indent); !closes && ok && beginsWithWord(above, s.Leads) {
		return
	}
	n := min(len(s.step(indent)), len(indent))
	at := e.at - n
	e.text = slices.Delete(e.text, begin, begin+n)
	e.at = at
	e.ours = ""
}

// paste inserts a paste. Its last line end would be in the way of a single line.
func (e *Editor) paste(text string) {
	if len(e.text) == 0 && e.o.Syntax != nil {
		text = e.o.Syntax.flush(text)
	}
	if strings.Count(text, "\n") == 1 || e.o.Whole == nil {
		text = strings.TrimSuffix(text, "\n")
	}
	ours := e.ours
	e.save()
	switch {
	case ours != "" && strings.TrimLeft(text, " \t") != text, ours != "" && strings.Contains(text, "\n"):
		e.dropIndent() // it has its own indentation
	}
	e.replace(e.at, e.at, text)
}

// quotes is the prefix of a key that is taken as the character that it sends.
const quotes = "C-v "

// quoted inserts the character of a key that has another meaning.
func (e *Editor) quoted(k Key) Outcome {
	switch {
	case k.Name == "Tab":
		k.Text = "\t"
	case k.Name == "Enter":
		k.Text = "\n"
	case len(k.Name) == len("C-a") && k.Name[:2] == "C-":
		k.Text = string(rune(k.Name[2] & 0x1f))
	}
	e.bell = k.Text == ""
	e.insert(k.Text)
	return Continues
}

// enter ends the text, or begins another line.
func (e *Editor) enter() Outcome {
	if e.o.Whole == nil {
		return Accepted
	}
	text := strings.TrimRight(string(e.text), " \t")
	judged := text
	if strings.TrimSpace(string(e.text[e.at:])) != "" {
		judged += "\n" // nobody goes on at its end
	}
	if strings.TrimSpace(text) == "" || e.o.Whole(judged) {
		e.save()
		e.text = []rune(strings.TrimRight(text, " \t\n"))
		e.at = len(e.text)
		return Accepted
	}
	return e.newLine()
}

// newLine begins another line at the cursor.
func (e *Editor) newLine() Outcome {
	indent := ""
	if !e.burst.Followed { // a program's lines have their own
		indent = e.o.Syntax.indentAfter(e.text[:e.at])
	}
	e.insert("\n" + indent)
	e.ours = indent
	return Continues
}

// remember keeps text for yank, unless it is a secret. forward says on which side it was of what the
// last command killed.
func (e *Editor) remember(text string, forward bool) {
	if text == "" || e.o.Secret {
		return
	}
	n := len(e.kills)
	switch {
	case e.killed && n > 0 && forward:
		e.kills[n-1] += text
	case e.killed && n > 0:
		e.kills[n-1] = text + e.kills[n-1]
	default:
		e.kills = append(e.kills, text)
		e.kills = e.kills[max(0, len(e.kills)-maxKills):]
	}
}

// external asks for another program, which would have the text in a file: a secret stays here.
func (e *Editor) external() Outcome {
	if e.o.Secret {
		e.bell = true
		return Continues
	}
	return External
}

// kill removes the text between the cursor and to, for yank.
func (e *Editor) kill(to int) Outcome {
	e.save()
	from, end := min(e.at, to), max(e.at, to)
	e.remember(string(e.text[from:end]), to >= e.at)
	e.replace(from, end, "")
	e.wasKill = true
	return Continues
}
