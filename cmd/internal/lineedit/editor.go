package lineedit

import (
	"slices"
	"strings"
	"unicode"
)

// An Outcome is the result of a key for the text.
type Outcome int

const (
	OutcomeContinue       Outcome = iota
	OutcomeAccept                 // Text is to be used
	OutcomeInterrupt              // Ctrl-C: Text is given up
	OutcomeEOF                    // Ctrl-D with nothing typed
	OutcomeClearScreen            // the screen is to be cleared
	OutcomeEditExternally         // Text is to be edited by another program, see SetText
)

// Options say what is edited. The zero value is one line without any help.
type Options struct {
	Prompt       string
	Continuation string // before the further lines
	Syntax       *Syntax
	Colour       bool
	Secret       bool // nothing is shown
	Vi           bool

	// IsComplete reports whether Enter ends the text. nil means that it always does.
	IsComplete func(text string) bool

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
	options  Options
	history  *History // nil for a text that is not remembered
	commands map[string]func(*Editor) Outcome

	text       []rune
	cursor     int // the cursor
	goalColumn int // the column to which Up and Down go back; -1 when they begin anew

	undo         []textState
	lastWasTyped bool // the last command only inserted a character, so undo goes on with it

	kills          []string // the newest is the last
	lastWasKill    bool     // the last command killed, so the next one adds to it
	lastYankLength int      // how much the last command has yanked; 0 when it has not
	yankIndex      int      // of kills, counted from the last: what was yanked
	wasKill        bool     // this command kills,
	wasYank        bool     // or yanks

	keyPrefix string   // keys of which the next one is a part, such as "C-x"
	ownIndent string   // the indentation of the cursor's line as we made it, and it is untouched
	burst     KeyBurst // of this key

	lastWordIndex  int // how many texts ago the last command found the word that it put in; 0 when it did not
	lastWordLength int // of that word

	historyWalk historyWalk
	search      *historySearch  // nil when none goes on
	menu        *completionMenu // nil when none is open
	hint        string
	bell        bool
	vi          viState
}

type textState struct {
	text   []rune
	cursor int
}

// Begin starts a new, empty text. history may be nil.
func (e *Editor) Begin(o Options, history *History) {
	*e = Editor{options: o, history: history, kills: e.kills, commands: e.commands, goalColumn: -1}
	if e.commands == nil {
		e.commands = emacsCommands()
	}
	e.vi.insert, e.vi.keys = true, []Key{{Text: "i"}} // as if by that command
}

// Text returns the text.
func (e *Editor) Text() string { return string(e.text) }

// SetText replaces the text, with the cursor at its end.
func (e *Editor) SetText(text string) {
	e.saveUndo()
	e.text = []rune(text)
	e.cursor, e.menu, e.search, e.hint = len(e.text), nil, nil, ""
}

// WantsEscape reports whether the Escape key has a meaning of its own now. See ReadKey.
func (e *Editor) WantsEscape() bool {
	return e.options.Vi || e.menu != nil || e.search != nil || e.hint != ""
}

// TakeBell reports, once, that the last keys had no effect.
func (e *Editor) TakeBell() bool {
	rang := e.bell
	e.bell = false
	return rang
}

// Press handles a key.
func (e *Editor) Press(k Key) Outcome {
	if k.Name == "?" { // a report of the terminal
		return OutcomeContinue
	}
	e.burst = k.KeyBurst
	if k.Name == "C-c" {
		e.menu, e.search, e.hint = nil, nil, ""
		return OutcomeInterrupt
	}
	if e.menu != nil && e.handleMenuKey(k) {
		return OutcomeContinue
	}
	if e.search != nil && e.handleSearchKey(k) {
		return OutcomeContinue
	}
	hint := e.hint
	e.hint = ""
	if hint != "" && (k.Name == "Esc" || k.Name == "C-g") {
		return OutcomeContinue // it closes the hint
	}
	if e.options.Vi {
		if out, done := e.handleViKey(k); done {
			return out
		}
	}
	if e.keyPrefix == quoteKey {
		e.keyPrefix = ""
		return e.insertQuotedKey(k)
	}
	name := e.keyPrefix + k.Name
	e.keyPrefix = ""
	switch name {
	case "C-x":
		e.keyPrefix = "C-x "
		return OutcomeContinue
	case "C-v", "C-q":
		e.keyPrefix = quoteKey
		return OutcomeContinue
	}
	out := e.runCommand(name, k.Text)
	if k.Cut {
		e.hint, e.bell = "the paste was too large: its end is missing", true
	}
	return out
}

