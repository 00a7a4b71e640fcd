package mcpclient

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
)

// handleElicitation passes a request for user input from the server on to the user. The user is
// asked in the turn of an open call. When that call ends, the request is withdrawn.
func (s *toolServer) handleElicitation(ctx context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
	one := s.askingCall(ctx)
	if one == nil { // no call is open
		return &mcp.ElicitResult{Action: string(session.FormDecline)}, nil
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(one.ctx, stop)()
	answer, err := s.askUser(ctx, one.Caller, r.Params)
	if err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "cannot ask the user: " + err.Error()}
	}
	return &mcp.ElicitResult{Action: string(answer.Action), Content: answer.Content}, nil
}

// askingCall returns the call for which the server asks, or nil. Before version 2026-07-28,
// requests do not name their call; then askingCall returns the newest open call.
func (s *toolServer) askingCall(ctx context.Context) *openCall {
	if caller := supervisor.CallerOf(ctx); caller.Session != nil {
		return &openCall{Caller: caller, ctx: ctx}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var last *openCall
	for _, one := range s.openCalls {
		if last == nil || one.number > last.number {
			last = one
		}
	}
	return last
}

// askUser asks the user. The error says why that is not possible.
func (s *toolServer) askUser(ctx context.Context, caller supervisor.Caller, p *mcp.ElicitParams) (session.FormAnswer, error) {
	form := session.Form{Server: s.Name, Message: p.Message, URL: p.URL}
	if p.URL != "" {
		if to, err := url.Parse(p.URL); err != nil || to.Host == "" || to.Scheme != "https" && to.Scheme != "http" {
			return session.FormAnswer{}, fmt.Errorf("%q is not a web address", p.URL)
		}
		form.URL = p.URL
	} else if text, ok := p.Meta[schemaKey].(string); ok {
		form.Schema = json.RawMessage(text)
	} else {
		form.Schema = orderedSchema(p.RequestedSchema)
	}
	return caller.Ask(ctx, form)
}

// askToVisit asks the user to open the URLs that a server requires before a call. It always
// returns an error for that call, because the server does not report when the user is done.
func (s *toolServer) askToVisit(ctx context.Context, caller supervisor.Caller, refusal *jsonrpc.Error) error {
	var wanted struct {
		Elicitations []*mcp.ElicitParams `json:"elicitations"`
	}
	_ = json.Unmarshal(refusal.Data, &wanted) // without URLs, only the message is shown
	for _, one := range wanted.Elicitations {
		if one == nil || one.URL == "" {
			continue
		}
		answer, err := s.askUser(ctx, caller, one)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return &supervisor.CallError{Name: "ToolError", Message: fmt.Sprintf("%s (cannot ask the user: %v)", refusal.Message, err)}
		case answer.Action != session.FormAccept:
			return &supervisor.CallError{Name: "ToolError", Message: refusal.Message + " (the user declined)"}
		}
	}
	return &supervisor.CallError{Name: "ToolError", Message: refusal.Message + " (the user was asked to do this; call again when they have)"}
}
