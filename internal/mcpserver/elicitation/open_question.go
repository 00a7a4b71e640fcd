package elicitation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// userAnswerTimeout bounds how long a question stays open after the last call started to wait for
// its answer. A call waits for the answer on top of its own timeout, but no longer than its
// client waits for the call.
const userAnswerTimeout = 4 * time.Minute

// startQuestion asks the user through the client. An answer on a page ends w.
func (c *AskingCall) startQuestion(ctx context.Context, w *session.InputRequest, q *Question) *openQuestion {
	ctx, end := context.WithCancel(context.WithoutCancel(ctx)) // keeps the stream of the call, which carries the question
	forget := context.AfterFunc(c.Asker.Lifetime, end)
	asking, withdraw := context.WithCancelCause(ctx)
	o := &openQuestion{requestID: w.ID, done: make(chan struct{})}
	o.expiry = time.AfterFunc(userAnswerTimeout, func() { withdraw(errNoAnswer) })
	q.isAsked = true
	c.Questions.setQuestion(o)
	go func() {
		c.awaitRequestOver(asking, w.ID)
		withdraw(errRequestOver)
	}()
	go func() {
		defer end()
		defer forget()
		defer q.removePage()
		outcome := c.runQuestion(ctx, asking, w, q)
		o.expiry.Stop()
		withdraw(nil)
		c.Questions.finishQuestion(o, outcome)
	}()
	return o
}

// runQuestion asks a question, waits for the answer, and applies it. The question is withdrawn
// when asking ends.
func (c *AskingCall) runQuestion(ctx, asking context.Context, w *session.InputRequest, q *Question) questionOutcome {
	if !q.pageAccepted {
		answer, err := c.Request.Session.Elicit(asking, q.params)
		switch {
		case asking.Err() != nil:
		case err != nil:
			if _, fromClient := errors.AsType[*jsonrpc.Error](err); !fromClient && w.Form == nil {
				err = errAnswerMismatch // the SDK's error quotes the answer, which may be a secret
			}
			return questionOutcome{err: fmt.Errorf("the client cannot ask the user: %w", err)}
		case isAnsweredOnPage(q, answer):
		case answer.Action == "cancel" && !c.Questions.isUserAwaited():
			// The client may have dismissed it together with the call. It is asked again.
			return questionOutcome{err: errDismissed}
		default:
			return questionOutcome{verdict: c.applyDecision(ctx, w, answer)}
		}
	}
	<-asking.Done()
	return questionOutcome{err: context.Cause(asking)}
}

// awaitAnswer waits until a question is over or the call must end.
func (c *AskingCall) awaitAnswer(ctx context.Context, deadline time.Time, o *openQuestion) questionOutcome {
	limit := c.ReplyDeadline
	switch {
	case o.expiry != nil:
		o.expiry.Reset(userAnswerTimeout)
	case deadline.Before(limit):
		limit = deadline
	}
	c.Questions.setQuestionAwaited(o, true)
	for {
		timer := time.NewTimer(time.Until(c.Beat.NextCheck(limit)))
		select {
		case <-o.done:
		case <-ctx.Done():
		case <-timer.C:
			if time.Now().Before(limit) {
				if elapsed, due := c.Beat.BeatIfDue(); due {
					c.Tool.ReportProgress(elapsed.Seconds(), "the user is being asked")
				}
				continue
			}
		}
		timer.Stop()
		if c.Questions.setQuestionAwaited(o, false); o.isDone() {
			return o.outcome
		}
		return questionOutcome{err: errNotAnsweredYet}
	}
}

// awaitRequestOver waits until an input request is over, or ctx ends.
func (c *AskingCall) awaitRequestOver(ctx context.Context, requestID timeline.Seq) {
	for e := range c.Session.Events(ctx, requestID) { // an event without a body ends the stream
		switch b := e.Body.(type) {
		case timeline.InputRequestEnded:
			if b.Request == requestID {
				return
			}
		case timeline.Gap: // the gap may contain the end
			if now := c.Session.InfoOrEnded(ctx).InputRequest; now == nil || now.ID != requestID {
				return
			}
		}
	}
}
