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
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// interrupt returns the tool repl_interrupt.
func (s *server) interrupt(ctx context.Context, r *request, arguments json.RawMessage) *mcp.CallToolResult {
	args, err := decode[sessionArgs](r, arguments)
	if err != nil {
		return failure(err)
	}
	a, result := s.askAbout(ctx, r, args.Session, time.Now().Add(defaultTimeout), false)
	if a == nil {
		return result
	}
	a.view.cutOff(ctx, r.Call)
	if err := a.interruptNow(ctx); err != nil {
		return failure(err)
	}
	a.view.expectCode()
	return a.replyNow(ctx, a.now)
}

// reset returns the tool repl_reset. It waits until the new interpreter is ready, or ends the
// session for good.
func (s *server) reset(ctx context.Context, r *request, arguments json.RawMessage) *mcp.CallToolResult {
	args, err := decode[resetArgs](r, arguments)
	if err != nil {
		return failure(err)
	}
	// A call that may mean another session must not destroy variables.
	if err := needsKnown[resetArgs](r); err != nil {
		return failure(err)
	}
	a, result := s.askAbout(ctx, r, args.Session, time.Now().Add(defaultTimeout), false)
	if a == nil {
		return result
	}
	if args.Close {
		return a.end(ctx)
	}
	a.view.cutOff(ctx, r.Call)
	if err := a.session.Reset(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return failure(err)
	}
	a.view.expectCode()
	a.restarted = true
	return a.poll(ctx)
}

// end closes the session, even while code runs.
func (a *sessionCall) end(ctx context.Context) *mcp.CallToolResult {
	if err := a.session.Close(ctx); err != nil {
		return a.sessionFailure(ctx, err)
	}
	a.sessions.forget(a.view)
	return plain(fmt.Sprintf("[session %q is closed, and its variables are lost]", a.view.name))
}

// askAbout returns a call about an existing session, or the call's result. waits means that the
// call also waits for preparation, and not only for the start of the session.
func (s *server) askAbout(ctx context.Context, r *request, name string, deadline time.Time, waits bool) (*sessionCall, *mcp.CallToolResult) {
	v, err := r.named(ctx, func() (*view, error) { return s.sessions.find(name, r.codex) })
	switch {
	case ctx.Err() != nil:
		return nil, nil
	case err != nil:
		return nil, failure(err)
	}
	until := deadline
	if !waits && v.preparing.isUnderWay() {
		until = time.Now() // preparation may take minutes, and there is nothing to act on
	}
	session, result := s.opened(ctx, r, v, until, "call repl_output to wait")
	if session == nil {
		return nil, result
	}
	a := &sessionCall{server: s, call: r, view: v, session: session, asked: time.Now(), deadline: deadline, limit: time.Now().Add(r.patience())}
	if !a.awaitEarlierCalls(ctx) && ctx.Err() != nil { // when time is up it goes on: the code that it must stop may be in its way
		return nil, nil
	}
	return a, nil
}

// list returns the tool repl_sessions.
func (s *server) list(ctx context.Context, r *request, arguments json.RawMessage) *mcp.CallToolResult {
	args, err := decode[sessionArgs](r, arguments)
	if err != nil {
		return failure(err)
	}
	if args.Session != "" {
		return s.variables(ctx, r, args.Session)
	}
	r.letNextPass() // it is about no session
	all, opening, unreached, err := s.sessions.describe(ctx)
	if err != nil {
		return failure(err)
	}
	var b strings.Builder
	listSessions(&b, all, opening)
	for _, why := range unreached {
		fmt.Fprintf(&b, "[%s]\n", why)
	}
	if s.sessions.idle > 0 && len(all)+len(opening) > 0 {
		fmt.Fprintf(&b, "[a session that no call names for %s is ended]", spell(s.sessions.idle))
	}
	return plain(strings.TrimSuffix(b.String(), "\n"))
}

// listSessions writes a line for each session.
func listSessions(b *strings.Builder, all []session.Info, opening []*view) {
	if len(all)+len(opening) == 0 {
		fmt.Fprintln(b, "no sessions: repl makes one")
		return
	}
	table := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tLANGUAGE\tSTATE\tGENERATION\tAGE\tMEMORY\tPID\tSANDBOX")
	for _, v := range opening {
		fmt.Fprintf(table, "%s\t-\t%s\n", v.name, v.preparing.text())
	}
	for _, i := range all {
		language := strings.TrimSpace(i.Language + " " + i.RuntimeVersion)
		state := i.State.String()
		if i.State == session.StateRunning {
			state += fmt.Sprintf(" %.1f s", i.TurnElapsed.Seconds())
		}
		memory, pid := "-", "-"
		if i.PID != 0 {
			memory, pid = timeline.FormatBytes(i.MemoryBytes), fmt.Sprint(i.PID)
		}
		age := time.Since(i.OpenedAt).Round(time.Second)
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\n", i.Name, language, state, i.Generation, age, memory, pid, i.Confinement())
	}
	_ = table.Flush() // to memory
}

// variables lists the variables of a session.
func (s *server) variables(ctx context.Context, r *request, name string) *mcp.CallToolResult {
	a, result := s.askAbout(ctx, r, name, time.Now().Add(defaultTimeout), false)
	if a == nil {
		return result
	}
	v, err := a.session.Variables(ctx)
	switch {
	case errors.Is(err, session.ErrBusy), errors.Is(err, session.ErrWaiting):
		return plain(fmt.Sprintf("[session %q is busy: its variables are listed when its code has ended]", a.view.name))
	case errors.Is(err, session.ErrUnsupported):
		return plain("[this runtime does not list its variables]")
	case err != nil:
		return a.sessionFailure(ctx, err)
	case len(v.List) == 0:
		return plain("[no variables]")
	}
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tTYPE\tSHAPE\tSIZE")
	for _, one := range v.List {
		shape, size := "-", "-"
		if one.Shape != "" {
			shape = cell(one.Shape)
		}
		if one.Bytes > 0 {
			size = timeline.FormatBytes(int64(min(one.Bytes, math.MaxInt64)))
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", cell(one.Name), cell(one.Type), shape, size)
	}
	_ = table.Flush() // to memory
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	shown, most := len(lines), a.call.budget()
	for size := len(b.String()); size > most.chars-stateChars && shown > 1; shown-- {
		size -= len(lines[shown-1]) + 1
	}
	text := strings.Join(lines[:shown], "\n")
	if more := v.More + len(lines) - shown; more > 0 {
		text += fmt.Sprintf("\n[%d more]", more)
	}
	return plain(text)
}

// cell returns a text for a table: on one line, and not too long.
func cell(s string) string {
	const most = 60 // characters
	shown := []rune(strings.Join(strings.Fields(timeline.TerminalText(s)), " "))
	if len(shown) > most {
		shown = append(shown[:most-1], '…')
	}
	return string(shown)
}
