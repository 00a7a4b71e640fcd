package supervisor

import (
	"context"
	"encoding/json"
	"math"
	"strings"
	"time"

	"github.com/turnstone-repl/turnstone/ipc"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor/internal/monitorproto"
	"github.com/turnstone-repl/turnstone/timeline"
)

// queryTimeout is how long a query may take before it is interrupted, and then how long the
// interrupt may take before the query is abandoned.
const queryTimeout = 200 * time.Millisecond

// inspectTimeout replaces queryTimeout for an inspection, which reads a help page from disk and
// formats it.
const inspectTimeout = 2 * time.Second

// tableTimeout replaces queryTimeout for a table, which may be sorted or searched as a whole.
const tableTimeout = time.Second

// Complete implements session.Session.
func (s *Session) Complete(ctx context.Context, text string, cursor int) (session.Completion, error) {
	r, err := s.runQuery(ctx, ipc.Query{Kind: ipc.QueryComplete, Text: text, Cursor: uint64(max(0, min(cursor, len(text))))})
	if err == nil && r.Status != ipc.StatusOK {
		err = session.ErrNoAnswer
	}
	if err != nil || r.Start > uint64(len(text)) {
		return session.Completion{}, err
	}
	for i, m := range r.Matches {
		r.Matches[i] = s.log.Redact(m)
	}
	return session.Completion{Start: int(r.Start), Matches: r.Matches}, nil
}

// Parse implements session.Session.
func (s *Session) Parse(ctx context.Context, text string) (session.ParseStatus, error) {
	return s.parseIn(ctx, "", text)
}

func (s *Session) parseIn(ctx context.Context, dialect session.InputDialect, text string) (session.ParseStatus, error) {
	if err := dialect.Check(); err != nil {
		return session.ParseUnknown, err
	}
	r, err := s.runQuery(ctx, ipc.Query{Kind: ipc.QueryParse, Text: text, Dialect: ipc.InputDialect(dialect)})
	if err != nil {
		return session.ParseUnknown, err
	}
	switch r.Status {
	case ipc.StatusComplete:
		return session.ParseComplete, nil
	case ipc.StatusIncomplete:
		return session.ParseIncomplete, nil
	case ipc.StatusInvalid:
		return session.ParseInvalid, nil
	}
	return session.ParseUnknown, nil
}

// Variables implements session.Session.
func (s *Session) Variables(ctx context.Context) (session.Variables, error) {
	r, err := s.runQuery(ctx, ipc.Query{Kind: ipc.QueryVariables})
	if err == nil && r.Status != ipc.StatusOK {
		err = session.ErrNoAnswer
	}
	if err != nil {
		return session.Variables{}, err
	}
	v := session.Variables{More: int(min(r.More, math.MaxInt32))}
	for _, one := range r.Variables {
		v.List = append(v.List, session.Variable(one))
	}
	return v, nil
}

// Inspect implements session.Session.
func (s *Session) Inspect(ctx context.Context, text string, cursor int) (session.Inspection, error) {
	r, err := s.runQuery(ctx, ipc.Query{Kind: ipc.QueryInspect, Text: text, Cursor: uint64(max(0, min(cursor, len(text))))})
	if err == nil && r.Status != ipc.StatusOK {
		err = session.ErrNoAnswer
	}
	if err != nil || len(r.Data) == 0 {
		return session.Inspection{}, err
	}
	found := session.Inspection{Found: true, Data: make(map[string]string, len(r.Data))}
	for mime, data := range r.Data {
		found.Data[mime] = s.log.Redact(strings.ToValidUTF8(string(data), "\uFFFD"))
	}
	return found, nil
}

// TablePage implements session.Session.
func (s *Session) TablePage(ctx context.Context, q session.TableQuery) (session.TablePage, error) {
	if err := q.Check(); err != nil {
		return session.TablePage{}, err
	}
	text, err := json.Marshal(q)
	if err != nil {
		return session.TablePage{}, err
	}
	r, err := s.runQuery(ctx, ipc.Query{Kind: ipc.QueryTable, Text: string(text)})
	if err == nil && r.Status != ipc.StatusOK {
		err = session.ErrNoAnswer
	}
	data, found := r.Data[timeline.MIMETable]
	if err != nil || !found {
		return session.TablePage{}, err
	}
	table, err := session.DecodeTable(data)
	if err != nil {
		return session.TablePage{}, session.Errorf(session.KindProtocol, "the worker's answer is not valid: %v", err)
	}
	table.Texts(s.log.Redact)
	return session.TablePage{Table: table}, nil
}

// supportsQuery reports whether a worker with these capabilities answers queries of this kind.
func supportsQuery(c ipc.Capabilities, kind ipc.QueryKind) bool {
	switch kind {
	case ipc.QueryVariables:
		return c.Variables
	case ipc.QueryInspect:
		return c.Display
	case ipc.QueryTable:
		return c.Tables
	}
	return c.Query
}

// queryLimit returns how long a query may take before it is interrupted.
func queryLimit(kind ipc.QueryKind) time.Duration {
	switch kind {
	case ipc.QueryInspect:
		return inspectTimeout
	case ipc.QueryTable:
		return tableTimeout
	}
	return queryTimeout
}

func (s *Session) runQuery(ctx context.Context, q ipc.Query) (ipc.QueryResult, error) {
	defer s.beginUse()()
	none := ipc.QueryResult{Status: ipc.StatusTimeout}
	if len(q.Text) > ipc.MaxTextBytes {
		return none, session.ErrTooLarge
	}
	s.mu.Lock()
	if s.m.phase == phaseIdle {
		proc := s.worker.proc
		if signals := proc.SignalsSent(); signals != nil { // these belong to the previous turn, not to the query
			s.mu.Unlock()
			select {
			case <-signals:
			case <-proc.Exited():
			case <-time.After(queryTimeout):
				return none, nil
			case <-ctx.Done():
				return none, ctx.Err()
			}
			s.mu.Lock()
		}
	}
	w, err := s.worker, s.m.inputRefusal()
	switch {
	case err != nil:
	case s.m.phase != phaseIdle:
		err = s.m.busyError()
	case !supportsQuery(s.m.ready.Capabilities, q.Kind):
		err = session.ErrUnsupported
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
		return none, nil // the worker is ending
	}
	timer := time.NewTimer(queryLimit(q.Kind))
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
		timer.Reset(queryTimeout)
	}
}

// interruptQuery interrupts a query that takes too long. Turn 0 in the frame means a query.
func (w *worker) interruptQuery(id uint64) {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	if w.s.worker != w || w.s.m.phase != phaseIdle {
		return // a turn started after the query and must not be interrupted
	}
	if w.conn.Send(ipc.Interrupt{Turn: 0, Seq: id, Level: 1}) == nil && w.s.m.ready.Capabilities.Interrupt == ipc.InterruptBySignal {
		_ = w.proc.Signal(monitorproto.Interrupt, monitorproto.Worker)
	}
}
