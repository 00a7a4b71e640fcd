package elicitation

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/turnstone-repl/turnstone/internal/browserprompt"
	"github.com/turnstone-repl/turnstone/internal/mcpserver/reply"
	"github.com/turnstone-repl/turnstone/session"
)

// answerKey is the name of the only question in a result, and of the field with its answer.
const answerKey = "answer"

// An answerSchema is the schema of a form of this package. Its type distinguishes it from the forms
// of other packages, which may have a field of the same name.
type answerSchema map[string]any

// A questionKind is a way in which a client can ask its user a question.
type questionKind uint8

const (
	questionNone questionKind = iota
	questionForm              // the client asks, and returns the answer
	questionPage              // the client sends the user to a page of this server
)

// questionKind returns how the client can ask its user for the answer to w. The protocol requires
// a page for secrets, if the user can probably reach one.
func (c *AskingCall) questionKind(w *session.InputRequest) questionKind {
	can := c.Request.ClientCapabilities()
	if can == nil || can.Elicitation == nil || !c.Tool.CanAskClient() {
		return questionNone
	}
	page := can.Elicitation.URL != nil
	form := can.Elicitation.Form != nil || !page // a client that names no mode predates modes, and has forms
	if form && !(page && w.Secret && c.Asker.HasBrowser) {
		return questionForm
	}
	return questionPage
}

// A Question is a question for the user, as parameters for the client or as a page.
type Question struct {
	params       *mcp.ElicitParams
	pageAccepted bool   // the user has agreed to answer on a page
	isServerPage bool   // the page belongs to a tool server: accepting it is the answer
	removePage   func() // closes the page, if any
	isAsked      bool   // an openQuestion removes the page
}

// Requests returns the question as the part of a result that makes the client ask.
func (q *Question) Requests() mcp.InputRequestMap { return mcp.InputRequestMap{answerKey: q.params} }

// AnswerIn returns the client's answer to the only question of a result.
func AnswerIn(responses mcp.InputResponseMap) (answer *mcp.ElicitResult, ok bool) {
	answer, ok = responses[answerKey].(*mcp.ElicitResult)
	return answer, ok
}

// DropUnasked removes the page of a question that was never asked.
func (q *Question) DropUnasked() {
	if !q.isAsked {
		q.removePage()
	}
}

// isAnsweredOnPage reports whether the user chose to answer on a page of this server.
func isAnsweredOnPage(q *Question, r *mcp.ElicitResult) bool {
	return q.params.Mode == "url" && !q.isServerPage && r.Action == "accept" && r.Content == nil
}

// newQuestion returns the question for the answer to w. It names the program that asks, because
// the prompt itself may claim anything.
func (c *AskingCall) newQuestion(w *session.InputRequest) (*Question, error) {
	switch {
	case w.Permission != nil:
		return c.newPermissionQuestion(w)
	case w.Form != nil:
		return c.newFormQuestion(w)
	}
	about := fmt.Sprintf("Code in the REPL session %q", c.SessionName)
	if w.Terminal && w.Reader != "" {
		about = fmt.Sprintf("%s, run by code in the REPL session %q,", w.Reader, c.SessionName)
	}
	about, colon := about+" asks for input", ": "
	if w.Secret {
		about += " that must stay secret. The answer goes to the code, not into the conversation. If the code prints it unchanged, the model sees [secret]"
		colon = ". The question is: "
	}
	message, prompt := about, reply.OneLine(w.Prompt)
	if prompt != "" {
		message += colon + prompt
	}
	if c.questionKind(w) == questionPage {
		user := c.asUser()
		return c.newPageQuestion(message, &browserprompt.Page{Title: about, Prompt: prompt, Secret: w.Secret, Answer: func(ctx context.Context, text string) error {
			err := answerAs(ctx, user, w, userInput(text))
			if errors.Is(err, session.ErrStale) {
				return browserprompt.ErrQuestionClosed
			}
			return err
		}})
	}
	title := prompt
	if title == "" {
		title = "Input"
	}
	return &Question{
		params: &mcp.ElicitParams{Mode: "form", Message: message, RequestedSchema: answerSchema{
			"type":       "object",
			"properties": map[string]any{answerKey: map[string]any{"type": "string", "title": title}},
			"required":   []string{answerKey},
		}},
		removePage: func() {},
	}, nil
}

