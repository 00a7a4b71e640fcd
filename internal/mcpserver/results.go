package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/turnstone-repl/turnstone/internal/mcpserver/backend"
	"github.com/turnstone-repl/turnstone/internal/mcpserver/reply"
	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/session"
)

// renderReply makes a result of new events.
func (sc *sessionCall) renderReply(ctx context.Context, r session.Reply) *mcp.CallToolResult {
	state := reply.CallState{
		Session: sc.caller.name, TranscriptName: sc.session.TranscriptName(), Author: sc.session.Author(),
		RewriteEvent: sc.session.RewriteEvent,
		Profile:      sc.call.clientProfile(), Images: sc.caller.imageStore(), ImageSide: sc.imageSide,
		FirstLine: sc.firstLine, Facts: slices.Clone(sc.notices),
		FullScreen: sc.fullScreen, StartFailed: sc.caller.hasFailedStart(),
		Ran: sc.ran, Started: sc.started, Restarted: sc.restarted,
		Refused: sc.refused, Refusal: sc.refusal, IgnoredInterrupts: sc.ignoredInterrupts,
	}
	if notice := sc.outageNotice(); notice != "" {
		state.Facts = append(state.Facts, notice)
	}
	if sc.deniedReads > 0 {
		state.Facts = append(state.Facts, "standard input is at its end: --stdin deny")
	}
	if r.InputRequest != nil && !sc.stdin.allowsModel(r.InputRequest) {
		state.RequestAdvice = sc.requestAdvice(r.InputRequest)
	}
	rendered := reply.Render(ctx, state, r)
	sc.fullScreen, sc.refused = rendered.FullScreen, rendered.Refused
	return rendered.Result
}

// textResult returns a result with one text.
func textResult(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}

// resultText returns the text of a result that starts with one.
func resultText(r *mcp.CallToolResult) string {
	if t, ok := r.Content[0].(*mcp.TextContent); ok {
		return t.Text
	}
	return ""
}

// maxErrorChars bounds the text of an error, which may quote an argument of any size.
const maxErrorChars = 4000

// errorResult returns an error of this server, or about the arguments, in a form that a model can
// act on.
func errorResult(err error) *mcp.CallToolResult {
	message := text.Shorten(err.Error(), maxErrorChars)
	if kind := session.KindOf(err); kind == session.KindStart || kind == session.KindSpec {
		message += "\n[" + reply.StartAdvice + "]"
	}
	result := textResult(message)
	result.IsError = true
	return result
}

// sessionErrorResult returns the result for an error of the session, or nil if ctx ended. It
// forgets a session that no longer exists, so the next call creates another.
func (sc *sessionCall) sessionErrorResult(ctx context.Context, err error) *mcp.CallToolResult {
	switch {
	case ctx.Err() != nil:
		return nil
	case errors.Is(err, session.ErrClosed):
		sc.sessions.removeSession(sc.caller)
		return errorResult(errors.New("this session no longer exists, and its variables are lost: it was closed, or its daemon ended; the next call starts a new one"))
	}
	return errorResult(err)
}

// openErrorResult returns why a session could not be opened.
func (s *server) openErrorResult(err error) *mcp.CallToolResult {
	if failed, ok := errors.AsType[*backend.PrepareError](err); ok {
		return errorResult(fmt.Errorf("%w\n[no session was opened and nothing was run. The next call tries again; if that fails too, tell the user, who chose this when starting the server (--with)]", failed))
	}
	if !errors.Is(err, session.ErrLimit) {
		return errorResult(err)
	}
	var names []string
	for _, v := range s.sessions.allSessions() {
		names = append(names, v.name)
	}
	if len(names) == 0 {
		return errorResult(errors.New("too many sessions: all belong to other clients; call again when one of them has ended"))
	}
	return errorResult(fmt.Errorf("too many sessions: use one of %s, or close one (repl_reset, close: true)", joinNames(names, "or", "")))
}
