package mcpserver

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/timeline"
)

// A PrepareError says why preparation failed, with the last output of the failed tool.
type PrepareError struct{ Err error }

func (e *PrepareError) Error() string { return e.Err.Error() }
func (e *PrepareError) Unwrap() error { return e.Err }

// maxOpening bounds the sessions of one client that are not open yet: one that is
// prepared counts for no other limit.
const maxOpening = 64

// A preparation is the progress of a session that cannot be opened yet.
type preparation struct {
	mu    sync.Mutex
	line  string    // guarded by mu; the last message; "" when nothing is prepared
	since time.Time // guarded by mu; when the first message came
}

func (p *preparation) report(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.line == "" {
		p.since = time.Now()
	}
	p.line = line
}

// isUnderWay reports whether there is something to wait for that may take minutes.
func (p *preparation) isUnderWay() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.line != ""
}

// text describes the progress, for a view that is not open.
func (p *preparation) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.line == "" {
		return "opening"
	}
	return fmt.Sprintf("preparing %.1f s: %s", time.Since(p.since).Seconds(), p.line)
}

// prepared waits while a session of our own is being prepared.
func (s *sessions) prepared(ctx context.Context, v *view, opened *supervisor.Session) error {
	now, _ := opened.Info(ctx) // one of this process makes no error
	_ = session.FollowPreparation(ctx, opened, now, func(p timeline.Preparation) { v.preparing.report(p.Text()) })
	err := opened.WaitPrepared(ctx)
	if err != nil && ctx.Err() == nil && len(s.with) > 0 {
		return &PrepareError{err}
	}
	return calledBy(v.name, err)
}

// opened waits until the session of a view is open, or until the deadline. Meanwhile it tells
// the client about the progress. Without a session it returns a result, which is nil when ctx
// ended. later says what the model should do if the session is not open by then.
func (s *server) opened(ctx context.Context, r *request, v *view, deadline time.Time, later string) (*Opened, *mcp.CallToolResult) {
	for {
		session, ok, err := v.open(ctx, r.beat.next(deadline))
		late := !time.Now().Before(deadline)
		switch {
		case ctx.Err() != nil:
			return nil, nil
		case ok || late:
			if !r.beat.hold(ctx) {
				return nil, nil
			}
		}
		switch {
		case err != nil:
			return nil, s.openFailure(err)
		case ok:
			return session, nil
		case late:
			result := plain(fmt.Sprintf("[session %q is not open yet, %s: %s]", v.name, v.preparing.text(), later))
			result.IsError = strings.HasPrefix(later, notRun)
			return nil, result
		}
		if elapsed, due := r.beat.due(); due {
			r.Progress(elapsed.Seconds(), v.preparing.text())
		}
	}
}