// runCommand runs the command of a key and keeps what the next one depends on.
func (e *Editor) runCommand(name, text string) Outcome {
	e.wasKill, e.wasYank = false, false
	if name != "" && name != "Paste" && name != "Tab" {
		e.ownIndent = ""
	}
	if name != "M-." && name != "M-_" {
		e.lastWordIndex = 0
	}
	if name != "Up" && name != "Down" && name != "C-p" && name != "C-n" {
		e.goalColumn = -1
	}
	var out Outcome
	command, known := e.commands[name]
	switch {
	case name == "" && text != "":
		e.insertTyped(text)
	case name == "Paste":
		e.insertPaste(text)
	case known:
		out = command(e)
	default:
		e.bell = name != "" && name != "Esc"
	}
	e.lastWasKill = e.wasKill
	if !e.wasYank {
		e.lastYankLength = 0
	}
	if name != "" {
		e.lastWasTyped = false
	}
	return out
}

// saveUndo lets undo come back to the text as it is now.
func (e *Editor) saveUndo() {
	e.lastWasTyped = false
	if n := len(e.undo); n > 0 && slices.Equal(e.undo[n-1].text, e.text) {
		return
	}
	e.undo = append(e.undo, textState{slices.Clone(e.text), e.cursor})
	size := 0
	for i, s := range slices.Backward(e.undo) {
		if size += len(s.text); i < len(e.undo)-1 && (size > maxUndoRunes || len(e.undo)-i > maxUndo) {
			e.undo = slices.Delete(e.undo, 0, i+1)
			return
		}
	}
}

// replaceRange puts text in the place of the characters from from to to, and the cursor behind it.
func (e *Editor) replaceRange(from, to int, text string) {
	r := []rune(text)
	e.text = slices.Replace(e.text, from, to, r...)
	e.cursor = from + len(r)
	e.ownIndent = ""
}

// insertText puts text at the cursor.
func (e *Editor) insertText(text string) {
	e.saveUndo()
	e.replaceRange(e.cursor, e.cursor, text)
}

// insertTyped inserts a character that was typed.
func (e *Editor) insertTyped(text string) {
	r := []rune(text)[0]
	if !e.lastWasTyped || unicode.IsSpace(r) {
		e.saveUndo()
	}
	ours := e.ownIndent
	before := string(e.text[lineBegin(e.text, e.cursor):e.cursor])
	switch { // a program's lines have their own indentation, and so has who types a second blank
	case ours != "" && e.burst.AfterLines && before == ours:
		e.dropIndent()
		ours = ""
	case ours != "" && r == ' ' && before == ours+" ":
		e.dropIndent()
		text, ours = "  ", ""
	}
	e.replaceRange(e.cursor, e.cursor, text)
	e.ownIndent = ours
	e.lastWasTyped = true
	if e.options.Syntax != nil && !e.burst.AfterLines && (ours != "" || strings.ContainsRune(")]}", r)) {
		e.dedentBlockEnd(r)
	}
}

// dropIndent removes what is before the cursor in its line.
func (e *Editor) dropIndent() { e.replaceRange(lineBegin(e.text, e.cursor), e.cursor, "") }

