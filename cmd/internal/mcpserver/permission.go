package mcpserver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/turnstone-repl/turnstone/cmd/internal/askpage"
	"github.com/turnstone-repl/turnstone/session"
)

// The answers of a person who is asked for a permission. The client shows them.
const (
	allowHere   = "allow in this session"
	allowAlways = "always allow in this workspace"
	allowNot    = "no"
)

// allowWider is the answer that gives the wider right of a permission: for a tool, all of its
// server that are not destructive.
func allowWider(g *session.Grant) string {
	return "allow all of " + g.Call + " that are not destructive, in this session"
}

// offered are the answers to a permission.
func offered(p *session.PermissionRequest) []string {
	if p.Wider == nil {
		return []string{allowHere, allowAlways, allowNot}
	}
	return []string{allowHere, allowWider(p.Wider), allowAlways, allowNot}
}

// canAskUser reports whether the client can put the question to its user.
func (a *sessionCall) canAskUser(w *session.InputRequest) bool {
	return a.call.questionKind(w) != noQuestion
}

// resolveOfPerson handles a wait that only a person may end: for a permission, or with a form. Its
// results are those of resolveWait. Where nobody can be asked it is refused at once.
func (a *sessionCall) resolveOfPerson(ctx context.Context, wait waiter, w *session.InputRequest, beat *heartbeat) (bool, *mcp.CallToolResult) {
	if p := a.decision; p != nil && p.wait == w.ID {
		a.decision = nil
		if !onPage(p.question, p.answer) {
			return a.applyDecision(ctx, w, p.answer)
		}
		p.question.allowed = true
		return a.askPerson(ctx, wait, w, beat, p.question)
	}
	_, shown := a.view.knows()
	inTime := time.Now().Before(a.deadline)
	switch {
	case !a.canAskUser(w) && a.session.ByHand == "":
		return a.refuseForUser(ctx, w)
	case !inTime:
		return false, a.replyNow(ctx, wait)
	case !a.canAskUser(w) && shown == w.ID:
		// The caller knows that the user must decide elsewhere, and waits for that.
		return a.awaitElsewhere(ctx, wait, w, beat)
	case !a.canAskUser(w):
		return false, a.replyNow(ctx, wait)
	}
	return a.ask(ctx, wait, w, beat)
}

// refuseForUser ends a wait that only a person may end, because nobody can be asked.
func (a *sessionCall) refuseForUser(ctx context.Context, w *session.InputRequest) (bool, *mcp.CallToolResult) {
	if w.Permission != nil {
		return a.decidePermission(ctx, w, allowNot)
	}
	a.note("nobody can be asked here, so this was declined: %s", oneLine(w.Form.Question()))
	return a.answerWait(ctx, w, a.session, session.FormAnswer{Action: session.FormDecline}.Input())
}

// permissionQuestion returns the question for the user. It names the path as it is, quoted where
// it could pass for something else: code has chosen it.
func (a *sessionCall) permissionQuestion(w *session.InputRequest) (*personQuestion, error) {
	about := fmt.Sprintf("In the REPL session %q, %s", a.view.name, w.Permission.Question())
	choices := offered(w.Permission)
	if a.call.questionKind(w) == pageQuestion {
		user := a.user()
		return a.page(about, &askpage.Page{About: fmt.Sprintf("A question about the REPL session %q", a.view.name), Prompt: about, Choices: choices, Answer: func(ctx context.Context, text string) error {
			err := decide(ctx, user, *w.Permission, text)
			if errors.Is(err, session.ErrStale) {
				return askpage.ErrOver
			}
			return err
		}})
	}
	return &personQuestion{
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
		remove: func() {},
	}, nil
}

// applyPermission applies what a person decided about a permission. Only the words that were
// offered allow anything.
func (a *sessionCall) applyPermission(ctx context.Context, w *session.InputRequest, answer *mcp.ElicitResult) (bool, *mcp.CallToolResult) {
	if answer.Action != "accept" {
		return a.decidePermission(ctx, w, allowNot)
	}
	text, _ := answer.Content[answerKey].(string)
	if slices.Contains(offered(w.Permission), text) {
		return a.decidePermission(ctx, w, text)
	}
	return false, a.unanswered(ctx)
}

// decidePermission ends the wait.
func (a *sessionCall) decidePermission(ctx context.Context, w *session.InputRequest, decision string) (bool, *mcp.CallToolResult) {
	err := decide(ctx, a.user(), *w.Permission, decision)
	switch {
	case err == nil, errors.Is(err, session.ErrStale):
		return true, nil
	case ctx.Err() != nil:
		return false, nil
	case a.session.info(ctx).InputRequest == nil: // it was allowed, and not all of it worked
		a.note("%s", err)
		return true, nil
	}
	// The question stays, and with it the held call: it must not come up again by itself.
	a.note("the permission could not be given: %s", err)
	if e := a.user().AnswerPermission(ctx, w.Permission.ID, false); e != nil && !errors.Is(e, session.ErrStale) {
		return false, failure(errors.Join(err, e))
	}
	return true, nil
}

// decide carries out a decision of the user's.
func decide(ctx context.Context, user session.Session, p session.PermissionRequest, decision string) error {
	switch g := p.Grant; decision {
	case allowAlways:
		g.Always = true
		return user.Allow(ctx, g)
	case allowHere, allowNot:
		return user.AnswerPermission(ctx, p.ID, decision == allowHere)
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

// personAdvice says what the model can do about a wait that only a person may end.
func (a *sessionCall) personAdvice(w *session.InputRequest) string {
	const giveUp = "repl_interrupt gives up"
	switch {
	case a.view.isAsked():
		return ": the user is being asked; repl_output waits, " + giveUp
	case a.canAskUser(w):
		return ": only the user may decide; repl_output has them asked, " + giveUp
	case a.session.ByHand != "" && w.Form != nil:
		return fmt.Sprintf(": only the user may answer, not you; tell them to run this in a terminal and to answer there: %s (repl_output waits for that, %s)", a.session.ByHand, giveUp)
	case a.session.ByHand != "":
		return fmt.Sprintf(": only the user may allow it, not you; tell them to run this in a terminal: %s (or with --no to refuse). repl_output waits for that, %s", a.session.AllowByHand(w.Permission.Grant), giveUp)
	}
	return ": repl_output goes on"
}
