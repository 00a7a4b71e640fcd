package supervisor

import (
	"context"
	"math"
	"time"

	"github.com/turnstone-repl/turnstone/ipc"
	"github.com/turnstone-repl/turnstone/supervisor/internal/host"
)

// queryTime is how long the worker may think about a query before it is
// interrupted, and then again until the query is given up.
const queryTime = 200 * time.Millisecond

// A Completion says what may stand in place of text[Start:cursor].
type Completion struct {
	Start   int // bytes
	Matches []string
}

// ParseStatus says whether a text is a whole input.
type ParseStatus string

const (
	ParseComplete   ParseStatus = "complete"
	ParseIncomplete ParseStatus = "incomplete" // more lines are needed
	ParseInvalid    ParseStatus = "invalid"    // no further line can mend it
	ParseUnknown    ParseStatus = "unknown"    // the worker did not say in time
)

// Complete asks the idle worker how text could go on at cursor, in bytes. It is
// never a turn. The error is ErrUnsupported, ErrTooLarge, a *BusyError, a
// *WaitingError, ErrClosed or ctx's.
func (s *Session) Complete(ctx context.Context, text string, cursor int) (Completion, error) {
	r, err := s.query(ctx, ipc.Query{Kind: ipc.QueryComplete, Text: text, Cursor: uint64(max(0, min(cursor, len(text))))})
	if err != nil || r.Status != ipc.StatusOK || r.Start > uint64(len(text)) {
		return Completion{}, err
	}
	for i, m := range r.Matches {
		r.Matches[i] = s.log.Hidden(m)
	}
	return Completion{Start: int(r.Start), Matches: r.Matches}, nil
}

// Parse asks the idle worker whether text is a whole input.
func (s *Session) Parse(ctx context.Context, text string) (ParseStatus, error) {
	r, err := s.query(ctx, ipc.Query{Kind: ipc.QueryParse, Text: text})
	if err != nil {
		return ParseUnknown, err
	}
	switch r.Status {
	case ipc.StatusComplete:
		return ParseComplete, nil
	case ipc.StatusIncomplete:
		return ParseIncomplete, nil
	case ipc.StatusInvalid:
		return ParseInvalid, nil
	}
	return ParseUnknown, nil
}

// Variables is what user code has made, the newest first, functions and classes
// behind the data.
type Variables struct {
	List []Variable // at most 200
	More int        // how many are not in List
}

// A Variable is a name and what it stands for.
type Variable struct {
	Name  string
	Type  string
	Shape string // as the language counts: "12", "(3, 4)"; empty when it has none
	Bytes uint64 // what the value itself takes; 0 when unknown
}

// Variables asks the idle worker what user code has made. It runs no user code.
// The error is one that Complete has, or ErrNoAnswer.
func (s *Session) Variables(ctx context.Context) (Variables, error) {
	r, err := s.query(ctx, ipc.Query{Kind: ipc.QueryVariables})
	if err == nil && r.Status != ipc.StatusOK {
		err = ErrNoAnswer
	}
	if err != nil {
		return Variables{}, err
	}
	v := Variables{More: int(min(r.More, math.MaxInt32))}
	for _, one := range r.Variables {
		v.List = append(v.List, Variable(one))
	}
	return v, nil
}

// offers reports whether a worker answers queries of that kind.
func offers(c ipc.Capabilities, kind ipc.QueryKind) bool {
	if kind == ipc.QueryVariables {
		return c.Variables
	}
	return c.Query
}

func (s *Session) query(ctx context.Context, q ipc.Query) (ipc.QueryResult, error) {
	none := ipc.QueryResult{Status: ipc.StatusTimeout}
	if len(q.Text) > ipc.MaxTextBytes {
		return none, ErrTooLarge
	}
	s.mu.Lock()
	w := s.worker
	var err error
	switch {
	case s.closed:
		err = ErrClosed
	case s.state == StateWaiting:
		err = &WaitingError{Wait: s.shown.Wait}
	case s.state != StateIdle:
		err = s.busyLocked()
	case !offers(w.ready.Capabilities, q.Kind):
		err = ErrUnsupported
	}
	if err != nil {
		s.mu.Unlock()
		return none, err
	}
	s.lastQuery++
	q.ID = s.lastQuery
	answer := make(chan ipc.QueryResult, 1) // never blocks the worker's reader
	if s.queries == nil {
		s.queries = make(map[uint64]chan ipc.QueryResult)
	}
	s.queries[q.ID] = answer
	err = w.conn.Send(q)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.queries, q.ID)
		s.mu.Unlock()
	}()
	if err != nil {
		return none, nil // the worker is on its way out
	}
	timer := time.NewTimer(queryTime)
	defer timer.Stop()
	for interrupted := false; ; {
		select {
		case r, ok := <-answer:
			if !ok {
				return none, nil
			}
			return r, nil
		case <-ctx.Done():
			return none, ctx.Err()
		case <-timer.C:
		}
		if interrupted {
			return none, nil
		}
		interrupted = true
		w.interruptQuery(q.ID)
		timer.Reset(queryTime)
	}
}

// interruptQuery interrupts a query that takes too long: turn 0 names it.
func (w *worker) interruptQuery(id uint64) {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	if w.s.worker != w || w.s.state != StateIdle {
		return // a turn began behind the query and must not be hit
	}
	if w.conn.Send(ipc.Interrupt{Turn: 0, Seq: id, Level: 1}) == nil && w.ready.Capabilities.Interrupt == ipc.InterruptBySignal {
		_ = w.proc.Signal(host.Interrupt, host.Worker)
	}
}
