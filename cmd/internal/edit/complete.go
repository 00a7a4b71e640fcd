package edit

import (
	"strings"
)

// A menu is the open list of completions.
type menu struct {
	matches []string
	chosen  int // -1: none
	from    int // where the match begins, in characters
	before  state
}

// tab completes the text before the cursor, or indents a line that has none. That of a program is
// the character.
func (e *Editor) tab() Outcome {
	begin := lineBegin(e.text, e.at)
	ours := e.ours
	e.ours = ""
	if e.burst.Ended || e.burst.Lines {
		if ours != "" && string(e.text[begin:e.at]) == ours {
			e.dropIndent()
		}
		e.insert("\t")
		return Continues
	}
	if strings.TrimSpace(string(e.text[begin:e.at])) == "" {
		step := 4
		if e.o.Syntax != nil && e.o.Syntax.Indent > 0 {
			step = e.o.Syntax.Indent
		}
		e.insert(strings.Repeat(" ", step-(e.at-begin)%step))
		return Continues
	}
	if e.o.Complete == nil {
		e.bell = true
		return Continues
	}
	before := string(e.text[:e.at])
	found := e.o.Complete(string(e.text), len(before))
	if found.Start < 0 || found.Start > len(before) {
		return Continues
	}
	e.hint = found.Hint
	e.offer(found, before)
	return Continues
}

// offer inserts what all matches share, and opens a list if that is nothing.
func (e *Editor) offer(found Completion, before string) {
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
		e.save()
		e.replace(from, e.at, shared)
	case len(matches) > 1:
		e.save()
		e.menu = &menu{matches, -1, from, e.undo[len(e.undo)-1]}
		e.menu.before.at = e.at
	}
}

// sharedPrefix returns what all texts begin with.
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

// inMenu handles a key while the list is open, and reports false when the key closes it and has
// its own effect.
func (e *Editor) inMenu(k Key) bool {
	m := e.menu
	switch k.Name {
	case "Tab", "Right", "Down", "C-n":
		m.chosen = (m.chosen + 1) % len(m.matches)
	case "S-Tab", "Left", "Up", "C-p":
		m.chosen = (max(m.chosen, 0) + len(m.matches) - 1) % len(m.matches)
	case "Esc", "C-g":
		e.text, e.at, e.menu, e.hint = m.before.text, m.before.at, nil, ""
		return true
	case "Enter":
		e.menu = nil
		return m.chosen >= 0
	default:
		e.menu = nil
		return false
	}
	e.replace(m.from, e.at, m.matches[m.chosen])
	return true
}