// newPageQuestion returns a question that the user answers on a page of this server.
func (c *AskingCall) newPageQuestion(message string, p *browserprompt.Page) (*Question, error) {
	address, remove, err := c.Asker.Pages.Add(p)
	if err != nil {
		return nil, fmt.Errorf("cannot create the page for the user's answer: %w", err)
	}
	return &Question{params: &mcp.ElicitParams{Mode: "url", Message: message, URL: address, ElicitationID: rand.Text()}, removePage: remove}, nil
}

// newFormQuestion returns the question of a tool server for the user. The client gets the
// server's form or URL unchanged. A client without forms gets a page of this server.
func (c *AskingCall) newFormQuestion(w *session.InputRequest) (*Question, error) {
	message := fmt.Sprintf("In the REPL session %q, %s", c.SessionName, w.Form.Question())
	if w.Form.URL != "" && c.Request.ClientCapabilities().Elicitation.URL != nil {
		return &Question{
			params:       &mcp.ElicitParams{Mode: "url", Message: message, URL: w.Form.URL, ElicitationID: rand.Text()},
			isServerPage: true, removePage: func() {},
		}, nil
	}
	if c.questionKind(w) == questionPage {
		user := c.asUser()
		return c.newPageQuestion(message, &browserprompt.Page{Title: fmt.Sprintf("A question in the REPL session %q", c.SessionName), Prompt: w.Form.Question(), Form: w.Form, Answer: func(ctx context.Context, text string) error {
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
	return &Question{params: &mcp.ElicitParams{Mode: "form", Message: message, RequestedSchema: schema}, removePage: func() {}}, nil
}

// choiceAllowWider returns the choice that gives the wider grant of a permission: for a tool, all
// tools of its server that are not destructive.
func choiceAllowWider(g *session.Grant) string {
	return "allow all of " + g.Call + " that are not destructive, in this session"
}

// permissionChoices returns the choices for a permission.
func permissionChoices(p *session.PermissionRequest) []string {
	if p.FileGrant() != nil {
		return []string{choiceAllowSession, choiceAllowFile, choiceAllowAlways, choiceDeny}
	}
	if p.Wider == nil {
		return []string{choiceAllowSession, choiceAllowAlways, choiceDeny}
	}
	return []string{choiceAllowSession, choiceAllowWider(p.Wider), choiceAllowAlways, choiceDeny}
}

// canAskUser reports whether the client can ask its user the question.
func (c *AskingCall) canAskUser(w *session.InputRequest) bool {
	return c.questionKind(w) != questionNone
}

// newPermissionQuestion returns the question for the user. It names the path unchanged, and
// quotes it where it could be mistaken for something else, because code has chosen it.
func (c *AskingCall) newPermissionQuestion(w *session.InputRequest) (*Question, error) {
	about := fmt.Sprintf("In the REPL session %q, %s", c.SessionName, w.Permission.Question())
	choices := permissionChoices(w.Permission)
	if c.questionKind(w) == questionPage {
		user := c.asUser()
		return c.newPageQuestion(about, &browserprompt.Page{Title: fmt.Sprintf("A question about the REPL session %q", c.SessionName), Prompt: about, Choices: choices, Answer: func(ctx context.Context, text string) error {
			err := applyChoice(ctx, user, *w.Permission, text)
			if errors.Is(err, session.ErrStale) {
				return browserprompt.ErrQuestionClosed
			}
			return err
		}})
	}
	return &Question{
		params: &mcp.ElicitParams{
			Mode:    "form",
			Message: about,
			RequestedSchema: answerSchema{
				"type": "object",
				"properties": map[string]any{answerKey: map[string]any{
					"type": "string", "title": "Permission", "enum": choices,
				}},
				"required": []string{answerKey},
			},
		},
		removePage: func() {},
	}, nil
}