// dedentBlockEnd takes back one step of the cursor's line, if it now has what closes a block.
func (e *Editor) dedentBlockEnd(typed rune) {
	s := e.options.Syntax
	begin := lineBegin(e.text, e.cursor)
	line := string(e.text[begin:e.cursor])
	word := strings.TrimLeft(line, " \t")
	closes := begin > 0 && len(word) == 1 && strings.ContainsRune(")]}", typed)
	if !closes && !(typed == ':' && beginsWithWord(word, s.DedentWords)) {
		return
	}
	indent := strings.TrimSuffix(line, word)
	if above, ok := strings.CutPrefix(string(e.text[lineBegin(e.text, max(0, begin-1)):begin]), indent); !closes && ok && beginsWithWord(above, s.DedentAfter) {
		return
	}
	n := min(len(s.step(indent)), len(indent))
	at := e.cursor - n
	e.text = slices.Delete(e.text, begin, begin+n)
	e.cursor = at
	e.ownIndent = ""
}

// insertPaste inserts a paste. Its last line end would be in the way of a single line.
func (e *Editor) insertPaste(text string) {
	if len(e.text) == 0 && e.options.Syntax != nil {
		text = e.options.Syntax.flush(text)
	}
	if strings.Count(text, "\n") == 1 || e.options.IsComplete == nil {
		text = strings.TrimSuffix(text, "\n")
	}
	ours := e.ownIndent
	e.saveUndo()
	switch {
	case ours != "" && strings.TrimLeft(text, " \t") != text, ours != "" && strings.Contains(text, "\n"):
		e.dropIndent() // it has its own indentation
	}
	e.replaceRange(e.cursor, e.cursor, text)
}

// quoteKey is the prefix of a key that is taken as the character that it sends.
const quoteKey = "C-v "

// insertQuotedKey inserts the character of a key that has another meaning.
func (e *Editor) insertQuotedKey(k Key) Outcome {
	switch {
	case k.Name == "Tab":
		k.Text = "\t"
	case k.Name == "Enter":
		k.Text = "\n"
	case len(k.Name) == len("C-a") && k.Name[:2] == "C-":
		k.Text = string(rune(k.Name[2] & 0x1f))
	}
	e.bell = k.Text == ""
	e.insertText(k.Text)
	return OutcomeContinue
}

// acceptOrNewLine ends the text, or begins another line.
func (e *Editor) acceptOrNewLine() Outcome {
	if e.options.IsComplete == nil {
		return OutcomeAccept
	}
	text := strings.TrimRight(string(e.text), " \t")
	judged := text
	if strings.TrimSpace(string(e.text[e.cursor:])) != "" {
		judged += "\n" // nobody goes on at its end
	}
	if strings.TrimSpace(text) == "" || e.options.IsComplete(judged) {
		e.saveUndo()
		e.text = []rune(strings.TrimRight(text, " \t\n"))
		e.cursor = len(e.text)
		return OutcomeAccept
	}
	return e.newLine()
}

// newLine begins another line at the cursor.
func (e *Editor) newLine() Outcome {
	indent := ""
	if !e.burst.HasMore { // a program's lines have their own
		indent = e.options.Syntax.indentAfter(e.text[:e.cursor])
	}
	e.insertText("\n" + indent)
	e.ownIndent = indent
	return OutcomeContinue
}

// addKill keeps text for yank, unless it is a secret. forward says on which side it was of what the
// last command killed.
func (e *Editor) addKill(text string, forward bool) {
	if text == "" || e.options.Secret {
		return
	}
	n := len(e.kills)
	switch {
	case e.lastWasKill && n > 0 && forward:
		e.kills[n-1] += text
	case e.lastWasKill && n > 0:
		e.kills[n-1] = text + e.kills[n-1]
	default:
		e.kills = append(e.kills, text)
		e.kills = e.kills[max(0, len(e.kills)-maxKills):]
	}
}

// editExternally asks for another program, which would have the text in a file: a secret stays here.
func (e *Editor) editExternally() Outcome {
	if e.options.Secret {
		e.bell = true
		return OutcomeContinue
	}
	return OutcomeEditExternally
}

// killUntil removes the text between the cursor and to, for yank.
func (e *Editor) killUntil(to int) Outcome {
	e.saveUndo()
	from, end := min(e.cursor, to), max(e.cursor, to)
	e.addKill(string(e.text[from:end]), to >= e.cursor)
	e.replaceRange(from, end, "")
	e.wasKill = true
	return OutcomeContinue
}
