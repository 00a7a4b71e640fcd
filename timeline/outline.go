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

// A Summary says in short what a turn was. The start-up of each generation has one, too, as
// turn 0. Events between two turns belong to the one before.
type Summary struct {
	Turn       uint64        `json:"turn"`
	Generation uint64        `json:"generation,omitempty"`
	First      Seq           `json:"first"` // its first event
	Last       Seq           `json:"last"`  // its newest event
	At         time.Time     `json:"at"`    // of the first event
	Author     string        `json:"author,omitempty"`
	Code       string        `json:"code,omitempty"`       // the first line of its input that is not blank, at most 160 bytes
	CodeLines  int           `json:"code_lines,omitempty"` // of its input, as far as TurnStarted has it
	Lines      int           `json:"lines,omitempty"`      // newlines in its text
	Bytes      int64         `json:"bytes,omitempty"`      // of text and pictures
	Displays   int           `json:"displays,omitempty"`   // pictures and other results that are shown; updates count once
	Silent     bool          `json:"silent,omitempty"`     // a tool asked for it, see Event.Unseen
	Outcome    Outcome       `json:"outcome,omitempty"`    // "" while it runs
	Error      string        `json:"error,omitempty"`      // the name of the error that ended it
	Elapsed    time.Duration `json:"-"`                    // elapsed_ms in JSON
}

type plainSummary Summary

type wireSummary struct {
	plainSummary
	ElapsedMS int64 `json:"elapsed_ms,omitempty"`
}

// MarshalJSON writes Elapsed as whole milliseconds.
func (s Summary) MarshalJSON() ([]byte, error) {
	return json.Marshal(wireSummary{plainSummary(s), s.Elapsed.Milliseconds()})
}

// UnmarshalJSON reverses MarshalJSON.
func (s *Summary) UnmarshalJSON(b []byte) error {
	var w wireSummary
	if err := json.Unmarshal(b, &w); err != nil {
		return err
	}
	*s = Summary(w.plainSummary)
	s.Elapsed = time.Duration(w.ElapsedMS) * time.Millisecond
	return nil
}

const (
	// maxSummaries bounds the summaries in memory, about 200 bytes each. When there are more,
	// the oldest half leaves, and is made again from the events file when it is asked for.
	maxSummaries = 16 << 10

	// anchorStride is how many summaries there are from one anchor to the next. Their turns
	// are read to make one of them again.
	anchorStride = 128

	maxCodeBytes = 160
)

// An outline has a summary of each turn, in order: the newest in memory, and of the others
// the places where they begin.
type outline struct {
	rows    []Summary
	anchors []anchor
	dropped uint64 // the highest number among them
}

// An anchor is where every anchorStride-th of the summaries that have left memory begins.
type anchor struct {
	seq  Seq
	turn uint64 // the highest number before it
}

// add adds an event to the last summary, or begins the next.
func (o *outline) add(e Event) {
	n := len(o.rows)
	if n == 0 || !e.Between && (o.rows[n-1].Turn != e.Turn || o.rows[n-1].Generation != e.Generation) {
		if n == maxSummaries {
			o.drop(n / 2)
		}
		o.rows = append(o.rows, Summary{Turn: e.Turn, Generation: e.Generation, First: e.Seq, At: e.At})
		n = len(o.rows)
	}
	o.rows[n-1].add(e)
}

// drop forgets the oldest n summaries. n is a multiple of anchorStride.
func (o *outline) drop(n int) {
	last := o.dropped
	for i, s := range o.rows[:n] {
		if i%anchorStride == 0 {
			o.anchors = append(o.anchors, anchor{s.First, last})
		}
		last = max(last, s.Turn)
	}
	o.dropped = last
	o.rows = o.rows[:copy(o.rows, o.rows[n:])]
}

// forget drops the anchors of turns that are lost: those before the oldest event on disk.
func (o *outline) forget(oldest Seq) {
	if i := sort.Search(len(o.anchors), func(i int) bool { return o.anchors[i].seq > oldest }); i > 1 {
		o.anchors = slices.Clone(o.anchors[i-1:])
	}
}

