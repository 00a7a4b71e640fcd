package mcpserver

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/turnstone-repl/turnstone/internal/mcpserver/backend"
	"github.com/turnstone-repl/turnstone/internal/mcpserver/reply"
)

// maxOpening bounds the sessions of one client that are not open yet, because a session in
// preparation counts toward no other limit.
const maxOpening = 64

// A preparation is the progress of a session that is being prepared.
type preparation struct {
	mu       sync.Mutex
	progress string    // guarded by mu; the last message; "" without preparation
	since    time.Time // guarded by mu; time of the first message
}

func (p *preparation) setProgress(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.progress == "" {
		p.since = time.Now()
	}
	p.progress = line
}

// isUnderWay reports whether the session is being prepared, which may take minutes.
func (p *preparation) isUnderWay() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.progress != ""
}

// describeProgress describes the progress of a session that is not open.
func (p *preparation) describeProgress() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.progress == "" {
		return "opening"
	}
	return fmt.Sprintf("preparing %.1f s: %s", time.Since(p.since).Seconds(), p.progress)
}

// waitOpened waits until a session is open or the deadline passes, and reports the progress to
// the client in the meantime. Without a session it returns a result, which is nil if ctx ended.
// later says what the model should do if the session is not open by then.
func (s *server) waitOpened(ctx context.Context, r *toolRequest, v *callerSession, deadline time.Time, later string) (*backend.SessionHandle, *mcp.CallToolResult) {
	for {
		session, ok, err := v.waitOpen(ctx, r.beat.NextCheck(deadline))
		late := !time.Now().Before(deadline)
		switch {
		case ctx.Err() != nil:
			return nil, nil
		case ok || late:
			if !r.beat.WaitQuiet(ctx) {
				return nil, nil
			}
		}
		switch {
		case err != nil:
			return nil, s.openErrorResult(err)
		case ok:
			return session, nil
		case late:
			result := textResult(fmt.Sprintf("[session %q is not open yet, %s: %s]", v.name, v.preparing.describeProgress(), later))
			result.IsError = strings.HasPrefix(later, reply.InputNotRun)
			return nil, result
		}
		if elapsed, due := r.beat.BeatIfDue(); due {
			r.ReportProgress(elapsed.Seconds(), v.preparing.describeProgress())
		}
	}
}
