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

// handleElicitation passes a question of the server on to a person, who is asked in the turn of a call that
// runs. The end of that call withdraws the question.
func (s *server) handleElicitation(ctx context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
	one := s.askingCall(ctx)
	if one == nil { // nobody has called it
		return &mcp.ElicitResult{Action: string(session.FormDecline)}, nil
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(one.ctx, stop)()
	answer, err := s.askUser(ctx, one.Caller, r.Params)
	if err != nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the question cannot be put to a person: " + err.Error()}
	}
	return &mcp.ElicitResult{Action: string(answer.Action), Content: answer.Content}, nil
}

// askingCall returns the call because of which the server asks; nil if none runs. Versions before
// 2026-07-28 do not say which it is: then it is the one that began last.
func (s *server) askingCall(ctx context.Context) *openCall {
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

// askUser asks a person. The error says why nobody can be asked that.
func (s *server) askUser(ctx context.Context, caller supervisor.Caller, p *mcp.ElicitParams) (session.FormAnswer, error) {
	form := session.Form{Server: s.Name, Message: p.Message, URL: p.URL}
	if p.URL != "" {
		if to, err := url.Parse(p.URL); err != nil || to.Host == "" || to.Scheme != "https" && to.Scheme != "http" {
			return session.FormAnswer{}, fmt.Errorf("%q is no address for a browser", p.URL)
		}
		form.URL = p.URL
	} else if text, ok := p.Meta[schemaKey].(string); ok {
		form.Schema = json.RawMessage(text)
	} else {
		form.Schema = orderedSchema(p.RequestedSchema)
	}
	return caller.Ask(ctx, form)
}

// askToVisit asks a person to go to the addresses that a server wants visited before a call, and
// returns the error of that call: when the person is done there, only they and the code know.
func (s *server) askToVisit(ctx context.Context, caller supervisor.Caller, told *jsonrpc.Error) error {
	var wanted struct {
		Elicitations []*mcp.ElicitParams `json:"elicitations"`
	}
	_ = json.Unmarshal(told.Data, &wanted) // without any, the words of the server are all there is
	for _, one := range wanted.Elicitations {
		if one == nil || one.URL == "" {
			continue
		}
		answer, err := s.askUser(ctx, caller, one)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return &supervisor.CallError{Name: "ToolError", Message: fmt.Sprintf("%s (it cannot be put to a person: %v)", told.Message, err)}
		case answer.Action != session.FormAccept:
			return &supervisor.CallError{Name: "ToolError", Message: told.Message + " (the person did not agree to that)"}
		}
	}
	return &supervisor.CallError{Name: "ToolError", Message: told.Message + " (the person was asked to do that: call again when they have)"}
}
