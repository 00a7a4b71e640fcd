package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/turnstone-repl/turnstone/cmd/internal/browserprompt"
	"github.com/turnstone-repl/turnstone/session"
)

// The answers of a person who is asked for a permission. The client shows them.
const (
	choiceAllowSession = "allow in this session"
	choiceAllowAlways  = "always allow in this workspace"
	choiceDeny         = "no"
)

// choiceAllowWider is the answer that gives the wider right of a permission: for a tool, all of its
// server that are not destructive.
func choiceAllowWider(g *session.Grant) string {
	return "allow all of " + g.Call + " that are not destructive, in this session"
}

// permissionChoices are the answers to a permission.
func permissionChoices(p *session.PermissionRequest) []string {
	if p.Wider == nil {
		return []string{choiceAllowSession, choiceAllowAlways, choiceDeny}
	}
	return []string{choiceAllowSession, choiceAllowWider(p.Wider), choiceAllowAlways, choiceDeny}
}

// canAskUser reports whether the client can put the question to its user.
func (a *sessionCall) canAskUser(w *session.InputRequest) bool {
	return a.call.questionKind(w) != questionNone
}

// resolveUserRequest handles a wait that only a person may end: for a permission, or with a form. Its
// results are those of resolveInputRequest. Where nobody can be asked it is refused at once.
func (a *sessionCall) resolveUserRequest(ctx context.Context, wait waitFunc, w *session.InputRequest, beat *heartbeat) (bool, *mcp.CallToolResult) {
	if p := a.decision; p != nil && p.requestID == w.ID {
		a.decision = nil
		if !isAnsweredOnPage(p.question, p.answer) {
			return a.applyDecision(ctx, w, p.answer)
		}
		p.question.pageAccepted = true
		return a.askUser(ctx, wait, w, beat, p.question)
	}
	_, shown := a.caller.cursorAndRequest()
	inTime := time.Now().Before(a.deadline)
	switch {
	case !a.canAskUser(w) && a.session.AttachCommand == "":
		return a.declineForUser(ctx, w)
	case !inTime:
		return false, a.replyNow(ctx, wait)
	case !a.canAskUser(w) && shown == w.ID:
		// The caller knows that the user must decide elsewhere, and waits for that.
		return a.awaitAnswerElsewhere(ctx, wait, w, beat)
	case !a.canAskUser(w):
		return false, a.replyNow(ctx, wait)
	}
	return a.askUserOnce(ctx, wait, w, beat)
}

// declineForUser ends a wait that only a person may end, because nobody can be asked.
func (a *sessionCall) declineForUser(ctx context.Context, w *session.InputRequest) (bool, *mcp.CallToolResult) {
	if w.Permission != nil {
		return a.decidePermission(ctx, w, choiceDeny)
	}
	a.addNotice("nobody can be asked here, so this was declined: %s", oneLine(w.Form.Question()))
	return a.answerRequest(ctx, w, a.session, session.FormAnswer{Action: session.FormDecline}.Input())
}

// newPermissionQuestion returns the question for the user. It names the path as it is, quoted where
// it could pass for something else: code has chosen it.
func (a *sessionCall) newPermissionQuestion(w *session.InputRequest) (*userQuestion, error) {
	about := fmt.Sprintf("In the REPL session %q, %s", a.caller.name, w.Permission.Question())
	choices := permissionChoices(w.Permission)
	if a.call.questionKind(w) == questionPage {
		user := a.asUser()
		return a.newPageQuestion(about, &browserprompt.Page{Title: fmt.Sprintf("A question about the REPL session %q", a.caller.name), Prompt: about, Choices: choices, Answer: func(ctx context.Context, text string) error {
			err := applyChoice(ctx, user, *w.Permission, text)
			if errors.Is(err, session.ErrStale) {
				return browserprompt.ErrQuestionClosed
			}
			return err
		}})
	}
	return &userQuestion{
		params: &mcp.ElicitParams{
			Mode:    "form",
			Message: about,
			RequestedSchema: map[string]any{
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

// applyPermission applies what a person decided about a permission. Only the words that were
// offered allow anything.
func (a *sessionCall) applyPermission(ctx context.Context, w *session.InputRequest, answer *mcp.ElicitResult) (bool, *mcp.CallToolResult) {
	if answer.Action != "accept" {
		return a.decidePermission(ctx, w, choiceDeny)
	}
	text, _ := answer.Content[answerKey].(string)
	if slices.Contains(permissionChoices(w.Permission), text) {
		return a.decidePermission(ctx, w, text)
	}
	return false, a.replyUnanswered(ctx)
}

// decidePermission ends the wait.
func (a *sessionCall) decidePermission(ctx context.Context, w *session.InputRequest, decision string) (bool, *mcp.CallToolResult) {
	err := applyChoice(ctx, a.asUser(), *w.Permission, decision)
	switch {
	case err == nil, errors.Is(err, session.ErrStale):
		return true, nil
	case ctx.Err() != nil:
		return false, nil
	case a.session.infoOrEnded(ctx).InputRequest == nil: // it was allowed, and not all of it worked
		a.addNotice("%s", err)
		return true, nil
	}
	// The question stays, and with it the held call: it must not come up again by itself.
	a.addNotice("the permission could not be given: %s", err)
	if e := a.asUser().AnswerPermission(ctx, w.Permission.ID, false); e != nil && !errors.Is(e, session.ErrStale) {
		return false, errorResult(errors.Join(err, e))
	}
	return true, nil
}

// applyChoice carries out a decision of the user's.
func applyChoice(ctx context.Context, user session.Session, p session.PermissionRequest, decision string) error {
	switch g := p.Grant; decision {
	case choiceAllowAlways:
		g.Always = true
		return user.Allow(ctx, g)
	case choiceAllowSession, choiceDeny:
		return user.AnswerPermission(ctx, p.ID, decision == choiceAllowSession)
	}
	return user.Allow(ctx, *p.Wider)
}

// permissionText describes a wait for a permission.
func permissionText(w *session.InputRequest) string {
	if w.Permission.Call != "" {
		return "waiting for a permission: code wants to " + w.Permission.AccessDenied.String()
	}
	return "waiting for a permission: the sandbox holds " + w.Permission.AccessDenied.String()
}

// userRequestAdvice says what the model can do about a wait that only a person may end.
func (a *sessionCall) userRequestAdvice(w *session.InputRequest) string {
	const giveUp = "repl_interrupt gives up"
	switch {
	case a.caller.isUserAsked():
		return ": the user is being asked; repl_output waits, " + giveUp
	case a.canAskUser(w):
		return ": only the user may decide; repl_output has them asked, " + giveUp
	case a.session.AttachCommand != "" && w.Form != nil:
		return fmt.Sprintf(": only the user may answer, not you; tell them to run this in a terminal and to answer there: %s (repl_output waits for that, %s)", a.session.AttachCommand, giveUp)
	case a.session.AttachCommand != "":
		return fmt.Sprintf(": only the user may allow it, not you; tell them to run this in a terminal: %s (or with --no to refuse). repl_output waits for that, %s", a.session.AllowCommand(w.Permission.Grant), giveUp)
	}
	return ": repl_output goes on"
}
