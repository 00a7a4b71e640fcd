package edit

import (
	"slices"
	"strings"
)

// maxHistory bounds a history, in bytes. The newest text is always kept.
const maxHistory = 32 << 20

// A History has texts, the oldest first, each once.
type History struct {
	texts []string
	limit int
}

// NewHistory returns a history of the last limit of texts. Of equal ones it keeps the newest.
func NewHistory(limit int, texts ...string) *History {
	h := &History{limit: limit}
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
	h.texts = h.texts[max(0, len(h.texts)-h.limit):]
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

// A recall is a walk through the history. It goes on as long as the text is what it found.
type recall struct {
	on     bool
	found  string
	index  int
	prefix string // of all texts that it finds
	draft  string // what was typed before
}

// older puts the last text into the editor that begins with what was typed.
func (e *Editor) older() Outcome { return e.walk(-1) }

// newer goes back, at last to what was typed.
func (e *Editor) newer() Outcome { return e.walk(1) }

func (e *Editor) walk(step int) Outcome {
	if e.history == nil {
		e.bell = true
		return Continues
	}
	r := &e.recall
	if !r.on || r.found != string(e.text) {
		*r = recall{on: true, index: len(e.history.texts), prefix: string(e.text[:e.at]), draft: string(e.text)}
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
		e.save()
		e.text = []rune(text)
		e.at, e.goal = len(e.text), -1
		r.index, r.found = i, text
		return Continues
	}
	r.found = string(e.text)
	e.bell = true
	return Continues
}

// A search looks for a text of the history that has what is typed.
type search struct {
	query  string
	index  int
	fails  bool
	before state
}

// searchBack begins a search.
func (e *Editor) searchBack() Outcome {
	if e.history == nil {
		e.bell = true
		return Continues
	}
	e.search = &search{index: len(e.history.texts), before: state{slices.Clone(e.text), e.at}}
	return Continues
}

// inSearch handles a key during a search, and reports false when the key ends it and has
// its own effect.
func (e *Editor) inSearch(k Key) bool {
	s := e.search
	switch {
	case k.Name == "C-r":
		e.find(s.index-1, -1)
	case k.Name == "C-s":
		e.find(s.index+1, 1)
	case k.Name == "C-g":
		e.text, e.at, e.search = s.before.text, s.before.at, nil
	case k.Name == "Esc":
		e.search = nil
	case k.Name == "Backspace":
		if r := []rune(s.query); len(r) > 0 {
			s.query = string(r[:len(r)-1])
		}
		e.find(len(e.history.texts)-1, -1)
	case k.Text != "" && (k.Name == "" || k.Name == "Paste"):
		s.query += k.Text
		e.find(min(s.index, len(e.history.texts)-1), -1)
	default:
		e.search = nil
		return false
	}
	return true
}

// find looks for the query from index on. In a query without capitals they do not matter.
func (e *Editor) find(index, step int) {
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
		e.save()
		e.text = []rune(text)
		e.at = len([]rune(text[:at]))
		e.recall = recall{on: true, index: i, found: text, draft: string(s.before.text)} // goes on from here
		s.index, s.fails = i, false
		return
	}
	s.fails = s.query != ""
}

// status describes the search, for the line below the text.
func (s *search) status() string {
	if s.fails {
		return "search: " + s.query + "  (not found)"
	}
	return "search: " + s.query
}
