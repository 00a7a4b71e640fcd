package timeline

import (
	"bytes"
	"encoding/json"
	"slices"
	"sort"
	"strings"
	"time"
	"unicode/utf8"
)

// A TurnSummary describes one turn in a few fields, without its output. The start-up of each
// generation has a summary, too, as turn 0. Events between two turns belong to the earlier one.
type TurnSummary struct {
	Turn       uint64        `json:"turn"`
	Generation uint64        `json:"generation,omitempty"`
	First      Seq           `json:"first"` // its first event
	Last       Seq           `json:"last"`  // its newest event
	At         time.Time     `json:"at"`    // of the first event
	Author     string        `json:"author,omitempty"`
	Code       string        `json:"code,omitempty"`       // the first non-blank line of its input, at most 160 bytes
	CodeLines  int           `json:"code_lines,omitempty"` // of its input, as far as TurnStarted has it
	Lines      int           `json:"lines,omitempty"`      // newlines in its text
	Bytes      int64         `json:"bytes,omitempty"`      // of text and images
	Displays   int           `json:"displays,omitempty"`   // images and other displays; updates count once
	Silent     bool          `json:"silent,omitempty"`     // a tool asked for it, see Event.IsUnseen
	Outcome    Outcome       `json:"outcome,omitempty"`    // "" while it runs
	Error      string        `json:"error,omitempty"`      // the name of the error that ended it
	Elapsed    time.Duration `json:"-"`                    // elapsed_ms in JSON
}

type summaryFields TurnSummary

type summaryJSON struct {
	summaryFields
	ElapsedMS int64 `json:"elapsed_ms,omitempty"`
}

// MarshalJSON writes Elapsed as whole milliseconds.
func (s TurnSummary) MarshalJSON() ([]byte, error) {
	return json.Marshal(summaryJSON{summaryFields(s), s.Elapsed.Milliseconds()})
}

// UnmarshalJSON reverses MarshalJSON.
func (s *TurnSummary) UnmarshalJSON(b []byte) error {
	var w summaryJSON
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	*s = TurnSummary(w.summaryFields)
	s.Elapsed = time.Duration(w.ElapsedMS) * time.Millisecond
	return nil
}

const (
	// maxSummaries bounds the summaries in memory, about 200 bytes each. When there are more,
	// the oldest half is dropped, and rebuilt from the events file on request.
	maxSummaries = 16 << 10

	// anchorStride is the number of summaries from one anchor to the next. To rebuild one
	// summary, that many turns are read.
	anchorStride = 128

	maxCodeBytes = 160
)

// A turnIndex has a summary of each turn, in order: the newest in memory, and for the others
// anchors that say where they begin.
type turnIndex struct {
	summaries       []TurnSummary
	anchors         []anchor
	lastDroppedTurn uint64 // the highest turn number among the dropped summaries
}

// An anchor records where every anchorStride-th dropped summary begins.
type anchor struct {
	seq  Seq
	turn uint64 // the highest turn number before it
}

// addEvent adds an event to the last summary, or begins the next one.
func (t *turnIndex) addEvent(e Event) {
	n := len(t.summaries)
	if n == 0 || !e.BetweenTurns && (t.summaries[n-1].Turn != e.Turn || t.summaries[n-1].Generation != e.Generation) {
		if n == maxSummaries {
			t.dropOldest(n / 2)
		}
		t.summaries = append(t.summaries, TurnSummary{Turn: e.Turn, Generation: e.Generation, First: e.Seq, At: e.At})
		n = len(t.summaries)
	}
	t.summaries[n-1].addEvent(e)
}

// dropOldest drops the oldest n summaries. n is a multiple of anchorStride.
func (t *turnIndex) dropOldest(n int) {
	last := t.lastDroppedTurn
	for i, s := range t.summaries[:n] {
		if i%anchorStride == 0 {
			t.anchors = append(t.anchors, anchor{s.First, last})
		}
		last = max(last, s.Turn)
	}
	t.lastDroppedTurn = last
	t.summaries = t.summaries[:copy(t.summaries, t.summaries[n:])]
}

// forgetBefore drops the anchors of lost turns, which are those before the oldest event on
// disk.
func (t *turnIndex) forgetBefore(oldest Seq) {
	if i := sort.Search(len(t.anchors), func(i int) bool { return t.anchors[i].seq > oldest }); i > 1 {
		t.anchors = slices.Clone(t.anchors[i-1:])
	}
}

func (s *TurnSummary) addEvent(e Event) {
	s.Last = e.Seq
	s.Silent = s.Silent || e.Silent
	switch b := e.Body.(type) {
	case Text:
		s.Lines += bytes.Count(b.Data, newline)
		s.Bytes += int64(len(b.Data))
	case Display:
		if !b.Update {
			s.Displays++
		}
		s.Bytes += b.TotalBytes()
	case TurnStarted:
		s.Author, s.Code, s.CodeLines = b.Author, firstLine(b.Input), countLines(b.Input)
	case TurnEnded:
		s.Outcome, s.Elapsed, s.Error = b.Outcome, b.Elapsed, truncateText(b.Name, maxCodeBytes)
	}
}

