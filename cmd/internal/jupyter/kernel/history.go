package kernel

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// Bounds of the history.
const (
	maxHistory       = 1000     // inputs
	maxHistoryOutput = 64 << 10 // bytes of the value of one
)

// An executionHistory lists the inputs of the session, including those from before this kernel. It
// is read at the first request, and updated at each later one.
type executionHistory struct {
	mu       sync.Mutex
	session  *attachedSession
	nextTurn uint64 // the first turn that was not read yet
	inputs   []historyInput
}

// A historyInput describes a turn in the history. Its session number is the generation of the worker,
// because each worker has its own variables.
type historyInput struct {
	session   uint64
	line      uint64 // the execution count, as the notebook shows it
	turn      uint64
	code      string // "" until it is read
	firstLine string
	first     timeline.Seq // first event
	last      timeline.Seq // last event
}

// A historyQuery is the content of a history request.
type historyQuery struct {
	Output  bool   `json:"output"`
	Access  string `json:"hist_access_type"`
	Session int64  `json:"session"`
	Start   int64  `json:"start"`
	Stop    *int64 `json:"stop"`
	N       *int   `json:"n"`
	Pattern string `json:"pattern"`
	Unique  bool   `json:"unique"`
}

// listInputs returns the inputs so far, oldest first.
func (h *executionHistory) listInputs(ctx context.Context, l *attachedSession) []historyInput {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.session != l {
		h.session, h.nextTurn, h.inputs = l, 1, nil
	}
	summaries, err := l.session.TurnSummaries(ctx, session.TurnSummariesQuery{From: h.nextTurn, Backward: true, Limit: session.MaxSummaries}) // every turn counts for the line numbers
	if err != nil {
		return slices.Clone(h.inputs)
	}
	for _, t := range summaries.Turns {
		if t.Turn < h.nextTurn {
			continue
		}
		h.nextTurn = t.Turn + 1
		if t.Silent || t.Turn == 0 || l.isHidden(t.Turn) {
			continue
		}
		line := uint64(1)
		if n := len(h.inputs); n > 0 && h.inputs[n-1].session == t.Generation {
			line = h.inputs[n-1].line + 1
		}
		h.inputs = append(h.inputs, historyInput{session: t.Generation, line: line, turn: t.Turn, firstLine: t.Code, first: t.First, last: t.Last})
	}
	if more := len(h.inputs) - maxHistory; more > 0 {
		h.inputs = h.inputs[more:]
	}
	for i := range h.inputs {
		if at := &h.inputs[i]; at.code == "" {
			at.code = inputCode(ctx, l, at)
		}
	}
	return slices.Clone(h.inputs)
}

// inputCode returns the whole code of an input, of which a turn summary has only the first line.
func inputCode(ctx context.Context, l *attachedSession, i *historyInput) string {
	page, err := l.session.Read(ctx, session.ReadQuery{After: i.first - 1, Before: i.last + 1, Limit: 1})
	if err == nil && len(page.Events) == 1 {
		if started, ok := page.Events[0].Body.(timeline.TurnStarted); ok {
			return string(started.Input)
		}
	}
	return i.firstLine
}

// valueText returns the echo of the value of a turn, or "" if the echo is not among the last events
// of the turn.
func (i *historyInput) valueText(ctx context.Context, l *attachedSession) string {
	page, err := l.session.Read(ctx, session.ReadQuery{After: i.first, Before: i.last + 1, Backward: true, Limit: 20, Bytes: maxHistoryOutput})
	if err != nil {
		return ""
	}
	var echo []byte
	for _, e := range page.Events {
		if text, ok := e.Body.(timeline.Text); ok && text.Kind == timeline.TextResult && e.Turn == i.turn {
			echo = append(echo, text.Data...)
		}
	}
	return strings.TrimSuffix(string(echo), "\n")
}

// historyEntries returns the entries that a query asks for, oldest first. value returns the output of a
// turn.
func (q *historyQuery) historyEntries(all []historyInput, value func(historyInput) string) []any {
	switch q.Access {
	case "range":
		all = q.sessionInputs(all)
	case "search":
		all = q.matchingInputs(all)
	}
	if q.N != nil && q.Access != "range" && len(all) > *q.N {
		all = all[len(all)-max(0, *q.N):]
	}
	entries := make([]any, 0, len(all))
	for _, i := range all {
		var entry any = i.code
		if q.Output {
			entry = []any{i.code, orNull(value(i))}
		}
		entries = append(entries, []any{i.session, i.line, entry})
	}
	return entries
}

func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// sessionInputs returns the inputs of one session: 0 is the last session, and -1 the one before it.
func (q *historyQuery) sessionInputs(all []historyInput) []historyInput {
	var sessions []uint64
	for _, i := range all {
		if !slices.Contains(sessions, i.session) {
			sessions = append(sessions, i.session)
		}
	}
	want := q.Session
	if want <= 0 {
		at := len(sessions) - 1 + int(max(want, -maxHistory-1))
		if at < 0 {
			return nil
		}
		want = int64(sessions[at])
	}
	var found []historyInput
	for _, i := range all {
		line := int64(i.line)
		if int64(i.session) == want && line >= q.Start && (q.Stop == nil || line < *q.Stop) {
			found = append(found, i)
		}
	}
	return found
}

// matchingInputs returns the inputs that match the pattern, in which * matches any text and ? any
// character. If q.Unique is set, only the last of equal inputs is returned.
func (q *historyQuery) matchingInputs(all []historyInput) []historyInput {
	pattern := q.patternRegexp()
	var found []historyInput
	for _, i := range all {
		if pattern.MatchString(i.code) {
			found = append(found, i)
		}
	}
	if !q.Unique {
		return found
	}
	seen := make(map[string]bool)
	var last []historyInput
	for _, i := range slices.Backward(found) {
		if !seen[i.code] {
			seen[i.code] = true
			last = append(last, i)
		}
	}
	slices.Reverse(last)
	return last
}

func (q *historyQuery) patternRegexp() *regexp.Regexp {
	pattern := q.Pattern
	if pattern == "" {
		pattern = "*"
	}
	quoted := regexp.QuoteMeta(pattern)
	quoted = strings.NewReplacer(`\*`, `.*`, `\?`, `.`).Replace(quoted)
	return regexp.MustCompile(`(?s)^` + quoted + `$`)
}
