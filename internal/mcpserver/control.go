package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/turnstone-repl/turnstone/internal/mcpserver/callerstate"
	"github.com/turnstone-repl/turnstone/internal/mcpserver/reply"
	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// handleInterrupt implements the tool repl_interrupt.
func (s *server) handleInterrupt(ctx context.Context, r *toolRequest, arguments json.RawMessage) *mcp.CallToolResult {
	args, err := decodeArguments[sessionArgs](r, arguments)
	if err != nil {
		return s.errorResult(err)
	}
	a, result := s.newSessionCall(ctx, r, args.Session, time.Now().Add(defaultTimeout), false)
	if a == nil {
		return result
	}
	a.caller.RejectEarlierInputs(ctx, r.ToolCall)
	if err := a.interruptNow(ctx); err != nil {
		return s.errorResult(err)
	}
	a.caller.ExpectCode()
	return a.replyNow(ctx, a.currentReply)
}

// handleReset implements the tool repl_reset. It waits until the new interpreter is ready, or
// closes the session.
func (s *server) handleReset(ctx context.Context, r *toolRequest, arguments json.RawMessage) *mcp.CallToolResult {
	args, err := decodeArguments[resetArgs](r, arguments)
	if err != nil {
		return s.errorResult(err)
	}
	// A call that may mean another session must not destroy variables.
	if err := unknownArgumentError[resetArgs](r); err != nil {
		return s.errorResult(err)
	}
	a, result := s.newSessionCall(ctx, r, args.Session, time.Now().Add(defaultTimeout), false)
	if a == nil {
		return result
	}
	if args.Close {
		return a.closeSession(ctx)
	}
	a.caller.RejectEarlierInputs(ctx, r.ToolCall)
	if err := a.session.Reset(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return s.errorResult(err)
	}
	a.caller.ExpectCode()
	a.restarted = true
	return a.pollTurn(ctx)
}

// closeSession closes the session, even while code runs.
func (sc *sessionCall) closeSession(ctx context.Context) *mcp.CallToolResult {
	if err := sc.session.Close(ctx); err != nil {
		return sc.sessionErrorResult(ctx, err)
	}
	sc.sessions.RemoveSession(sc.caller)
	return textResult(fmt.Sprintf("[session %q is closed, and its variables are lost]", sc.caller.Name))
}

// handleSessions implements the tool repl_sessions.
func (s *server) handleSessions(ctx context.Context, r *toolRequest, arguments json.RawMessage) *mcp.CallToolResult {
	args, err := decodeArguments[sessionArgs](r, arguments)
	if err != nil {
		return s.errorResult(err)
	}
	if args.Session != "" {
		return s.listVariables(ctx, r, args.Session)
	}
	r.leaveQueues() // the call is about no session
	all, opening, unreached, err := s.sessions.DescribeSessions(ctx)
	if err != nil {
		return s.errorResult(err)
	}
	var b strings.Builder
	if len(all)+len(opening) == 0 {
		fmt.Fprintln(&b, s.wording.NameTools("no sessions: repl creates one"))
	} else {
		writeSessionTable(&b, all, opening)
	}
	for _, why := range unreached {
		fmt.Fprintf(&b, "[%s]\n", why)
	}
	if s.client.IdleTimeout > 0 && len(all)+len(opening) > 0 {
		fmt.Fprintf(&b, "[sessions end after %s without a call]", text.CompactDuration(s.client.IdleTimeout))
	}
	return textResult(strings.TrimSuffix(b.String(), "\n"))
}

// writeSessionTable writes a table with a line for each session.
func writeSessionTable(b *strings.Builder, all []session.Info, opening []*callerstate.CallerSession) {
	table := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tLANGUAGE\tSTATE\tGENERATION\tAGE\tMEMORY\tPID\tSANDBOX")
	for _, v := range opening {
		fmt.Fprintf(table, "%s\t-\t%s\n", v.Name, v.DescribeProgress())
	}
	for _, i := range all {
		language := strings.TrimSpace(i.Language + " " + i.RuntimeVersion)
		state := i.State.String()
		if i.State == session.StateRunning {
			state += fmt.Sprintf(" %.1f s", i.TurnElapsed.Seconds())
		}
		memory, pid := "-", "-"
		if i.PID != 0 {
			memory, pid = text.Bytes(i.MemoryBytes), fmt.Sprint(i.PID)
		}
		age := time.Since(i.OpenedAt).Round(time.Second)
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\n", i.Name, language, state, i.Generation, age, memory, pid, i.Confinement())
	}
	_ = table.Flush() // cannot fail
}

// listVariables returns the variables of a session as a table.
func (s *server) listVariables(ctx context.Context, r *toolRequest, name string) *mcp.CallToolResult {
	a, result := s.newSessionCall(ctx, r, name, time.Now().Add(defaultTimeout), false)
	if a == nil {
		return result
	}
	v, err := a.session.Variables(ctx)
	switch {
	case errors.Is(err, session.ErrBusy), errors.Is(err, session.ErrWaiting):
		return textResult(fmt.Sprintf("[session %q is busy: list its variables when its code has ended]", a.caller.Name))
	case errors.Is(err, session.ErrUnsupported):
		return textResult("[this runtime cannot list its variables]")
	case err != nil:
		return a.sessionErrorResult(ctx, err)
	case len(v.List) == 0:
		return textResult("[no variables]")
	}
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tTYPE\tSHAPE\tSIZE")
	for _, one := range v.List {
		shape, size := "-", "-"
		if one.Shape != "" {
			shape = tableCell(one.Shape)
		}
		if one.Bytes > 0 {
			size = text.Bytes(int64(min(one.Bytes, math.MaxInt64)))
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", tableCell(one.Name), tableCell(one.Type), shape, size)
	}
	_ = table.Flush() // cannot fail
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	shown, most := len(lines), a.call.replyBudget()
	for size := len(b.String()); size > most.Chars-reply.ReservedStateChars && shown > 1; shown-- {
		size -= len(lines[shown-1]) + 1
	}
	text := strings.Join(lines[:shown], "\n")
	if more := v.More + len(lines) - shown; more > 0 {
		text += fmt.Sprintf("\n[%d more]", more)
	}
	return textResult(text)
}

// tableCell shortens a text to one line for a table.
func tableCell(s string) string {
	const most = 60 // characters
	return text.Fit(text.OneLine(timeline.TerminalText(s)), most)
}
