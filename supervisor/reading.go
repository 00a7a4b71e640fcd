package supervisor

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// limitOrDefault returns n, or byDefault if n is 0, or an error if n is out of bounds.
func limitOrDefault[N int | int64](name string, n, byDefault, most N) (N, error) {
	if n < 0 || n > most {
		return 0, session.Errorf(session.KindInvalid, "%s is %d: use 1 to %d", name, n, most)
	}
	if n == 0 {
		return byDefault, nil
	}
	return n, nil
}

// Read implements session.Session.
func (s *Session) Read(_ context.Context, q session.ReadQuery) (session.EventPage, error) {
	defer s.beginUse()()
	span := timeline.ReadRange{After: q.After, Before: q.Before, Backward: q.Backward || q.Before > 0 && q.After == 0}
	var err error
	if span.MaxEvents, err = limitOrDefault("limit", q.Limit, session.DefaultReadEvents, session.MaxReadEvents); err != nil {
		return session.EventPage{}, err
	}
	if span.MaxBytes, err = limitOrDefault("bytes", q.Bytes, session.MaxReadBytes, session.MaxReadBytes); err != nil {
		return session.EventPage{}, err
	}
	inline, err := limitOrDefault("blobs", q.InlineBytes, session.DefaultInlineBytes, session.MaxInlineBytes)
	if err != nil {
		return session.EventPage{}, err
	}
	span.MaxTypeBytes = int64(max(inline, session.DefaultInlineBytes)) // smaller data has no digest
	p := session.EventPage{Events: []timeline.Event{}, End: s.log.LastSeq()}
	if q.Turn > 0 {
		turn, ok := s.log.FirstTurnFrom(q.Turn)
		if !ok || turn.Turn != q.Turn {
			return p, session.Errorf(session.KindStale, "turn %d is not in the log: it has not started, or its events were dropped", q.Turn)
		}
		span.After = max(span.After, turn.First-1)
		if span.Before == 0 || span.Before > turn.Last {
			span.Before = turn.Last + 1
		}
	}
	if events := s.log.Read(span); len(events) > 0 {
		p.Events = events
		p.First, p.Last = firstSeq(events[0]), events[len(events)-1].Seq
		p.End = max(p.End, p.Last)
		p.HasEarlier = p.First > span.After+1
		p.HasLater = p.Last < p.End && (span.Before == 0 || p.Last+1 < span.Before)
	}
	return p, nil
}

// Blob implements session.Session.
func (s *Session) Blob(_ context.Context, digest string, offset int64, limit int) (session.BlobPart, error) {
	defer s.beginUse()()
	limit, err := limitOrDefault("limit", limit, session.MaxPartBytes, session.MaxPartBytes)
	if err != nil {
		return session.BlobPart{}, err
	}
	if offset < 0 {
		return session.BlobPart{}, session.Errorf(session.KindInvalid, "offset is %d: use 0 or more", offset)
	}
	data, size, err := s.log.Blob(digest, offset, limit)
	switch {
	case errors.Is(err, timeline.ErrNoBlob):
		return session.BlobPart{}, &session.Error{Kind: session.KindNoBlob, Cause: err, Message: fmt.Sprintf("session %q has no data with the digest %s; it may have been dropped", s.Name(), digest)}
	case err != nil:
		return session.BlobPart{}, &session.Error{Kind: session.KindInvalid, Cause: err, Message: err.Error()}
	}
	return session.BlobPart{Data: data, Offset: offset, Bytes: size}, nil
}

