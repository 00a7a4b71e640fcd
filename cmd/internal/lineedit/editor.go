package lineedit

import (
	"slices"
	"strings"
	"unicode"

	"github.com/turnstone-repl/turnstone/cmd/internal/lineedit/keys"
)

// A KeyOutcome tells the caller what to do after a key.
type KeyOutcome int

const (
	OutcomeContinue       KeyOutcome = iota // the next key is needed
	OutcomeAccept                           // Text is complete
	OutcomeInterrupt                        // Ctrl-C: Text is discarded
	OutcomeEOF                              // Ctrl-D on an empty text
	OutcomeClearScreen                      // the caller must clear the screen, see Painter.Clear
	OutcomeEditExternally                   // another program must edit Text, see SetText
)

// Options configure the editing of one text. The zero value is a single line without any help.
type Options struct {
	Prompt       string
	Continuation string // before the further lines
	Syntax       *Syntax
	Colour       bool
	Secret       bool // the text is not shown
	Vi           bool

	// IsComplete reports whether Enter ends the text. nil means that it always does.
	IsComplete func(text string) bool

	// Complete is called for the Tab key. cursor is in bytes. nil completes nothing.
	Complete func(text string, cursor int) CompletionList
}

// A CompletionList lists the possible replacements for the text from Start to the cursor.
type CompletionList struct {
	Start   int // in bytes
	Matches []string
	Hint    string // about the call at the cursor, in a few lines; may be ""
}

// maxUndo bounds the stored states for undo, and maxUndoRunes their size. The last state is always
// stored.
const (
	maxUndo      = 200
	maxUndoRunes = 1 << 20
)

// maxKills bounds the killed texts that can be yanked.
const maxKills = 30

// An Editor edits one text after another, each from Begin to the Outcome that ends it. Killed text
// stays available for the next one.
type Editor struct {
	options  Options
	history  *History // nil for a text that is not remembered
	commands map[string]func(*Editor) KeyOutcome

	text       []rune
	cursor     int
	goalColumn int // the column to which Up and Down return; -1 when they start again

	undo         []textState
	lastWasTyped bool // the last command only inserted a character, so undo groups the next one with it

	kills          []string // the newest last
	lastWasKill    bool     // the last command killed, so the next one appends to it
	lastYankLength int      // the length of the last command's yank; 0 if it did not yank
	yankIndex      int      // the index in kills of the yanked text, counted from the last
	wasKill        bool     // this command kills
	wasYank        bool     // this command yanks

	keyPrefix string        // pending prefix of a key sequence, such as "C-x "
	ownIndent string        // the indentation that the editor gave the cursor's line, while it is untouched
	burst     keys.KeyBurst // the burst with which the current key arrived

	lastWordIndex  int // how many texts ago insertLastWord found its word; 0 if the last command was another one
	lastWordLength int // of that word

	historyWalk historyWalk
	search      *historySearch  // nil if no search is active
	menu        *completionMenu // nil if no menu is open
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
	e.vi.insert, e.vi.keys = true, []keys.Key{{Text: "i"}} // as if the command i had started the insert mode
}

// Text returns the edited text.
func (e *Editor) Text() string { return string(e.text) }

// SetText replaces the text, with the cursor at its end.
func (e *Editor) SetText(text string) {
	e.saveUndo()
	e.text = []rune(text)
	e.cursor, e.menu, e.search, e.hint = len(e.text), nil, nil, ""
}

// WantsEscape reports whether the Escape key has its own meaning now. See [keys.ReadKey].
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
func (e *Editor) Press(k keys.Key) KeyOutcome {
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
		return OutcomeContinue // the key closes the hint
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

// runCommand runs the command of a key and records the state that the next command depends on.
func (e *Editor) runCommand(name, text string) KeyOutcome {
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
	var out KeyOutcome
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

// saveUndo stores the current text for undo.
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

// replaceRange replaces the characters in [from, to) by text, and puts the cursor after it.
func (e *Editor) replaceRange(from, to int, text string) {
	r := []rune(text)
	e.text = slices.Replace(e.text, from, to, r...)
	e.cursor = from + len(r)
	e.ownIndent = ""
}

// insertText inserts text at the cursor.
func (e *Editor) insertText(text string) {
	e.saveUndo()
	e.replaceRange(e.cursor, e.cursor, text)
}

// insertTyped inserts a typed character.
func (e *Editor) insertTyped(text string) {
	r := []rune(text)[0]
	if !e.lastWasTyped || unicode.IsSpace(r) {
		e.saveUndo()
	}
	ours := e.ownIndent
	before := string(e.text[lineBegin(e.text, e.cursor):e.cursor])
	switch { // lines of a program are already indented, and so is a line for which the user types a second blank
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

// dropIndent removes the part of the line before the cursor.
func (e *Editor) dropIndent() { e.replaceRange(lineBegin(e.text, e.cursor), e.cursor, "") }

// dedentBlockEnd removes one step of the line's indentation if it now closes a block.
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

// insertPaste inserts a paste. A line end after its only line is dropped.
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
		e.dropIndent() // the paste has its own indentation
	}
	e.replaceRange(e.cursor, e.cursor, text)
}

// quoteKey is the prefix of a key that is inserted as a character.
const quoteKey = "C-v "

// insertQuotedKey inserts the character of a key that usually runs a command.
func (e *Editor) insertQuotedKey(k keys.Key) KeyOutcome {
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

// acceptOrNewLine ends the text, or starts another line.
func (e *Editor) acceptOrNewLine() KeyOutcome {
	if e.options.IsComplete == nil {
		return OutcomeAccept
	}
	text := strings.TrimRight(string(e.text), " \t")
	checked := text
	if strings.TrimSpace(string(e.text[e.cursor:])) != "" {
		checked += "\n" // no line continues there
	}
	if strings.TrimSpace(text) == "" || e.options.IsComplete(checked) {
		e.saveUndo()
		e.text = []rune(strings.TrimRight(text, " \t\n"))
		e.cursor = len(e.text)
		return OutcomeAccept
	}
	return e.newLine()
}

// newLine starts another line at the cursor.
func (e *Editor) newLine() KeyOutcome {
	indent := ""
	if !e.burst.HasMore { // a program's lines are already indented
		indent = e.options.Syntax.indentAfter(e.text[:e.cursor])
	}
	e.insertText("\n" + indent)
	e.ownIndent = indent
	return OutcomeContinue
}

// addKill stores text for yank, unless it is secret. forward means that the text came after the
// text that the last command killed.
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
		e.StoreKill(text)
	}
}

// StoreKill stores text for yank, as if the user had cut it.
func (e *Editor) StoreKill(text string) {
	e.kills = append(e.kills, text)
	e.kills = e.kills[max(0, len(e.kills)-maxKills):]
}

// editExternally asks for another program to edit the text. A secret stays here, because that
// program would have it in a file.
func (e *Editor) editExternally() KeyOutcome {
	if e.options.Secret {
		e.bell = true
		return OutcomeContinue
	}
	return OutcomeEditExternally
}

// killUntil removes the text between the cursor and to, and stores it for yank.
func (e *Editor) killUntil(to int) KeyOutcome {
	e.saveUndo()
	from, end := min(e.cursor, to), max(e.cursor, to)
	e.addKill(string(e.text[from:end]), to >= e.cursor)
	e.replaceRange(from, end, "")
	e.wasKill = true
	return OutcomeContinue
}
