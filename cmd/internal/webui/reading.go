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

	// pollInterval is the interval of polls of the sessions while nothing happens and a browser is
	// open. reconnectDelay is the pause between two attempts to reach a daemon.
	pollInterval   = 2 * time.Second
	reconnectDelay = 500 * time.Millisecond

	// tickInterval is the time after which a stream without changes repeats its last line, as a keep-alive.
	tickInterval = 15 * time.Second
)

// addReadRoutes adds the read-only calls.
func (s *Server) addReadRoutes(mux *http.ServeMux) {
	for path, handle := range map[string]http.HandlerFunc{
		"/api/sessions":  s.serveSessions,
		"/api/languages": s.serveLanguages,
		"/api/ticks":     s.serveTicks,
		"/api/outline":   s.serveTurnIndex,
		"/api/read":      s.serveEvents,
		"/api/search":    s.serveSearch,
		"/api/lines":     s.serveLines,
		"/api/span":      s.serveLineSpan,
		"/api/screen":    s.serveScreen,
	} {
		mux.HandleFunc("GET "+path, s.requireToken(handle))
	}
}

// serveLanguages returns the languages of new sessions, the default first.
func (s *Server) serveLanguages(w http.ResponseWriter, r *http.Request) {
	info, err := s.options.Link.DaemonInfo(r.Context())
	if err != nil {
		s.writeCallError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, map[string][]string{"languages": info.Languages})
}

// writeCallError answers with the error of a daemon call.
func (s *Server) writeCallError(w http.ResponseWriter, err error) {
	kind, status := session.KindOf(err), http.StatusConflict
	switch kind {
	case session.KindClosed:
		status = http.StatusNotFound
	case session.KindUnreachable, session.KindProtocol:
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

// serveTicks streams the states of all sessions, whenever one has changed. Browsers read the events
// that they show by cursor, so a sleeping tab needs only one line for all events that it missed.
// The daemon is asked only for sessions that have changed.
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
		case <-look.C: // for changes without a notification, such as memory
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

// A listSnapshot holds the sessions as one stream last saw them, and the names of the sessions to read again.
type listSnapshot struct {
	wake     chan struct{} // has one element while pending is not empty
	sessions []session.Info

	mu      sync.Mutex
	pending map[string]bool // names; "" is all sessions
}

// markChanged schedules a session to be read again, or all sessions for the name "".
func (s *listSnapshot) markChanged(name string) {
	s.mu.Lock()
	if s.pending == nil {
		s.pending = make(map[string]bool)
	}
	s.pending[name] = true
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *listSnapshot) takePending() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := s.pending
	s.pending = nil
	return names
}

// refresh reads the changed sessions from the daemon. It reads all if a session is new or gone.
func (s *listSnapshot) refresh(ctx context.Context, link *client.Client) error {
	names := s.takePending()
	for name := range names {
		at := slices.IndexFunc(s.sessions, func(i session.Info) bool { return i.Name == name })
		if at < 0 {
			return s.refreshAll(ctx, link)
		}
		now, err := link.Session(name).Info(ctx)
		if err != nil {
			return s.refreshAll(ctx, link)
		}
		s.sessions[at] = now
	}
	return nil
}

func (s *listSnapshot) refreshAll(ctx context.Context, link *client.Client) (err error) {
	s.sessions, err = link.ListSessions(ctx)
	return err
}

// watchSessions marks each session that has changed, until ctx ends. While no daemon is reachable, it
// tries to reach one.
func (s *Server) watchSessions(ctx context.Context, seen *listSnapshot) {
	for ctx.Err() == nil {
		err := s.options.Link.Connect(ctx)
		var ticks *client.ChangeStream
		if err == nil {
			ticks, err = s.options.Link.SubscribeChanges(ctx, "")
		}
		for err == nil {
			var tick session.Tick
			if tick, err = ticks.Next(ctx); err == nil {
				seen.markChanged(tick.Session)
			}
		}
		seen.markChanged("") // the list may be another daemon's now
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

// nextTick returns the states of the sessions as JSON.
func (s *Server) nextTick(ctx context.Context, seen *listSnapshot) (string, error) {
	err := seen.refresh(ctx, s.options.Link)
	said := map[string]any{}
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err != nil:
		seen.sessions = nil // the next tick reads all sessions again
		said["error"] = err.Error()
	default:
		all := slices.Clone(seen.sessions)
		for i := range all {
			all[i].TurnElapsed = 0 // changes all the time, so browsers compute it from Since
			all[i].MemoryBytes = all[i].MemoryBytes >> 20 << 20
		}
		said["sessions"] = all
	}
	b, err := json.Marshal(said)
	return string(b), err
}

// A queryValues reads the query parameters of a call, and holds the first error.
type queryValues struct {
	r   *http.Request
	err error
}

func (q *queryValues) sessionName() string { return q.r.URL.Query().Get("session") }

// uintValue returns a number from 0 to most, or missing if the parameter is absent.
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

// readPage reads a page of a session's events, including the data of small results.
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

// serveSearch lets the daemon search the inputs and output of a session for a text or a regular
// expression. It covers a bounded part. The next search starts at "next", which is "" at the end.
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

// serveLineSpan serves the range of lines that events have in the rendered output.
func (s *Server) serveLineSpan(w http.ResponseWriter, r *http.Request) {
	q := queryValues{r: r}
	first, last := q.seqValue("first"), q.seqValue("last")
	lines := map[string]int{}
	on := s.options.Link.Session(q.sessionName())
	for name, wanted := range map[string]session.ReadQuery{
		"first": {After: first - 1, Before: last + 1, Limit: 50},
		"last":  {After: first - 1, Before: last + 2, Limit: 50, Backward: true}, // the event after it shows where its lines end
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

// serveLines serves lines of the rendered output.
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

// serveScreen serves the screen of the active turn. Between turns the error is of kind stale.
func (s *Server) serveScreen(w http.ResponseWriter, r *http.Request) {
	q := queryValues{r: r}
	screen, err := s.options.Link.Session(q.sessionName()).Screen(r.Context())
	if err != nil {
		s.writeCallError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, screen)
}
