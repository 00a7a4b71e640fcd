package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// isUnreachable reports whether err says that the session could not be reached in the time that the call
// gave it, and may be reached later.
func (a *sessionCall) isUnreachable(ctx context.Context, err error) bool {
	return a.session.Link != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded)
}

// outageNotice says that the way to the session was broken while the call waited; "" if it was not.
func (a *sessionCall) outageNotice() string {
	if a.session.Link == nil {
		return ""
	}
	down := a.session.Link.Downtime(a.receivedAt)
	if down == 0 {
		return ""
	}
	return fmt.Sprintf("the link to %s was down for %s", a.session.Link.RemoteName(), shortly(down))
}

// replyUnreachable says that the session cannot be reached, and what became of the input.
func (a *sessionCall) replyUnreachable(err error) *mcp.CallToolResult {
	text := err.Error() // it has not answered since then
	if since, down := a.session.Link.DownSince(); down {
		text = fmt.Sprintf("%s cannot be reached since %s", a.session.Link.RemoteName(), since.Format(time.TimeOnly))
	}
	switch {
	case a.turnNumber() != 0:
		text += fmt.Sprintf("; turn %d goes on there", a.turnNumber())
	case a.starting != nil:
		text += "; it is not known whether your input was run. The next call shows it"
	}
	a.outcome = outcomeStillRuns
	return textResult("[" + text + "]")
}

// turnNumber is the number of the turn that the call started or fed; 0 if it is not known.
func (a *sessionCall) turnNumber() uint64 {
	if a.starting != nil {
		return a.starting.Turn()
	}
	return a.resumedTurn
}

// shortly is a duration in seconds, with one decimal while that tells something.
func shortly(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return fmt.Sprintf("%.0f s", d.Seconds())
}