// Search implements session.Session.
func (s *Session) Search(_ context.Context, q session.SearchQuery) (session.SearchResult, error) {
	defer s.beginUse()()
	limit, err := limitOrDefault("limit", q.Limit, session.DefaultSearchMatches, session.MaxSearchMatches)
	if err != nil {
		return session.SearchResult{}, err
	}
	from, err := parseCursor(q.From)
	if err != nil {
		return session.SearchResult{}, err
	}
	if (q.Text == "") == (q.Regexp == "") {
		return session.SearchResult{}, session.Errorf(session.KindInvalid, "give either text or regexp")
	}
	find, name, what := timeline.LiteralPattern, "text", q.Text
	if q.Regexp != "" {
		find, name, what = timeline.RegexpPattern, "regexp", q.Regexp
	}
	pattern, err := find(what)
	if err != nil {
		return session.SearchResult{}, session.Errorf(session.KindInvalid, "%s: %v", name, err)
	}
	found, next, done := s.log.Search(pattern, from, limit)
	result := session.SearchResult{Matches: append([]timeline.Match{}, found...)}
	if !done {
		result.Next = formatCursor(next)
	}
	return result, nil
}

// formatCursor encodes a search cursor as text. Callers pass the text back unchanged.
func formatCursor(c timeline.Cursor) string {
	awaitsInput := ""
	if c.AwaitsInput {
		awaitsInput = "?"
	}
	return fmt.Sprintf("%d.%d%s", c.Seq, c.Lines, awaitsInput)
}

func parseCursor(text string) (c timeline.Cursor, err error) {
	if text == "" {
		return c, nil
	}
	rest, awaitsInput := strings.CutSuffix(text, "?")
	seq, lines, ok := strings.Cut(rest, ".")
	n, err1 := strconv.ParseUint(seq, 10, 63)
	k, err2 := strconv.ParseUint(lines, 10, 31)
	if !ok || err1 != nil || err2 != nil {
		return c, session.Errorf(session.KindInvalid, "from is %.80q: use a value of next, or leave it out", text)
	}
	return timeline.Cursor{Seq: timeline.Seq(n), Lines: int(k), AwaitsInput: awaitsInput}, nil
}

// firstSeq returns the Seq of an event, or the first Seq that a gap replaces.
func firstSeq(e timeline.Event) timeline.Seq {
	if g, ok := e.Body.(timeline.Gap); ok {
		return g.From
	}
	return e.Seq
}

// TurnSummaries implements session.Session.
func (s *Session) TurnSummaries(_ context.Context, q session.TurnSummariesQuery) (session.TurnSummaries, error) {
	defer s.beginUse()()
	limit, err := limitOrDefault("limit", q.Limit, session.DefaultSummaries, session.MaxSummaries)
	if err != nil {
		return session.TurnSummaries{}, err
	}
	o := session.TurnSummaries{Turns: []timeline.TurnSummary{}, End: s.log.LastSeq()}
	backward := q.Backward || q.Before > 0 && q.After == 0
	if q.From > 0 {
		first, ok := s.log.FirstTurnFrom(q.From)
		if !ok {
			return o, nil
		}
		q.After = max(q.After, first.First-1)
	}
	turns := s.log.Turns(q.After, q.Before, backward, limit+1)
	if more := len(turns) > limit; more && backward {
		o.HasEarlier, turns = true, turns[1:]
	} else if more {
		o.HasLater, turns = true, turns[:limit]
	}
	o.Turns = append(o.Turns, turns...)
	return o, nil
}

// Tick returns the present state of the session. One of the channels is closed once the state
// changes. event is nil if the session is closed.
func (s *Session) Tick() (now session.Tick, event, state <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now = session.Tick{
		Session: s.Name(), State: s.m.phase.state(), Generation: s.m.generation, Turn: s.m.lastTurn, LastSeq: s.log.LastSeq(),
	}
	if s.m.turn != nil {
		now.Turn = s.m.turn.id
	}
	if s.m.phase == phaseWaiting {
		w := s.m.shownRequest.InputRequest
		now.InputRequest = &w
	}
	now.Listener = s.m.currentListener()
	event = s.log.NotifyAfter(now.LastSeq)
	now.Closed = event == nil
	return now, event, s.changedLocked()
}
