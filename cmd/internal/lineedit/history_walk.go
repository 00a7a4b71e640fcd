package lineedit

import (
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/cmd/internal/lineedit/keys"
)

// maxHistory bounds a history, in bytes. The newest text is always stored.
const maxHistory = 32 << 20

// A History is a list of distinct texts, the oldest first.
type History struct {
	texts    []string
	maxTexts int
}

// NewHistory returns a history of the last limit texts. It stores only the newest of equal texts.
func NewHistory(limit int, texts ...string) *History {
	h := &History{maxTexts: limit}
	seen := make(map[string]bool, len(texts))
	for _, t := range slices.Backward(texts) {
		if !seen[t] && len(h.texts) < limit {
			seen[t] = true
			h.texts = append(h.texts, t)
		}
	}
	slices.Reverse(h.texts)
	return h
}

// Add makes text the newest, unless it is blank.
func (h *History) Add(text string) {
	if strings.TrimSpace(text) == "" {
		return
	}
	h.texts = slices.DeleteFunc(h.texts, func(t string) bool { return t == text })
	h.texts = append(h.texts, text)
	h.texts = h.texts[max(0, len(h.texts)-h.maxTexts):]
	size := 0
	for i, t := range slices.Backward(h.texts) {
		if size += len(t); size > maxHistory && i < len(h.texts)-1 {
			h.texts = slices.Delete(h.texts, 0, i+1)
			return
		}
	}
}

// Texts returns all texts, the oldest first.
func (h *History) Texts() []string { return slices.Clone(h.texts) }

// A historyWalk is a position in the history. It stays valid while the text is unchanged.
type historyWalk struct {
	active bool
	found  string
	index  int
	prefix string // of all texts that it finds
	draft  string // the typed text before the walk
}

// olderText shows the next older text that starts with the typed text.
func (e *Editor) olderText() KeyOutcome { return e.walkHistory(-1) }

// newerText shows the next newer text, and finally the typed text.
func (e *Editor) newerText() KeyOutcome { return e.walkHistory(1) }

func (e *Editor) walkHistory(step int) KeyOutcome {
	if e.history == nil {
		e.bell = true
		return OutcomeContinue
	}
	r := &e.historyWalk
	if !r.active || r.found != string(e.text) {
		*r = historyWalk{active: true, index: len(e.history.texts), prefix: string(e.text[:e.cursor]), draft: string(e.text)}
	}
	for i := r.index + step; i >= 0 && i <= len(e.history.texts); i += step {
		text := r.draft
		if i < len(e.history.texts) {
			text = e.history.texts[i]
		}
		if i < len(e.history.texts) && (!strings.HasPrefix(text, r.prefix) || text == string(e.text)) {
			continue
		}
		if r.index == i || i == len(e.history.texts) && step < 0 {
			break
		}
		e.saveUndo()
		e.text = []rune(text)
		e.cursor, e.goalColumn = len(e.text), -1
		r.index, r.found = i, text
		return OutcomeContinue
	}
	r.found = string(e.text)
	e.bell = true
	return OutcomeContinue
}

// A historySearch searches the history for a text that contains the query.
type historySearch struct {
	query   string
	index   int
	noMatch bool
	before  textState
}

// startSearch starts a search.
func (e *Editor) startSearch() KeyOutcome {
	if e.history == nil {
		e.bell = true
		return OutcomeContinue
	}
	e.search = &historySearch{index: len(e.history.texts), before: textState{slices.Clone(e.text), e.cursor}}
	return OutcomeContinue
}

// handleSearchKey handles a key during a search. It reports false if the key ends the search and
// still has its own effect.
func (e *Editor) handleSearchKey(k keys.Key) bool {
	s := e.search
	switch {
	case k.Name == "C-r":
		e.findText(s.index-1, -1)
	case k.Name == "C-s":
		e.findText(s.index+1, 1)
	case k.Name == "C-g":
		e.text, e.cursor, e.search = s.before.text, s.before.cursor, nil
	case k.Name == "Esc":
		e.search = nil
	case k.Name == "Backspace":
		if r := []rune(s.query); len(r) > 0 {
			s.query = string(r[:len(r)-1])
		}
		e.findText(len(e.history.texts)-1, -1)
	case k.Text != "" && (k.Name == "" || k.Name == "Paste"):
		s.query += k.Text
		e.findText(min(s.index, len(e.history.texts)-1), -1)
	default:
		e.search = nil
		return false
	}
	return true
}

// findText searches for the query from index on. A query without capitals ignores case.
func (e *Editor) findText(index, step int) {
	s := e.search
	fold := func(t string) string { return t }
	if s.query == strings.ToLower(s.query) {
		fold = strings.ToLower
	}
	for i := index; s.query != "" && i >= 0 && i < len(e.history.texts); i += step {
		text := e.history.texts[i]
		at := strings.Index(fold(text), s.query)
		if at < 0 || len(fold(text)) != len(text) && !strings.Contains(text, s.query) {
			continue
		}
		e.saveUndo()
		e.text = []rune(text)
		e.cursor = len([]rune(text[:at]))
		e.historyWalk = historyWalk{active: true, index: i, found: text, draft: string(s.before.text)} // Up and Down continue from here
		s.index, s.noMatch = i, false
		return
	}
	s.noMatch = s.query != ""
}

// statusLine describes the search, for the line below the text.
func (s *historySearch) statusLine() string {
	if s.noMatch {
		return "search: " + s.query + "  (not found)"
	}
	return "search: " + s.query
}
