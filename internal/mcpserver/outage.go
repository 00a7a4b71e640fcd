package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/turnstone-repl/turnstone/internal/mcpserver/callorder"
)

// isUnreachable reports whether err means that the session was not reached within the call's
// time, and may be reached later.
func (sc *sessionCall) isUnreachable(ctx context.Context, err error) bool {
	return sc.session.Link != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded)
}

// outageNotice reports for how long the connection to the session was down during the call, or
// returns "".
func (sc *sessionCall) outageNotice() string {
	if sc.session.Link == nil {
		return ""
	}
	down := sc.session.Link.Downtime(sc.receivedAt)
	if down == 0 {
		return ""
	}
	return fmt.Sprintf("the connection to %s was down for %s", sc.session.Link.RemoteName(), formatSeconds(down))
}

// replyUnreachable replies that the session cannot be reached, and what is known about the input.
func (sc *sessionCall) replyUnreachable(err error) *mcp.CallToolResult {
	text := err.Error() // says how long it has not answered
	if since, down := sc.session.Link.DownSince(); down {
		text = fmt.Sprintf("%s has been unreachable since %s", sc.session.Link.RemoteName(), since.Format(time.TimeOnly))
	}
	switch {
	case sc.turnNumber() != 0:
		text += fmt.Sprintf("; turn %d continues there", sc.turnNumber())
	case sc.starting != nil:
		text += "; it is not known whether your input was run: the next call will show it"
	}
	sc.outcome = callorder.OutcomeStillRuns
	return textResult("[" + text + "]")
}

// turnNumber returns the number of the turn that the call started or continued, or 0 if it is not
// known yet.
func (sc *sessionCall) turnNumber() uint64 {
	if sc.starting != nil {
		return sc.starting.Turn()
	}
	return sc.resumedTurn
}

// formatSeconds formats a duration in seconds, with one decimal below 10 s.
func formatSeconds(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	return fmt.Sprintf("%.0f s", d.Seconds())
}
