package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/turnstone-repl/turnstone/internal/browserprompt"
	"github.com/turnstone-repl/turnstone/internal/mcpserver/reply"
	"github.com/turnstone-repl/turnstone/session"
)

// The choices of a user who is asked for a permission, as the client shows them.
const (
	choiceAllowSession = "allow in this session"
	choiceAllowAlways  = "always allow in this workspace"
	choiceDeny         = "no"
)

// choiceAllowWider returns the choice that gives the wider grant of a permission: for a tool, all
// tools of its server that are not destructive.
func choiceAllowWider(g *session.Grant) string {
	return "allow all of " + g.Call + " that are not destructive, in this session"
}

// permissionChoices returns the choices for a permission.
func permissionChoices(p *session.PermissionRequest) []string {
	if p.Wider == nil {
		return []string{choiceAllowSession, choiceAllowAlways, choiceDeny}
	}
	return []string{choiceAllowSession, choiceAllowWider(p.Wider), choiceAllowAlways, choiceDeny}
}

// canAskUser reports whether the client can ask its user the question.
func (sc *sessionCall) canAskUser(w *session.InputRequest) bool {
	return sc.call.questionKind(w) != questionNone
}

// resolveUserRequest handles an input request that only a user may answer: for a permission, or
// with a form. Its results are those of resolveInputRequest. If no user is available, the request
// is refused at once.
func (sc *sessionCall) resolveUserRequest(ctx context.Context, wait waitFunc, w *session.InputRequest, beat *reply.Heartbeat) (bool, *mcp.CallToolResult) {
	if p := sc.decision; p != nil && p.requestID == w.ID {
		sc.decision = nil
		if !isAnsweredOnPage(p.question, p.answer) {
			return sc.applyDecision(ctx, w, p.answer)
		}
		p.question.pageAccepted = true
		return sc.askUser(ctx, wait, w, beat, p.question)
	}
	_, shown := sc.caller.cursorAndRequest()
	inTime := time.Now().Before(sc.deadline)
	switch {
	case !sc.canAskUser(w) && sc.session.AttachCommand == "":
		return sc.declineForUser(ctx, w)
	case !inTime:
		return false, sc.replyNow(ctx, wait)
	case !sc.canAskUser(w) && shown == w.ID:
		// The caller knows that the user must decide elsewhere, and waits for that decision.
		return sc.awaitAnswerElsewhere(ctx, wait, w, beat)
	case !sc.canAskUser(w):
		return false, sc.replyNow(ctx, wait)
	}
	return sc.askUserOnce(ctx, wait, w, beat)
}

// declineForUser declines an input request because no user is available to answer.
func (sc *sessionCall) declineForUser(ctx context.Context, w *session.InputRequest) (bool, *mcp.CallToolResult) {
	if w.Permission != nil {
		return sc.decidePermission(ctx, w, choiceDeny)
	}
	sc.addNotice("no user is available to answer, so this was declined: %s", reply.OneLine(w.Form.Question()))
	return sc.answerRequest(ctx, w, sc.session, session.FormAnswer{Action: session.FormDecline}.Input())
}

// newPermissionQuestion returns the question for the user. It names the path unchanged, and
// quotes it where it could be mistaken for something else, because code has chosen it.
func (sc *sessionCall) newPermissionQuestion(w *session.InputRequest) (*userQuestion, error) {
	about := fmt.Sprintf("In the REPL session %q, %s", sc.caller.name, w.Permission.Question())
	choices := permissionChoices(w.Permission)
	if sc.call.questionKind(w) == questionPage {
		user := sc.asUser()
		return sc.newPageQuestion(about, &browserprompt.Page{Title: fmt.Sprintf("A question about the REPL session %q", sc.caller.name), Prompt: about, Choices: choices, Answer: func(ctx context.Context, text string) error {
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

// applyPermission applies the user's decision about a permission. Only the offered choices allow
// anything.
func (sc *sessionCall) applyPermission(ctx context.Context, w *session.InputRequest, answer *mcp.ElicitResult) (bool, *mcp.CallToolResult) {
	if answer.Action != "accept" {
		return sc.decidePermission(ctx, w, choiceDeny)
	}
	text, _ := answer.Content[answerKey].(string)
	if slices.Contains(permissionChoices(w.Permission), text) {
		return sc.decidePermission(ctx, w, text)
	}
	return false, sc.replyUnanswered(ctx)
}

// decidePermission applies a decision, and so ends the input request.
func (sc *sessionCall) decidePermission(ctx context.Context, w *session.InputRequest, decision string) (bool, *mcp.CallToolResult) {
	err := applyChoice(ctx, sc.asUser(), *w.Permission, decision)
	switch {
	case err == nil, errors.Is(err, session.ErrStale):
		return true, nil
	case ctx.Err() != nil:
		return false, nil
	case sc.session.InfoOrEnded(ctx).InputRequest == nil: // it was allowed, but did not fully work
		sc.addNotice("%s", err)
		return true, nil
	}
	// The question is still open, and with it the blocked call. It must not be asked again.
	sc.addNotice("the permission could not be granted: %s", err)
	if e := sc.asUser().AnswerPermission(ctx, w.Permission.ID, false); e != nil && !errors.Is(e, session.ErrStale) {
		return false, errorResult(errors.Join(err, e))
	}
	return true, nil
}

// applyChoice applies a choice of the user.
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

// userRequestAdvice says what the model can do about an input request that only a user may
// answer.
func (sc *sessionCall) userRequestAdvice(w *session.InputRequest) string {
	const giveUp = "repl_interrupt gives up"
	switch {
	case sc.caller.isUserAsked():
		return ": the user is being asked; repl_output waits, " + giveUp
	case sc.canAskUser(w):
		return ": only the user may decide; repl_output has them asked, " + giveUp
	case sc.session.AttachCommand != "" && w.Form != nil:
		return fmt.Sprintf(": only the user may answer, not you; tell them to run this in a terminal and answer there: %s (repl_output waits for that, %s)", sc.session.AttachCommand, giveUp)
	case sc.session.AttachCommand != "":
		return fmt.Sprintf(": only the user may allow it, not you; tell them to run this in a terminal: %s (or with --deny to refuse). repl_output waits for that, %s", sc.session.AllowCommand(w.Permission.Grant), giveUp)
	}
	return ": repl_output continues"
}
