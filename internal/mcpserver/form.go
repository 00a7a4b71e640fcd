package mcpserver

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/turnstone-repl/turnstone/internal/browserprompt"
	"github.com/turnstone-repl/turnstone/session"
)

// newFormQuestion returns the question of a tool server for the user. The client gets the
// server's form or URL unchanged. A client without forms gets a page of this server.
func (sc *sessionCall) newFormQuestion(w *session.InputRequest) (*userQuestion, error) {
	message := fmt.Sprintf("In the REPL session %q, %s", sc.caller.name, w.Form.Question())
	if w.Form.URL != "" && sc.call.sdk.ClientCapabilities().Elicitation.URL != nil {
		return &userQuestion{
			params:       &mcp.ElicitParams{Mode: "url", Message: message, URL: w.Form.URL, ElicitationID: rand.Text()},
			isServerPage: true, removePage: func() {},
		}, nil
	}
	if sc.call.questionKind(w) == questionPage {
		user := sc.asUser()
		return sc.newPageQuestion(message, &browserprompt.Page{Title: fmt.Sprintf("A question in the REPL session %q", sc.caller.name), Prompt: w.Form.Question(), Form: w.Form, Answer: func(ctx context.Context, text string) error {
			err := answerAs(ctx, user, w, session.Input{Data: []byte(text)})
			if errors.Is(err, session.ErrStale) {
				return browserprompt.ErrQuestionClosed
			}
			return err
		}})
	}
	schema := w.Form.Schema
	if len(schema) == 0 {
		schema = json.RawMessage(`{"type":"object","properties":{}}`)
	}
	return &userQuestion{params: &mcp.ElicitParams{Mode: "form", Message: message, RequestedSchema: schema}, removePage: func() {}}, nil
}

// applyForm submits the user's answer to a form.
func (sc *sessionCall) applyForm(ctx context.Context, w *session.InputRequest, answer *mcp.ElicitResult) (bool, *mcp.CallToolResult) {
	filled := session.FormAnswer{Action: session.FormAction(answer.Action), Content: answer.Content}
	return sc.answerRequest(ctx, w, sc.asUser(), filled.Input())
}