// firstLine returns the first non-blank line of code.
func firstLine(code []byte) string {
	for line := range bytes.Lines(code) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			return truncateText(string(line[:min(len(line), maxCodeBytes+utf8.UTFMax)]), maxCodeBytes)
		}
	}
	return ""
}

// truncateText returns at most n bytes of a text, without splitting a character.
func truncateText(text string, n int) string {
	if len(text) > n {
		text = text[:runeStart([]byte(text), n)]
	}
	return strings.ToValidUTF8(text, "�")
}

// countLines counts the lines of a text; the last one need not end with a newline.
func countLines(text []byte) int {
	n := bytes.Count(text, newline)
	if len(text) > 0 && text[len(text)-1] != '\n' {
		n++
	}
	return n
}

// Turns returns the summaries of the turns that have events between two cursors, in order: the
// oldest limit of them, or with backward the newest. before 0 is the end.
//
// For at least the newest 8192 turns, it reads no events. Older summaries are rebuilt from the
// events file, 128 at a time; a turn whose events are lost has none.
func (l *Log) Turns(after, before Seq, backward bool, limit int) []TurnSummary {
	l.appendPending()
	l.mu.Lock()
	if before == 0 {
		before = l.end.Seq
	}
	rows := selectSummaries(l.turnIndex.summaries, after, before, backward, limit)
	spans := l.turnIndex.spansLocked(after, before)
	l.mu.Unlock()
	if backward {
		for i := len(spans) - 1; i >= 0 && len(rows) < limit; i-- {
			made := l.readSummaries(spans[i])
			rows = append(selectSummaries(made, after, before, true, limit-len(rows)), rows...)
		}
		return l.redactSummaries(rows)
	}
	var older []TurnSummary
	for i := 0; i < len(spans) && len(older) < limit; i++ {
		made := l.readSummaries(spans[i])
		older = append(older, selectSummaries(made, after, before, false, limit-len(older))...)
	}
	return l.redactSummaries(append(older, rows[:min(len(rows), limit-len(older))]...))
}

// FirstTurnFrom returns the summary of the first turn with this number or a higher one.
func (l *Log) FirstTurnFrom(turn uint64) (TurnSummary, bool) {
	l.mu.Lock()
	found, ok := firstTurnFrom(l.turnIndex.summaries, turn)
	var spans []turnSpan
	if turn <= l.turnIndex.lastDroppedTurn {
		spans = l.turnIndex.spansLocked(l.turnIndex.seqBefore(turn), l.end.Seq)
	}
	l.mu.Unlock()
	for _, span := range spans {
		if made, ok := firstTurnFrom(l.readSummaries(span), turn); ok {
			return made, true
		}
	}
	return found, ok
}

// firstTurnFrom returns the first summary of a turn with this number or a higher one.
func firstTurnFrom(rows []TurnSummary, turn uint64) (first TurnSummary, ok bool) {
	for _, s := range slices.Backward(rows) {
		if s.Turn >= turn {
			first, ok = s, true
		} else if s.Turn > 0 {
			break
		}
	}
	return first, ok
}

// seqBefore returns a cursor before the first turn with this number or a higher one.
func (t *turnIndex) seqBefore(turn uint64) Seq {
	i := sort.Search(len(t.anchors), func(i int) bool { return t.anchors[i].turn >= turn })
	if i == 0 {
		return 0
	}
	return t.anchors[i-1].seq - 1
}

// selectSummaries returns a copy of the summaries that have events between two cursors.
func selectSummaries(rows []TurnSummary, after, before Seq, backward bool, limit int) []TurnSummary {
	from := sort.Search(len(rows), func(i int) bool { return rows[i].Last > after })
	to := sort.Search(len(rows), func(i int) bool { return rows[i].First >= before })
	if to <= from || limit <= 0 {
		return nil
	}
	rows = rows[from:to]
	if backward {
		rows = rows[max(0, len(rows)-limit):]
	}
	return slices.Clone(rows[:min(limit, len(rows))])
}

// A turnSpan is the range of the events of about anchorStride turns that the index has dropped.
type turnSpan struct{ from, to Seq }

// spansLocked returns the spans that have events between two cursors.
func (t *turnIndex) spansLocked(after, before Seq) []turnSpan {
	var spans []turnSpan
	for i, a := range t.anchors {
		end := before
		if i+1 < len(t.anchors) {
			end = t.anchors[i+1].seq
		} else if len(t.summaries) > 0 {
			end = t.summaries[0].First
		}
		if a.seq < before && end > after+1 {
			spans = append(spans, turnSpan{a.seq, end})
		}
	}
	return spans
}

// readSummaries rebuilds the summaries of a span from the events that still exist.
func (l *Log) readSummaries(s turnSpan) []TurnSummary {
	v := l.takeSnapshot(s.from-1, 0)
	v.skipUnread = true
	var o turnIndex
	for e := range v.entriesFrom(s.from) {
		if e.Seq >= s.to {
			break
		}
		if _, lost := e.Body.(Gap); !lost {
			o.addEvent(e.Event)
		}
	}
	return o.summaries
}

// redactSummaries redacts the secrets that were not known yet when the events were appended.
func (l *Log) redactSummaries(rows []TurnSummary) []TurnSummary {
	for i := range rows {
		rows[i].Code, rows[i].Error = l.Redact(rows[i].Code), l.Redact(rows[i].Error)
	}
	return rows
}
