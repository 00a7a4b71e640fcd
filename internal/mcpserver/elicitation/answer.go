package elicitation

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/turnstone-repl/turnstone/internal/mcpserver/reply"
	"github.com/turnstone-repl/turnstone/session"
)

// applyDecision applies the user's decision about an input request. An answer goes to the code; a
// refusal interrupts the code, like Ctrl-C at a prompt. So code never continues without a real
// answer.
func (c *AskingCall) applyDecision(ctx context.Context, w *session.InputRequest, answer *mcp.ElicitResult) Verdict {
	switch {
	case w.Permission != nil:
		return c.applyPermission(ctx, w, answer)
	case w.Form != nil:
		return c.applyForm(ctx, w, answer)
	}
	if answer.Action == "accept" {
		text, ok := answerText(answer.Content[answerKey])
		if !ok {
			return unresolved.withNotice("%v", errAnswerNotText) // the code still waits
		}
		return c.answerRequest(ctx, w, c.asUser(), userInput(text))
	}
	v := over.withNotice("the question was dismissed")
	if answer.Action == "decline" { // by the user, or by a client that does not ask
		v = over.withNotice("the question was declined")
	}
	if _, err := c.Session.Interrupt(ctx, w.Turn); err != nil {
		v.Next, v.Err = StepFail, err
		if ctx.Err() != nil {
			v.Next = StepStop
		}
	}
	return v
}

// answerText returns the text of an answer. Forms of some clients turn texts that look like
// numbers into numbers.
func answerText(answer any) (text string, ok bool) {
	const maxExact = 1 << 53 // larger integers are not exact
	switch v := answer.(type) {
	case string:
		return v, true
	case bool:
		return strconv.FormatBool(v), true
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), math.Abs(v) <= maxExact
	}
	return "", false
}

// ConvertAnswers converts answers to text before the SDK validates them.
func ConvertAnswers(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		result, err := next(ctx, method, req)
		answer, answered := result.(*mcp.ElicitResult)
		asked, _ := req.GetParams().(*mcp.ElicitParams)
		if err != nil || !answered || answer == nil || asked == nil {
			return result, err
		}
		if _, ours := asked.RequestedSchema.(answerSchema); ours {
			if answer.Content == nil {
				answer.Content = map[string]any{} // the SDK rejects it as no answer
			}
			if text, ok := answerText(answer.Content[answerKey]); ok {
				answer.Content[answerKey] = text
			}
		}
		return result, nil
	}
}

// answerRequest answers w. An answer that comes too late is reported as a notice.
func (c *AskingCall) answerRequest(ctx context.Context, w *session.InputRequest, as session.Session, in session.Input) Verdict {
	switch err := answerAs(ctx, as, w, in); {
	case err == nil:
		return over
	case errors.Is(err, session.ErrStale):
		if !in.EOF {
			return over.withNotice(answerTooLate)
		}
		return over
	case ctx.Err() != nil:
		return stopped
	default:
		return failed(err)
	}
}

// applyForm submits the user's answer to a form.
func (c *AskingCall) applyForm(ctx context.Context, w *session.InputRequest, answer *mcp.ElicitResult) Verdict {
	filled := session.FormAnswer{Action: session.FormAction(answer.Action), Content: answer.Content}
	return c.answerRequest(ctx, w, c.asUser(), filled.Input())
}

// declineForUser declines an input request because no user is available to answer.
func (c *AskingCall) declineForUser(ctx context.Context, w *session.InputRequest) Verdict {
	if w.Permission != nil {
		return c.decidePermission(ctx, w, c.Session.As(""), choiceDeny) // no user has refused it
	}
	v := c.answerRequest(ctx, w, c.Session, session.FormAnswer{Action: session.FormDecline}.Input())
	return v.withNotice("no user is available to answer, so this was declined: %s", reply.OneLine(w.Form.Question()))
}

// applyPermission applies the user's decision about a permission. Only the offered choices allow
// anything.
func (c *AskingCall) applyPermission(ctx context.Context, w *session.InputRequest, answer *mcp.ElicitResult) Verdict {
	if answer.Action != "accept" {
		return c.decidePermission(ctx, w, c.asUser(), choiceDeny)
	}
	text, _ := answer.Content[answerKey].(string)
	if slices.Contains(permissionChoices(w.Permission), text) {
		return c.decidePermission(ctx, w, c.asUser(), text)
	}
	return unresolved.withNotice("%v", errAnswerNotText) // the code still waits
}

// decidePermission applies a decision under the author of by, and so ends the input request.
func (c *AskingCall) decidePermission(ctx context.Context, w *session.InputRequest, by session.Session, decision string) Verdict {
	err := applyChoice(ctx, by, *w.Permission, decision)
	switch {
	case err == nil, errors.Is(err, session.ErrStale):
		return over
	case ctx.Err() != nil:
		return stopped
	case c.Session.InfoOrEnded(ctx).InputRequest == nil: // it was allowed, but did not fully work
		return over.withNotice("%s", err)
	}
	// The question is still open, and with it the blocked call. It must not be asked again.
	v := over
	if e := c.asUser().AnswerPermission(ctx, w.Permission.ID, false); e != nil && !errors.Is(e, session.ErrStale) {
		v = failed(errors.Join(err, e))
	}
	return v.withNotice("the permission could not be granted: %s", err)
}
