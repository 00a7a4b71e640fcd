package elicitation

import (
	"context"
	"errors"
	"time"

	"github.com/turnstone-repl/turnstone/internal/mcptransport"
	"github.com/turnstone-repl/turnstone/session"
)

// maxDeniedReads bounds the reads of one call that get end of file. Code that continues to read
// after that would read forever.
const maxDeniedReads = 100

// Resolve handles an input request that the model must not answer. wasShown means that the caller
// knows of the request, and deadline is when the call's own timeout ends.
func (c *AskingCall) Resolve(ctx context.Context, w *session.InputRequest, wasShown bool, deadline time.Time) Verdict {
	if p := c.decision; p != nil && p.requestID == w.ID {
		c.decision = nil
		if !isAnsweredOnPage(p.question, p.answer) {
			return c.applyDecision(ctx, w, p.answer)
		}
		p.question.pageAccepted = true
		return c.askUser(ctx, w, deadline, p.question)
	}
	if w.NeedsUser() {
		return c.resolveUserRequest(ctx, w, wasShown, deadline)
	}
	asks := c.questionKind(w)
	switch {
	case c.Asker.DeniesInput && c.deniedReads < maxDeniedReads:
		c.deniedReads++
		return c.answerRequest(ctx, w, c.Session, session.Input{EOF: true})
	case !c.Asker.DeniesInput && asks == questionNone && wasShown && c.Session.AttachCommand != "" && time.Now().Before(deadline):
		// The caller knows that the user must answer elsewhere, and waits for that answer.
		return c.awaitAnswerElsewhere(ctx, w, deadline)
	case c.Asker.DeniesInput, asks == questionNone, !time.Now().Before(deadline):
		return unresolved
	}
	return c.askUserOnce(ctx, w, deadline)
}

// resolveUserRequest handles an input request that only a user may answer: for a permission, or
// with a form. If no user is available, the request is refused at once.
func (c *AskingCall) resolveUserRequest(ctx context.Context, w *session.InputRequest, wasShown bool, deadline time.Time) Verdict {
	inTime := time.Now().Before(deadline)
	switch {
	case !c.canAskUser(w) && c.Session.AttachCommand == "":
		return c.declineForUser(ctx, w)
	case !inTime:
		return unresolved
	case !c.canAskUser(w) && wasShown:
		// The caller knows that the user must decide elsewhere, and waits for that decision.
		return c.awaitAnswerElsewhere(ctx, w, deadline)
	case !c.canAskUser(w):
		return unresolved
	}
	return c.askUserOnce(ctx, w, deadline)
}

// askUserOnce asks the user the question for w, unless it is open already.
func (c *AskingCall) askUserOnce(ctx context.Context, w *session.InputRequest, deadline time.Time) Verdict {
	if open := c.Questions.openQuestionFor(w.ID); open != nil {
		return c.awaitUser(ctx, deadline, func() *openQuestion { return open })
	}
	if now := c.Session.InfoOrEnded(ctx).InputRequest; now == nil || now.ID != w.ID { // its question has just ended with it
		return over
	}
	q, err := c.newQuestion(w)
	if err != nil {
		return failed(err)
	}
	if c.Request.ProtocolVersion() >= mcptransport.StatelessVersion {
		return Verdict{Next: StepReturn, Question: q}
	}
	return c.askUser(ctx, w, deadline, q)
}

// askUser asks the user, or waits for an answer on a page, and applies the answer.
func (c *AskingCall) askUser(ctx context.Context, w *session.InputRequest, deadline time.Time, q *Question) Verdict {
	defer q.DropUnasked()
	return c.awaitUser(ctx, deadline, func() *openQuestion { return c.startQuestion(ctx, w, q) })
}

// awaitUser waits until a question is answered or its input request is over. When the call must
// end, it leaves the question open.
func (c *AskingCall) awaitUser(ctx context.Context, deadline time.Time, open func() *openQuestion) Verdict {
	if !c.Questions.beginWait() { // another call waits for the user
		return unresolved
	}
	asked := time.Now()
	q := open()
	outcome := c.awaitAnswer(ctx, deadline, q)
	c.Questions.endWait()
	v := outcome.verdict
	switch {
	case ctx.Err() != nil:
		v.Next = StepStop
	case v.Next == StepReply, v.Next == StepFail:
	case errors.Is(outcome.err, errNotAnsweredYet):
		v.Next = StepReply
	case outcome.err != nil && !errors.Is(outcome.err, errRequestOver):
		v.Next, v.Notices = StepReply, append(v.Notices, outcome.err.Error())
	default:
		v.Next = StepContinue
	}
	v.Waited = time.Since(asked)
	return v
}

// awaitAnswerElsewhere waits for a user who answers without a question from this server.
func (c *AskingCall) awaitAnswerElsewhere(ctx context.Context, w *session.InputRequest, deadline time.Time) Verdict {
	watching, stop := context.WithCancel(ctx)
	defer stop()
	o := &openQuestion{requestID: w.ID, done: make(chan struct{}), outcome: questionOutcome{err: errRequestOver}}
	go func() {
		if c.awaitRequestOver(watching, w.ID); watching.Err() == nil {
			close(o.done)
		}
	}()
	return c.awaitUser(ctx, deadline, func() *openQuestion { return o })
}
