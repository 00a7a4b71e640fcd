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

// bounded returns n, or the default if it is 0, and an error if it is out of bounds.
func bounded[N int | int64](name string, n, byDefault, most N) (N, error) {
	if n < 0 || n > most {
		return 0, session.Errorf(session.KindInvalid, "%s is %d: use 1 to %d", name, n, most)
	}
	if n == 0 {
		return byDefault, nil
	}
	return n, nil
}

// Read implements session.Session.
func (s *Session) Read(_ context.Context, q session.ReadQuery) (session.Page, error) {
	span := timeline.Span{After: q.After, Before: q.Before, Backward: q.Backward || q.Before > 0 && q.After == 0}
	var err error
	if span.Limit, err = bounded("limit", q.Limit, session.DefaultReadEvents, session.MaxReadEvents); err != nil {
		return session.Page{}, err
	}
	if span.Bytes, err = bounded("bytes", q.Bytes, session.MaxReadBytes, session.MaxReadBytes); err != nil {
		return session.Page{}, err
	}
	inline, err := bounded("blobs", q.Blobs, session.DefaultInlineBytes, session.MaxInlineBytes)
	if err != nil {
		return session.Page{}, err
	}
	span.Part = int64(max(inline, session.DefaultInlineBytes)) // smaller data has no digest
	p := session.Page{Events: []timeline.Event{}, End: s.log.Last()}
	if q.Turn > 0 {
		turn, ok := s.log.TurnFrom(q.Turn)
		if !ok || turn.Turn != q.Turn {
			return p, session.Errorf(session.KindStale, "turn %d is not in the timeline: its events are lost, or it has not begun", q.Turn)
		}
		span.After = max(span.After, turn.First-1)
		if span.Before == 0 || span.Before > turn.Last {
			span.Before = turn.Last + 1
		}
	}
	if events := s.log.Read(span); len(events) > 0 {
		p.Events = events
		p.First, p.Last = firstOf(events[0]), events[len(events)-1].Seq
		p.End = max(p.End, p.Last)
		p.Earlier = p.First > span.After+1
		p.Later = p.Last < p.End && (span.Before == 0 || p.Last+1 < span.Before)
	}
	return p, nil
}

// Blob implements session.Session.
func (s *Session) Blob(_ context.Context, digest string, offset int64, limit int) (session.Piece, error) {
	limit, err := bounded("limit", limit, session.MaxPieceBytes, session.MaxPieceBytes)
	if err != nil {
		return session.Piece{}, err
	}
	if offset < 0 {
		return session.Piece{}, session.Errorf(session.KindInvalid, "offset is %d: use 0 or more", offset)
	}
	data, size, err := s.log.Blob(digest, offset, limit)
	switch {
	case errors.Is(err, timeline.ErrNoBlob):
		return session.Piece{}, &session.Error{Kind: session.KindNoBlob, Cause: err, Message: fmt.Sprintf("no event of session %q has data with the digest %s, or not any more", s.Name(), digest)}
	case err != nil:
		return session.Piece{}, &session.Error{Kind: session.KindInvalid, Cause: err, Message: err.Error()}
	}
	return session.Piece{Data: data, Offset: offset, Bytes: size}, nil
}

// Search implements session.Session.
func (s *Session) Search(_ context.Context, q session.SearchQuery) (session.Found, error) {
	limit, err := bounded("limit", q.Limit, session.DefaultFound, session.MaxFound)
	if err != nil {
		return session.Found{}, err
	}
	from, err := parseCursor(q.From)
	if err != nil {
		return session.Found{}, err
	}
	if (q.Text == "") == (q.Regexp == "") {
		return session.Found{}, session.Errorf(session.KindInvalid, "give one of text and regexp")
	}
	find, name, what := timeline.Literal, "text", q.Text
	if q.Regexp != "" {
		find, name, what = timeline.Expression, "regexp", q.Regexp
	}
	pattern, err := find(what)
	if err != nil {
		return session.Found{}, session.Errorf(session.KindInvalid, "%s: %v", name, err)
	}
	found, next, over := s.log.Search(pattern, from, limit)
	f := session.Found{Matches: append([]timeline.Match{}, found...)}
	if !over {
		f.Next = cursorText(next)
	}
	return f, nil
}

// cursorText writes a cursor of a search for callers, who give it back as it is.
func cursorText(c timeline.Cursor) string {
	asked := ""
	if c.Asked {
		asked = "?"
	}
	return fmt.Sprintf("%d.%d%s", c.Seq, c.Lines, asked)
}

func parseCursor(text string) (c timeline.Cursor, err error) {
	if text == "" {
		return c, nil
	}
	rest, asked := strings.CutSuffix(text, "?")
	seq, lines, ok := strings.Cut(rest, ".")
	n, err1 := strconv.ParseUint(seq, 10, 63)
	k, err2 := strconv.ParseUint(lines, 10, 31)
	if !ok || err1 != nil || err2 != nil {
		return c, session.Errorf(session.KindInvalid, "from is %.80q: use what next was, or leave it out", text)
	}
	return timeline.Cursor{Seq: timeline.Seq(n), Lines: int(k), Asked: asked}, nil
}

// firstOf returns the Seq of an event, or of the first that a gap stands for.
func firstOf(e timeline.Event) timeline.Seq {
	if g, ok := e.Body.(timeline.Gap); ok {
		return g.From
	}
	return e.Seq
}

// Outline implements session.Session.
func (s *Session) Outline(_ context.Context, q session.OutlineQuery) (session.Outline, error) {
	limit, err := bounded("limit", q.Limit, session.DefaultOutlineTurns, session.MaxOutlineTurns)
	if err != nil {
		return session.Outline{}, err
	}
	o := session.Outline{Turns: []timeline.Summary{}, End: s.log.Last()}
	backward := q.Backward || q.Before > 0 && q.After == 0
	if q.From > 0 {
		first, ok := s.log.TurnFrom(q.From)
		if !ok {
			return o, nil
		}
		q.After = max(q.After, first.First-1)
	}
	turns := s.log.Turns(q.After, q.Before, backward, limit+1)
	if more := len(turns) > limit; more && backward {
		o.Earlier, turns = true, turns[1:]
	} else if more {
		o.Later, turns = true, turns[:limit]
	}
	o.Turns = append(o.Turns, turns...)
	return o, nil
}

// Tick says how the session is now. One of the channels is closed once that has changed; event
// is nil when the session was closed for good.
func (s *Session) Tick() (now session.Tick, event, state <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now = session.Tick{
		Session: s.Name(), State: s.m.phase.state(), Generation: s.m.generation, Turn: s.m.lastTurn, LastSeq: s.log.Last(),
	}
	if s.m.turn != nil {
		now.Turn = s.m.turn.id
	}
	if s.m.phase == phaseWaiting {
		w := s.m.shown.Wait
		now.Wait = &w
	}
	event = s.log.Behind(now.LastSeq)
	now.Closed = event == nil
	return now, event, s.changedLocked()
}
