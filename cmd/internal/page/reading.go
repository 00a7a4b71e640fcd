package page

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

	// lookPause is the time between two looks at the sessions while nothing happens and a page
	// is open; lostPause is that between two looks for a daemon.
	lookPause = 2 * time.Second
	lostPause = 500 * time.Millisecond

	// tickIdle is after how long a stream without news says that it is there.
	tickIdle = 15 * time.Second
)

// reading adds the calls that change nothing.
func (s *Server) reading(mux *http.ServeMux) {
	for path, handle := range map[string]http.HandlerFunc{
		"/api/sessions": s.sessions,
		"/api/ticks":    s.ticks,
		"/api/outline":  s.outline,
		"/api/read":     s.read,
		"/api/search":   s.search,
		"/api/lines":    s.lines,
		"/api/span":     s.span,
	} {
		mux.HandleFunc("GET "+path, s.forPages(handle))
	}
}

// fail answers with the error of a call to the daemon.
func (s *Server) fail(w http.ResponseWriter, err error) {
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

func (s *Server) sessions(w http.ResponseWriter, r *http.Request) {
	all, err := s.o.Link.ListSessions(r.Context())
	if err != nil {
		s.fail(w, err)
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{"sessions": all, "now": time.Now()})
}

// ticks is a stream of what the sessions do: all of them, whenever one has changed. Pages pull
// by cursor what they show of it, so a page that sleeps costs one line. Of the daemon only the
// sessions are asked for that have changed.
func (s *Server) ticks(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	rc := http.NewResponseController(w)
	seen := &glance{wake: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	go s.watch(ctx, seen)
	var before string
	spoken := time.Now()
	look := time.NewTicker(lookPause)
	defer look.Stop()
	seen.changed("")
	for {
		select {
		case <-r.Context().Done():
			return
		case <-s.ending:
			return
		case <-look.C: // what nobody announces, such as memory
			seen.changed("")
		case <-seen.wake:
		}
		line, err := s.tick(ctx, seen)
		if err != nil {
			return
		}
		if line != before || time.Since(spoken) > tickIdle {
			now, _ := json.Marshal(time.Now())
			if _, err := w.Write([]byte(`data: {"now":` + string(now) + "," + line[1:] + "\n\n")); err != nil || rc.Flush() != nil {
				return
			}
			before, spoken = line, time.Now()
		}
	}
}

// A glance is the sessions as one stream has seen them last, and which of them are to be looked
// at again.
type glance struct {
	wake     chan struct{} // has one element while there is something to look at
	sessions []session.Info

	mu      sync.Mutex
	pending map[string]bool // names; "" is all sessions
}

// changed has a session looked at again, or all of them for the name "".
func (g *glance) changed(name string) {
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

func (g *glance) take() map[string]bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	names := g.pending
	g.pending = nil
	return names
}

// look asks the daemon for what has changed. A session that is new or gone is a change of all.
func (g *glance) look(ctx context.Context, link *client.Link) error {
	names := g.take()
	for name := range names {
		at := slices.IndexFunc(g.sessions, func(i session.Info) bool { return i.Name == name })
		if at < 0 {
			return g.lookAtAll(ctx, link)
		}
		now, err := link.Session(name).Info(ctx)
		if err != nil {
			return g.lookAtAll(ctx, link)
		}
		g.sessions[at] = now
	}
	return nil
}

func (g *glance) lookAtAll(ctx context.Context, link *client.Link) (err error) {
	g.sessions, err = link.ListSessions(ctx)
	return err
}

// watch notes each session that has changed, until ctx ends. While there is no daemon it looks for
// one.
func (s *Server) watch(ctx context.Context, seen *glance) {
	for ctx.Err() == nil {
		c, err := s.o.Link.Conn(ctx)
		var ticks *client.ChangeStream
		if err == nil {
			ticks, err = c.SubscribeChanges(ctx, "")
		}
		for err == nil {
			var tick session.Tick
			if tick, err = ticks.Next(ctx); err == nil {
				seen.changed(tick.Session)
			}
		}
		seen.changed("") // it is another daemon's from now on
		if ticks != nil {
			bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWrites)
			_ = ticks.Cancel(bounded)
			cancel()
		}
		timer := time.NewTimer(lostPause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// tick says what the sessions do.
func (s *Server) tick(ctx context.Context, seen *glance) (string, error) {
	err := seen.look(ctx, s.o.Link)
	said := map[string]any{}
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err != nil:
		seen.sessions = nil // the next look is at all
		said["lost"] = err.Error()
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

// A query reads numbers from the address of a call.
type query struct {
	r   *http.Request
	err error
}

func (q *query) session() string { return q.r.URL.Query().Get("session") }

// number returns a number from 0 to most; missing is for one that is not there.
func (q *query) number(name string, missing, most uint64) uint64 {
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

func (q *query) seq(name string) timeline.Seq { return timeline.Seq(q.number(name, 0, 1<<63)) }

func (q *query) is(name string) bool { return q.r.URL.Query().Get(name) == "true" }

func (s *Server) outline(w http.ResponseWriter, r *http.Request) {
	q := query{r: r}
	wanted := session.TurnSummariesQuery{After: q.seq("after"), Before: q.seq("before"), Backward: q.is("backward"), Limit: int(q.number("limit", 0, session.MaxSummaries))}
	if q.err != nil {
		s.fail(w, q.err)
		return
	}
	found, err := s.o.Link.Session(q.session()).TurnSummaries(r.Context(), wanted)
	if err != nil {
		s.fail(w, err)
		return
	}
	writeJSON(w, http.StatusOK, found)
}

// readPart reads a part of a session, with small results.
func (s *Server) readPart(q *query) (session.EventPage, error) {
	wanted := session.ReadQuery{
		After: q.seq("after"), Before: q.seq("before"), Backward: q.is("backward"), InlineBytes: maxInline,
		Limit: int(q.number("limit", 0, session.MaxReadEvents)), Bytes: int64(q.number("bytes", 0, session.MaxReadBytes)),
	}
	if q.err != nil {
		return session.EventPage{}, q.err
	}
	return s.o.Link.Session(q.session()).Read(q.r.Context(), wanted)
}

func (s *Server) read(w http.ResponseWriter, r *http.Request) {
	q := query{r: r}
	part, err := s.readPart(&q)
	if err != nil {
		s.fail(w, err)
		return
	}
	items := make([]item, len(part.Events))
	for i, e := range part.Events {
		items[i] = itemOf(q.session(), e)
	}
	writeJSON(w, http.StatusOK, map[string]any{"items": items, "last": part.Last})
}

// search has the daemon look for a text, or a regular expression, in the inputs and the output
// of a session. It goes through a bounded part; next is where to go on, "" at the end.
func (s *Server) search(w http.ResponseWriter, r *http.Request) {
	q := query{r: r}
	values := r.URL.Query()
	found, err := s.o.Link.Session(q.session()).Search(r.Context(), session.SearchQuery{
		Text: values.Get("text"), Regexp: values.Get("regexp"), From: values.Get("from"),
		Limit: int(q.number("limit", session.DefaultSearchMatches, session.MaxSearchMatches)),
	})
	if err = errors.Join(q.err, err); err != nil {
		s.fail(w, err)
		return
	}
	writeJSON(w, http.StatusOK, found)
}

// span returns the lines of the rendered output that events have.
func (s *Server) span(w http.ResponseWriter, r *http.Request) {
	q := query{r: r}
	first, last := q.seq("first"), q.seq("last")
	lines := map[string]int{}
	on := s.o.Link.Session(q.session())
	for name, wanted := range map[string]session.ReadQuery{
		"first": {After: first - 1, Before: last + 1, Limit: 50},
		"last":  {After: first - 1, Before: last + 2, Limit: 50, Backward: true}, // the event after it tells where its lines end
	} {
		part, err := on.Read(r.Context(), wanted)
		if err = errors.Join(q.err, err); err != nil {
			s.fail(w, err)
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

// lines returns lines of the rendered output.
func (s *Server) lines(w http.ResponseWriter, r *http.Request) {
	q := query{r: r}
	from, to := int(q.number("from", 1, 1<<40)), int(q.number("to", 1, 1<<40))
	if q.err == nil && to-from >= maxLines {
		to = from + maxLines - 1
	}
	out, err := s.o.Link.Session(q.session()).Output(r.Context(), session.OutputQuery{From: from, To: to})
	if err = errors.Join(q.err, err); err != nil {
		s.fail(w, err)
		return
	}
	writeJSON(w, http.StatusOK, out)
}
