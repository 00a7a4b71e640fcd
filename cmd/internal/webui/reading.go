package webui

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

const (
	// maxLines bounds the lines of one answer.
	maxLines = 1000

	// pollInterval is the time between two looks at the sessions while nothing happens and a page
	// is open; reconnectDelay is that between two looks for a daemon.
	pollInterval   = 2 * time.Second
	reconnectDelay = 500 * time.Millisecond

	// tickInterval is after how long a stream without news says that it is there.
	tickInterval = 15 * time.Second
)

// addReadRoutes adds the calls that change nothing.
func (s *Server) addReadRoutes(mux *http.ServeMux) {
	for path, handle := range map[string]http.HandlerFunc{
		"/api/sessions": s.serveSessions,
		"/api/ticks":    s.serveTicks,
		"/api/outline":  s.serveTurnIndex,
		"/api/read":     s.serveEvents,
		"/api/search":   s.serveSearch,
		"/api/lines":    s.serveLines,
		"/api/span":     s.serveLineSpan,
	} {
		mux.HandleFunc("GET "+path, s.requireToken(handle))
	}
}

// writeCallError answers with the error of a call to the daemon.
func (s *Server) writeCallError(w http.ResponseWriter, err error) {
	kind, status := session.KindOf(err), http.StatusConflict
	switch kind {
	case session.KindClosed:
		status = http.StatusNotFound
	case client.KindUnreachable, client.KindProtocol:
		status = http.StatusServiceUnavailable
	case session.KindInvalid, session.KindTooLarge:
		status = http.StatusBadRequest
	case "":
		kind, status = "failed", http.StatusInternalServerError
	}
	writeError(w, status, string(kind), err.Error())
}

func (s *Server) serveSessions(w http.ResponseWriter, r *http.Request) {
	all, err := s.options.Link.ListSessions(r.Context())
	if err != nil {
		s.writeCallError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{"sessions": all, "now": time.Now()})
}