func (s *Summary) add(e Event) {
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
		s.Bytes += b.Bytes()
	case TurnStarted:
		s.Author, s.Code, s.CodeLines = b.Author, firstLine(b.Input), countLines(b.Input)
	case TurnEnded:
		s.Outcome, s.Elapsed, s.Error = b.Outcome, b.Elapsed, cutText(b.Name, maxCodeBytes)
	}
}

// firstLine returns the first line of code that is not blank.
func firstLine(code []byte) string {
	for line := range bytes.Lines(code) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			return cutText(string(line[:min(len(line), maxCodeBytes+utf8.UTFMax)]), maxCodeBytes)
		}
	}
	return ""
}

// cutText returns at most n bytes of a text, whole characters only.
func cutText(text string, n int) string {
	if len(text) > n {
		text = text[:runeStart([]byte(text), n)]
	}
	return strings.ToValidUTF8(text, "�")
}

// countLines counts the lines of a text, the last with or without a newline.
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
// For the newest 8192 turns at least it reads no events. Older ones are made from the events
// file again, 128 at a time; a turn whose events are lost has none.
func (l *Log) Turns(after, before Seq, backward bool, limit int) []Summary {
	l.peek()
	l.mu.Lock()
	if before == 0 {
		before = l.end.seq
	}
	rows := selectSummaries(l.outline.rows, after, before, backward, limit)
	spans := l.outline.spansLocked(after, before)
	l.mu.Unlock()
	if backward {
		for i := len(spans) - 1; i >= 0 && len(rows) < limit; i-- {
			made := l.summarize(spans[i])
			rows = append(selectSummaries(made, after, before, true, limit-len(rows)), rows...)
		}
		return l.hidden(rows)
	}
	var older []Summary
	for i := 0; i < len(spans) && len(older) < limit; i++ {
		made := l.summarize(spans[i])
		older = append(older, selectSummaries(made, after, before, false, limit-len(older))...)
	}
	return l.hidden(append(older, rows[:min(len(rows), limit-len(older))]...))
}

// TurnFrom returns the summary of the first turn with this number or a higher one.
func (l *Log) TurnFrom(turn uint64) (Summary, bool) {
	l.mu.Lock()
	found, ok := firstFrom(l.outline.rows, turn)
	var spans []turnSpan
	if turn <= l.outline.dropped {
		spans = l.outline.spansLocked(l.outline.seqBefore(turn), l.end.seq)
	}
	l.mu.Unlock()
	for _, span := range spans {
		if made, ok := firstFrom(l.summarize(span), turn); ok {
			return made, true
		}
	}
	return found, ok
}

// firstFrom returns the first summary of a turn with this number or a higher one.
func firstFrom(rows []Summary, turn uint64) (first Summary, ok bool) {
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
func (o *outline) seqBefore(turn uint64) Seq {
	i := sort.Search(len(o.anchors), func(i int) bool { return o.anchors[i].turn >= turn })
	if i == 0 {
		return 0
	}
	return o.anchors[i-1].seq - 1
}

// selectSummaries returns a copy of those that have events between two cursors.
func selectSummaries(rows []Summary, after, before Seq, backward bool, limit int) []Summary {
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

// A turnSpan is the events of about anchorStride turns that have left an outline.
type turnSpan struct{ from, to Seq }

// spansLocked returns the spans that have events between two cursors.
func (o *outline) spansLocked(after, before Seq) []turnSpan {
	var spans []turnSpan
	for i, a := range o.anchors {
		end := before
		if i+1 < len(o.anchors) {
			end = o.anchors[i+1].seq
		} else if len(o.rows) > 0 {
			end = o.rows[0].First
		}
		if a.seq < before && end > after+1 {
			spans = append(spans, turnSpan{a.seq, end})
		}
	}
	return spans
}

// summarize makes the summaries of a span from its events, as far as there are any.
func (l *Log) summarize(s turnSpan) []Summary {
	v := l.view(s.from-1, 0)
	v.apart = true
	var o outline
	for e := range v.walk(s.from) {
		if e.Seq >= s.to {
			break
		}
		if _, lost := e.Body.(Gap); !lost {
			o.add(e.Event)
		}
	}
	return o.rows
}

// hidden hides the secrets that were not known yet when the events were appended.
func (l *Log) hidden(rows []Summary) []Summary {
	for i := range rows {
		rows[i].Code, rows[i].Error = l.Hidden(rows[i].Code), l.Hidden(rows[i].Error)
	}
	return rows
}
