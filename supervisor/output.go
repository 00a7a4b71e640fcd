package supervisor

import (
	"context"
	"errors"
	"regexp"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// Output implements session.Session.
func (s *Session) Output(_ context.Context, q session.OutputQuery) (session.Output, error) {
	defer s.beginUse()()
	s.log.Sync()
	out := session.Output{Lines: []timeline.Line{}, Total: s.log.LineCount()}
	switch {
	case q.Grep != "":
		re, err := regexp.Compile(q.Grep)
		if err != nil {
			return out, session.Errorf(session.KindInvalid, "grep: %v", err)
		}
		if q.Max == 0 {
			q.Max = session.DefaultMatches
		}
		if q.Max < 0 || q.Max > session.MaxMatches {
			return out, session.Errorf(session.KindInvalid, "max is %d: use 1 to %d", q.Max, session.MaxMatches)
		}
		lines, err := s.log.Grep(re, q.Max)
		out.Lines = append(out.Lines, lines...)
		return out, noOutput(err)
	case q.From == 0 && q.To == 0:
		return out, nil
	case q.From < 1 || q.To < q.From:
		return out, session.Errorf(session.KindInvalid, "lines %d to %d: the range must satisfy 1 <= from <= to", q.From, q.To)
	}
	lines, err := s.log.Lines(q.From, q.To)
	for i, text := range lines {
		out.Lines = append(out.Lines, timeline.Line{Number: q.From + i, Text: text})
	}
	return out, noOutput(err)
}

// noOutput gives the timeline's error its kind.
func noOutput(err error) error {
	if errors.Is(err, timeline.ErrNoOutput) {
		return &session.Error{Kind: session.KindNoOutput, Message: err.Error(), Cause: err}
	}
	return err
}
