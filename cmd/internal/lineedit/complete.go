package lineedit

import (
	"strings"

	"github.com/turnstone-repl/turnstone/cmd/internal/lineedit/keys"
)

// A completionMenu is the open list of completions below the text.
type completionMenu struct {
	matches []string
	chosen  int // -1 if none is chosen
	from    int // where the match starts, in characters
	before  textState
}

// completeOrIndent completes the text before the cursor, or indents a blank line. In a text sent by
// a program, Tab is a plain character.
func (e *Editor) completeOrIndent() KeyOutcome {
	begin := lineBegin(e.text, e.cursor)
	ours := e.ownIndent
	e.ownIndent = ""
	if e.burst.LineEndFollows || e.burst.AfterLines {
		if ours != "" && string(e.text[begin:e.cursor]) == ours {
			e.dropIndent()
		}
		e.insertText("\t")
		return OutcomeContinue
	}
	if strings.TrimSpace(string(e.text[begin:e.cursor])) == "" {
		step := 4
		if e.options.Syntax != nil && e.options.Syntax.IndentWidth > 0 {
			step = e.options.Syntax.IndentWidth
		}
		e.insertText(strings.Repeat(" ", step-(e.cursor-begin)%step))
		return OutcomeContinue
	}
	if e.options.Complete == nil {
		e.bell = true
		return OutcomeContinue
	}
	before := string(e.text[:e.cursor])
	found := e.options.Complete(string(e.text), len(before))
	if found.Start < 0 || found.Start > len(before) {
		return OutcomeContinue
	}
	e.hint = found.Hint
	e.offerCompletions(found, before)
	return OutcomeContinue
}

// offerCompletions inserts the common prefix of all matches, or opens a list if they share none.
func (e *Editor) offerCompletions(found CompletionList, before string) {
	prefix := before[found.Start:]
	var matches []string
	for _, m := range found.Matches {
		if strings.HasPrefix(m, prefix) && !strings.ContainsFunc(m, func(r rune) bool { return isControl(r) }) {
			matches = append(matches, m)
		}
	}
	from := len([]rune(before[:found.Start]))
	switch shared := sharedPrefix(matches); {
	case len(matches) == 0:
		e.bell = e.hint == ""
	case len(shared) > len(prefix):
		e.saveUndo()
		e.replaceRange(from, e.cursor, shared)
	case len(matches) > 1:
		e.saveUndo()
		e.menu = &completionMenu{matches, -1, from, e.undo[len(e.undo)-1]}
		e.menu.before.cursor = e.cursor
	}
}

// sharedPrefix returns the common prefix of all texts.
func sharedPrefix(texts []string) string {
	if len(texts) == 0 {
		return ""
	}
	shared := []rune(texts[0])
	for _, t := range texts[1:] {
		n := 0
		for _, r := range t {
			if n == len(shared) || shared[n] != r {
				break
			}
			n++
		}
		shared = shared[:n]
	}
	return string(shared)
}

// handleMenuKey handles a key while the list is open. It reports false if the key closes the list
// and still has its own effect.
func (e *Editor) handleMenuKey(k keys.Key) bool {
	m := e.menu
	switch k.Name {
	case "Tab", "Right", "Down", "C-n":
		m.chosen = (m.chosen + 1) % len(m.matches)
	case "S-Tab", "Left", "Up", "C-p":
		m.chosen = (max(m.chosen, 0) + len(m.matches) - 1) % len(m.matches)
	case "Esc", "C-g":
		e.text, e.cursor, e.menu, e.hint = m.before.text, m.before.cursor, nil, ""
		return true
	case "Enter":
		e.menu = nil
		return m.chosen >= 0
	default:
		e.menu = nil
		return false
	}
	e.replaceRange(m.from, e.cursor, m.matches[m.chosen])
	return true
}