// serveTicks is a stream of what the sessions do: all of them, whenever one has changed. Pages pull
// by cursor what they show of it, so a page that sleeps costs one line. Of the daemon only the
// sessions are asked for that have changed.
func (s *Server) serveTicks(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	rc := http.NewResponseController(w)
	seen := &listSnapshot{wake: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	go s.watchSessions(ctx, seen)
	var before string
	spoken := time.Now()
	look := time.NewTicker(pollInterval)
	defer look.Stop()
	seen.markChanged("")
	for {
		select {
		case <-r.Context().Done():
			return
		case <-s.closing:
			return
		case <-look.C: // what nobody announces, such as memory
			seen.markChanged("")
		case <-seen.wake:
		}
		line, err := s.nextTick(ctx, seen)
		if err != nil {
			return
		}
		if line != before || time.Since(spoken) > tickInterval {
			now, _ := json.Marshal(time.Now())
			if _, err := w.Write([]byte(`data: {"now":` + string(now) + "," + line[1:] + "\n\n")); err != nil || rc.Flush() != nil {
				return
			}
			before, spoken = line, time.Now()
		}
	}
}

// A listSnapshot is the sessions as one stream has seen them last, and which of them are to be looked
// at again.
type listSnapshot struct {
	wake     chan struct{} // has one element while there is something to look at
	sessions []session.Info

	mu      sync.Mutex
	pending map[string]bool // names; "" is all sessions
}

// markChanged has a session looked at again, or all of them for the name "".
func (g *listSnapshot) markChanged(name string) {
	g.mu.Lock()
	if g.pending == nil {
		g.pending = make(map[string]bool)
	}
	g.pending[name] = true
	g.mu.Unlock()
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

func (g *listSnapshot) takePending() map[string]bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	names := g.pending
	g.pending = nil
	return names
}

// refresh asks the daemon for what has changed. A session that is new or gone is a change of all.
func (g *listSnapshot) refresh(ctx context.Context, link *client.Client) error {
	names := g.takePending()
	for name := range names {
		at := slices.IndexFunc(g.sessions, func(i session.Info) bool { return i.Name == name })
		if at < 0 {
			return g.refreshAll(ctx, link)
		}
		now, err := link.Session(name).Info(ctx)
		if err != nil {
			return g.refreshAll(ctx, link)
		}
		g.sessions[at] = now
	}
	return nil
}

func (g *listSnapshot) refreshAll(ctx context.Context, link *client.Client) (err error) {
	g.sessions, err = link.ListSessions(ctx)
	return err
}

// watchSessions notes each session that has changed, until ctx ends. While there is no daemon it looks for
// one.
func (s *Server) watchSessions(ctx context.Context, seen *listSnapshot) {
	for ctx.Err() == nil {
		c, err := s.options.Link.Conn(ctx)
		var ticks *client.ChangeStream
		if err == nil {
			ticks, err = c.SubscribeChanges(ctx, "")
		}
		for err == nil {
			var tick session.Tick
			if tick, err = ticks.Next(ctx); err == nil {
				seen.markChanged(tick.Session)
			}
		}
		seen.markChanged("") // it is another daemon's from now on
		if ticks != nil {
			bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
			_ = ticks.Cancel(bounded)
			cancel()
		}
		timer := time.NewTimer(reconnectDelay)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// nextTick says what the sessions do.
func (s *Server) nextTick(ctx context.Context, seen *listSnapshot) (string, error) {
	err := seen.refresh(ctx, s.options.Link)
	said := map[string]any{}
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err != nil:
		seen.sessions = nil // the next look is at all
		said["error"] = err.Error()
	default:
		all := slices.Clone(seen.sessions)
		for i := range all {
			all[i].TurnElapsed = 0 // it changes all the time: pages count from Since
			all[i].MemoryBytes = all[i].MemoryBytes >> 20 << 20
		}
		said["sessions"] = all
	}
	b, err := json.Marshal(said)
	return string(b), err
}

// A queryValues reads numbers from the address of a call.
type queryValues struct {
	r   *http.Request
	err error
}

func (q *queryValues) sessionName() string { return q.r.URL.Query().Get("session") }

// uintValue returns a number from 0 to most; missing is for one that is not there.
func (q *queryValues) uintValue(name string, missing, most uint64) uint64 {
	text := q.r.URL.Query().Get(name)
	if text == "" {
		return missing
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		q.err = session.Errorf(session.KindInvalid, "%s must be a number, not %q", name, text)
	}
	return min(n, most)
}

func (q *queryValues) seqValue(name string) timeline.Seq {
	return timeline.Seq(q.uintValue(name, 0, 1<<63))
}

func (q *queryValues) boolValue(name string) bool { return q.r.URL.Query().Get(name) == "true" }

func (s *Server) serveTurnIndex(w http.ResponseWriter, r *http.Request) {
	q := queryValues{r: r}
	wanted := session.TurnSummariesQuery{After: q.seqValue("after"), Before: q.seqValue("before"), Backward: q.boolValue("backward"), Limit: int(q.uintValue("limit", 0, session.MaxSummaries))}
	if q.err != nil {
		s.writeCallError(w, q.err)
		return
	}
	found, err := s.options.Link.Session(q.sessionName()).TurnSummaries(r.Context(), wanted)
	if err != nil {
		s.writeCallError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, found)
}

// readPage reads a part of a session, with small results.
func (s *Server) readPage(q *queryValues) (session.EventPage, error) {
	wanted := session.ReadQuery{
		After: q.seqValue("after"), Before: q.seqValue("before"), Backward: q.boolValue("backward"), InlineBytes: maxInlineBytes,
		Limit: int(q.uintValue("limit", 0, session.MaxReadEvents)), Bytes: int64(q.uintValue("bytes", 0, session.MaxReadBytes)),
	}
	if q.err != nil {
		return session.EventPage{}, q.err
	}
	return s.options.Link.Session(q.sessionName()).Read(q.r.Context(), wanted)
}

func (s *Server) serveEvents(w http.ResponseWriter, r *http.Request) {
	q := queryValues{r: r}
	part, err := s.readPage(&q)
	if err != nil {
		s.writeCallError(w, err)
		return
	}
	items := make([]eventItem, len(part.Events))
	for i, e := range part.Events {
		items[i] = newEventItem(q.sessionName(), e)
	}
	writeJSON(w, http.StatusOK, map[string]any{"items": items, "last": part.Last})
}

// serveSearch has the daemon look for a text, or a regular expression, in the inputs and the output
// of a session. It goes through a bounded part; next is where to go on, "" at the end.
func (s *Server) serveSearch(w http.ResponseWriter, r *http.Request) {
	q := queryValues{r: r}
	values := r.URL.Query()
	found, err := s.options.Link.Session(q.sessionName()).Search(r.Context(), session.SearchQuery{
		Text: values.Get("text"), Regexp: values.Get("regexp"), From: values.Get("from"),
		Limit: int(q.uintValue("limit", session.DefaultSearchMatches, session.MaxSearchMatches)),
	})
	if err = errors.Join(q.err, err); err != nil {
		s.writeCallError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, found)
}

// serveLineSpan returns the lines of the rendered output that events have.
func (s *Server) serveLineSpan(w http.ResponseWriter, r *http.Request) {
	q := queryValues{r: r}
	first, last := q.seqValue("first"), q.seqValue("last")
	lines := map[string]int{}
	on := s.options.Link.Session(q.sessionName())
	for name, wanted := range map[string]session.ReadQuery{
		"first": {After: first - 1, Before: last + 1, Limit: 50},
		"last":  {After: first - 1, Before: last + 2, Limit: 50, Backward: true}, // the event after it tells where its lines end
	} {
		part, err := on.Read(r.Context(), wanted)
		if err = errors.Join(q.err, err); err != nil {
			s.writeCallError(w, err)
			return
		}
		for _, e := range part.Events {
			if e.Line > 0 && (lines[name] == 0 || name == "last") {
				lines[name] = e.Line
			}
		}
	}
	writeJSON(w, http.StatusOK, lines)
}

// serveLines returns lines of the rendered output.
func (s *Server) serveLines(w http.ResponseWriter, r *http.Request) {
	q := queryValues{r: r}
	from, to := int(q.uintValue("from", 1, 1<<40)), int(q.uintValue("to", 1, 1<<40))
	if q.err == nil && to-from >= maxLines {
		to = from + maxLines - 1
	}
	out, err := s.options.Link.Session(q.sessionName()).Output(r.Context(), session.OutputQuery{From: from, To: to})
	if err = errors.Join(q.err, err); err != nil {
		s.writeCallError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, out)
}
