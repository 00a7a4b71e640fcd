package conformance

import (
	"fmt"

	"github.com/turnstone-repl/turnstone/ipc"
)

func queryCompletes(s *workerSession) error {
	if s.Word == "" {
		return skipError("the dialect has no name to complete")
	}
	if err := s.ensureIdle(); err != nil {
		return err
	}
	if !s.ready.Capabilities.Query {
		return skipError("the worker does not offer queries")
	}
	if err := s.conn.Send(ipc.Query{ID: 41, Kind: ipc.QueryComplete, Text: s.Word, Cursor: uint64(len(s.Word))}); err != nil {
		return err
	}
	got, err := expectFrame[ipc.QueryResult](s)
	if err != nil {
		return err
	}
	if got.ID != 41 || got.Status != ipc.StatusOK || got.Start > uint64(len(s.Word)) {
		return fmt.Errorf("got %s, want the answer to query 41", describeMessage(got))
	}
	for _, m := range got.Matches {
		if s.Word[:got.Start]+m == s.Match {
			return nil
		}
	}
	return fmt.Errorf("got %s for %q, want %q among the matches", describeMessage(got), s.Word, s.Match)
}

func queryParses(s *workerSession) error {
	if s.Whole == "" {
		return skipError("the dialect has no complete and incomplete inputs")
	}
	if err := s.ensureIdle(); err != nil {
		return err
	}
	if !s.ready.Capabilities.Query {
		return skipError("the worker does not offer queries")
	}
	for i, c := range []struct {
		text string
		want ipc.QueryStatus
	}{
		{s.Whole, ipc.StatusComplete}, {s.Partial, ipc.StatusIncomplete}, {s.Broken, ipc.StatusInvalid},
	} {
		if c.text == "" {
			continue
		}
		id := uint64(i) + 1
		if err := s.conn.Send(ipc.Query{ID: id, Kind: ipc.QueryParse, Text: c.text}); err != nil {
			return err
		}
		got, err := expectFrame[ipc.QueryResult](s)
		if err != nil {
			return err
		}
		if got.ID != id || got.Status != c.want {
			return fmt.Errorf("got %s for %q, want %s", describeMessage(got), c.text, c.want)
		}
	}
	return nil
}

func queryVariables(s *workerSession) error {
	if s.Define == "" {
		return skipError("the dialect has no code that defines a variable")
	}
	if err := s.ensureIdle(); err != nil {
		return err
	}
	if !s.ready.Capabilities.Variables {
		return skipError("the worker does not offer variables")
	}
	if r, err := s.runTurn(s.Define); err != nil {
		return err
	} else if r.idle.Outcome != ipc.OutcomeOK {
		return fmt.Errorf("got %s for %q", describeMessage(r.idle), s.Define)
	}
	if err := s.conn.Send(ipc.Query{ID: 43, Kind: ipc.QueryVariables}); err != nil {
		return err
	}
	got, err := expectFrame[ipc.QueryResult](s)
	if err != nil {
		return err
	}
	if got.ID != 43 || got.Status != ipc.StatusOK {
		return fmt.Errorf("got %s, want the answer to query 43", describeMessage(got))
	}
	for _, v := range got.Variables {
		if v.Name == s.Variable {
			return nil
		}
	}
	return fmt.Errorf("got %s, want %q among the variables", describeMessage(got), s.Variable)
}

func queryNoTable(s *workerSession) error {
	if err := s.ensureIdle(); err != nil {
		return err
	}
	if !s.ready.Capabilities.Tables {
		return skipError("the worker does not offer tables")
	}
	if err := s.conn.Send(ipc.Query{ID: 44, Kind: ipc.QueryTable, Text: `{"handle":"none","count":1}`}); err != nil {
		return err
	}
	got, err := expectFrame[ipc.QueryResult](s)
	if err != nil {
		return err
	}
	if got.ID != 44 || got.Status != ipc.StatusOK || len(got.Data) > 0 {
		return fmt.Errorf("got %s, want an answer to query 44 without data", describeMessage(got))
	}
	return nil
}
