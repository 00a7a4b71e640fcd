package mcpserver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/turnstone-repl/turnstone/internal/browserprompt"
	"github.com/turnstone-repl/turnstone/internal/mcpserver/reply"
	"github.com/turnstone-repl/turnstone/internal/mcptransport"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// userAnswerTimeout bounds how long a question stays open after the last call started to wait for
// its answer. A call waits for the answer on top of its own timeout, but no longer than its
// client waits for the call.
const userAnswerTimeout = 4 * time.Minute

// answerKey is the name of the only question in a result, and of the field with its answer.
const answerKey = "answer"

// A questionKind is a way in which a client can ask its user a question.
type questionKind uint8

const (
	questionNone questionKind = iota
	questionForm              // the client asks, and returns the answer
	questionPage              // the client sends the user to a page of ours
)

// questionKind returns how the client can ask its user for the answer to w. The protocol requires
// a page for secrets, if the user can probably reach one.
func (r *toolRequest) questionKind(w *session.InputRequest) questionKind {
	can := r.sdk.ClientCapabilities()
	if can == nil || can.Elicitation == nil || !r.CanAskClient() {
		return questionNone
	}
	page := can.Elicitation.URL != nil
	form := can.Elicitation.Form != nil || !page // a client that names no mode predates modes, and has forms
	if form && !(page && w.Secret && r.hasBrowser) {
		return questionForm
	}
	return questionPage
}

// resolveInputRequest handles an input request that the model must not answer. It returns true
// when the request is over and the call can continue to wait for the turn. Otherwise there is a
// result, which is nil if ctx ended.
func (sc *sessionCall) resolveInputRequest(ctx context.Context, wait waitFunc, w *session.InputRequest, beat *reply.Heartbeat) (bool, *mcp.CallToolResult) {
	if w.NeedsUser() {
		return sc.resolveUserRequest(ctx, wait, w, beat)
	}
	if p := sc.decision; p != nil && p.requestID == w.ID {
		sc.decision = nil
		if !isAnsweredOnPage(p.question, p.answer) {
			return sc.applyDecision(ctx, w, p.answer)
		}
		p.question.pageAccepted = true
		return sc.askUser(ctx, wait, w, beat, p.question)
	}
	_, shown := sc.caller.cursorAndRequest()
	asks := sc.call.questionKind(w)
	switch {
	case sc.stdin == StdinDeny && sc.deniedReads < maxDeniedReads:
		sc.deniedReads++
		return sc.answerRequest(ctx, w, sc.session, session.Input{EOF: true})
	case sc.stdin != StdinDeny && asks == questionNone && shown == w.ID && sc.session.AttachCommand != "" && time.Now().Before(sc.deadline):
		// The caller knows that the user must answer elsewhere, and waits for that answer.
		return sc.awaitAnswerElsewhere(ctx, wait, w, beat)
	case sc.stdin == StdinDeny, asks == questionNone, !time.Now().Before(sc.deadline):
		return false, sc.replyNow(ctx, wait)
	}
	return sc.askUserOnce(ctx, wait, w, beat)
}

// askUserOnce asks the user the question for w, unless it is open already. Its results are those
// of resolveInputRequest.
func (sc *sessionCall) askUserOnce(ctx context.Context, wait waitFunc, w *session.InputRequest, beat *reply.Heartbeat) (bool, *mcp.CallToolResult) {
	if open := sc.caller.openQuestionFor(w.ID); open != nil {
		return sc.awaitUser(ctx, wait, w, beat, func() *openQuestion { return open })
	}
	if sc.call.sdk.ProtocolVersion() >= mcptransport.StatelessVersion {
		return sc.returnQuestion(w)
	}
	q, err := sc.newQuestion(w)
	if err != nil {
		return false, errorResult(err)
	}
	return sc.askUser(ctx, wait, w, beat, q)
}

// askUser asks the user, or waits for an answer on a page, and applies the answer. Its results
// are those of resolveInputRequest.
func (sc *sessionCall) askUser(ctx context.Context, wait waitFunc, w *session.InputRequest, beat *reply.Heartbeat, q *userQuestion) (bool, *mcp.CallToolResult) {
	defer q.dropUnasked()
	return sc.awaitUser(ctx, wait, w, beat, func() *openQuestion { return sc.startQuestion(ctx, w, q) })
}

// awaitUser waits until a question is answered or its input request is over. When the call must
// end, it replies and leaves the question open. Its results are those of resolveInputRequest.
func (sc *sessionCall) awaitUser(ctx context.Context, wait waitFunc, w *session.InputRequest, beat *reply.Heartbeat, open func() *openQuestion) (bool, *mcp.CallToolResult) {
	select {
	case sc.caller.userWaitToken <- struct{}{}:
	default: // another call waits for the user
		return false, sc.replyNow(ctx, wait)
	}
	asked := time.Now()
	q := open()
	outcome := sc.awaitAnswer(ctx, beat, q)
	<-sc.caller.userWaitToken
	sc.deadline = earlierTime(sc.deadline.Add(time.Since(asked)), sc.replyDeadline)
	sc.notices = append(sc.notices, outcome.notices...)
	switch {
	case ctx.Err() != nil:
		return false, nil
	case outcome.result != nil:
		return false, outcome.result
	case errors.Is(outcome.err, errNotAnsweredYet):
		return false, sc.replyNow(ctx, wait)
	case outcome.err != nil && !errors.Is(outcome.err, errRequestOver):
		sc.addNotice("%s", outcome.err)
		return false, sc.replyNow(ctx, wait)
	}
	return true, nil
}

var (
	errRequestOver    = errors.New("the input request is over")
	errNoAnswer       = errors.New("the user did not answer in time")
	errDismissed      = errors.New("the question was dismissed")
	errNotAnsweredYet = errors.New("the user has not answered yet")
	errAnswerMismatch = errors.New("the answer does not fit the question")
	errAnswerNotText  = errors.New("the client's answer contains no text")
)

// A userQuestion is a question for the user, as parameters for the client or as a page.
type userQuestion struct {
	params       *mcp.ElicitParams
	pageAccepted bool   // the user has agreed to answer on a page
	isServerPage bool   // the page belongs to a tool server: accepting it is the answer
	removePage   func() // closes the page, if any
	isAsked      bool   // an openQuestion removes the page
}

// dropUnasked removes the page of a question that was never asked.
func (q *userQuestion) dropUnasked() {
	if !q.isAsked {
		q.removePage()
	}
}

// An openQuestion is a question that the user has not answered yet. It ends with the answer, with
// its input request, or after userAnswerTimeout without a waiting call. It may outlive the call
// that asked.
type openQuestion struct {
	requestID timeline.Seq
	expiry    *time.Timer   // nil if it has no timeout
	done      chan struct{} // closed when the question is over and outcome is set

	isAwaited bool            // guarded by callerSession.mu; a call waits for the outcome
	outcome   questionOutcome // set before done is closed
}

// A questionOutcome says how a question ended. The zero value means that the answer was applied.
type questionOutcome struct {
	err     error
	result  *mcp.CallToolResult // of the waiting call; nil if it can continue
	notices []string
}

// startQuestion asks the user through the client. An answer on a page ends w.
func (sc *sessionCall) startQuestion(ctx context.Context, w *session.InputRequest, q *userQuestion) *openQuestion {
	ctx, end := context.WithCancel(context.WithoutCancel(ctx)) // keeps the stream of the call, which carries the question
	forget := context.AfterFunc(sc.sessions.ctx, end)
	asking, withdraw := context.WithCancelCause(ctx)
	o := &openQuestion{requestID: w.ID, done: make(chan struct{})}
	o.expiry = time.AfterFunc(userAnswerTimeout, func() { withdraw(errNoAnswer) })
	q.isAsked = true
	sc.caller.setQuestion(o)
	go func() {
		sc.awaitRequestOver(asking, w.ID)
		withdraw(errRequestOver)
	}()
	go func() {
		defer end()
		defer forget()
		defer q.removePage()
		outcome := sc.runQuestion(ctx, asking, w, q)
		o.expiry.Stop()
		withdraw(nil)
		sc.caller.finishQuestion(o, outcome)
	}()
	return o
}

// runQuestion asks a question, waits for the answer, and applies it. The question is withdrawn
// when asking ends.
func (sc *sessionCall) runQuestion(ctx, asking context.Context, w *session.InputRequest, q *userQuestion) questionOutcome {
	if !q.pageAccepted {
		answer, err := sc.call.sdk.Session.Elicit(asking, q.params)
		switch {
		case asking.Err() != nil:
		case err != nil:
			if _, fromClient := errors.AsType[*jsonrpc.Error](err); !fromClient && w.Form == nil {
				err = errAnswerMismatch // the SDK's error quotes the answer, which may be a secret
			}
			return questionOutcome{err: fmt.Errorf("the client cannot ask the user: %w", err)}
		case isAnsweredOnPage(q, answer):
		case answer.Action == "cancel" && !sc.caller.isUserAwaited():
			// The client may have dismissed it together with the call. It is asked again.
			return questionOutcome{err: errDismissed}
		default:
			by := &sessionCall{server: sc.server, call: sc.call, caller: sc.caller, session: sc.session}
			_, result := by.applyDecision(ctx, w, answer)
			return questionOutcome{result: result, notices: by.notices}
		}
	}
	<-asking.Done()
	return questionOutcome{err: context.Cause(asking)}
}

// awaitAnswer waits until a question is over or the call must end.
func (sc *sessionCall) awaitAnswer(ctx context.Context, beat *reply.Heartbeat, o *openQuestion) questionOutcome {
	limit := sc.replyDeadline
	if o.expiry == nil {
		limit = earlierTime(limit, sc.deadline)
	} else {
		o.expiry.Reset(userAnswerTimeout)
	}
	sc.caller.setQuestionAwaited(o, true)
	for {
		timer := time.NewTimer(time.Until(beat.NextCheck(limit)))
		select {
		case <-o.done:
		case <-ctx.Done():
		case <-timer.C:
			if time.Now().Before(limit) {
				if elapsed, due := beat.BeatIfDue(); due {
					sc.call.ReportProgress(elapsed.Seconds(), "the user is being asked")
				}
				continue
			}
		}
		timer.Stop()
		if sc.caller.setQuestionAwaited(o, false); o.isDone() {
			return o.outcome
		}
		return questionOutcome{err: errNotAnsweredYet}
	}
}

// isDone reports whether the question is over.
func (o *openQuestion) isDone() bool {
	select {
	case <-o.done:
		return true
	default:
		return false
	}
}

// awaitAnswerElsewhere waits for a user who answers without a question from this server. Its
// results are those of resolveInputRequest.
func (sc *sessionCall) awaitAnswerElsewhere(ctx context.Context, wait waitFunc, w *session.InputRequest, beat *reply.Heartbeat) (bool, *mcp.CallToolResult) {
	watching, stop := context.WithCancel(ctx)
	defer stop()
	o := &openQuestion{requestID: w.ID, done: make(chan struct{}), outcome: questionOutcome{err: errRequestOver}}
	go func() {
		if sc.awaitRequestOver(watching, w.ID); watching.Err() == nil {
			close(o.done)
		}
	}()
	return sc.awaitUser(ctx, wait, w, beat, func() *openQuestion { return o })
}

// isAnsweredOnPage reports whether the user chose to answer on a page of this server.
func isAnsweredOnPage(q *userQuestion, r *mcp.ElicitResult) bool {
	return q.params.Mode == "url" && !q.isServerPage && r.Action == "accept" && r.Content == nil
}

// awaitRequestOver waits until an input request is over, or ctx ends.
func (sc *sessionCall) awaitRequestOver(ctx context.Context, requestID timeline.Seq) {
	for e := range sc.session.Events(ctx, requestID) { // an event without a body ends the stream
		switch b := e.Body.(type) {
		case timeline.InputRequestEnded:
			if b.Request == requestID {
				return
			}
		case timeline.Gap: // the gap may contain the end
			if now := sc.session.InfoOrEnded(ctx).InputRequest; now == nil || now.ID != requestID {
				return
			}
		}
	}
}

// applyDecision applies the user's decision about an input request. An answer goes to the code; a
// refusal interrupts the code, like Ctrl-C at a prompt. So code never continues without a real
// answer.
func (sc *sessionCall) applyDecision(ctx context.Context, w *session.InputRequest, answer *mcp.ElicitResult) (bool, *mcp.CallToolResult) {
	switch {
	case w.Permission != nil:
		return sc.applyPermission(ctx, w, answer)
	case w.Form != nil:
		return sc.applyForm(ctx, w, answer)
	}
	if answer.Action == "accept" {
		text, ok := answerText(answer.Content[answerKey])
		if !ok {
			return false, sc.replyUnanswered(ctx)
		}
		return sc.answerRequest(ctx, w, sc.asUser(), userInput(text))
	}
	if answer.Action == "decline" { // by the user, or by a client that does not ask
		sc.addNotice("the question was declined")
	} else {
		sc.addNotice("the question was dismissed")
	}
	if _, err := sc.session.Interrupt(ctx, w.Turn); err != nil {
		if ctx.Err() != nil {
			return false, nil
		}
		return false, errorResult(err)
	}
	return true, nil
}

// replyUnanswered replies that the client accepted a question without an answer. The code still
// waits.
func (sc *sessionCall) replyUnanswered(ctx context.Context) *mcp.CallToolResult {
	sc.addNotice("%v", errAnswerNotText)
	return sc.replyNow(ctx, sc.currentReply)
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

// convertAnswers converts answers to text before the SDK validates them.
func convertAnswers(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		result, err := next(ctx, method, req)
		answer, answered := result.(*mcp.ElicitResult)
		asked, _ := req.GetParams().(*mcp.ElicitParams)
		if err != nil || !answered || answer == nil || asked == nil {
			return result, err
		}
		if _, ours := asked.RequestedSchema.(map[string]any); ours {
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
func (sc *sessionCall) answerRequest(ctx context.Context, w *session.InputRequest, as session.Session, in session.Input) (bool, *mcp.CallToolResult) {
	switch err := answerAs(ctx, as, w, in); {
	case err == nil:
		return true, nil
	case errors.Is(err, session.ErrStale):
		if !in.EOF {
			sc.addNotice(answerTooLate)
		}
		return true, nil
	case ctx.Err() != nil:
		return false, nil
	default:
		return false, errorResult(err)
	}
}

// answerAs answers w as the author of s. The error is session.ErrStale if w is over.
func answerAs(ctx context.Context, s session.Session, w *session.InputRequest, in session.Input) error {
	_, err := s.Answer(ctx, w.ID, in)
	return err
}

// asUser returns the session with the user as its author.
func (sc *sessionCall) asUser() session.Session { return sc.session.As("user") }

// userInput returns the user's answer as input.
func userInput(text string) session.Input {
	return session.Input{Data: []byte(withNewline(text))}
}

// withNewline appends the newline that line readers need.
func withNewline(text string) string {
	if text != "" && strings.HasSuffix(text, "\n") {
		return text
	}
	return text + "\n"
}

// newQuestion returns the question for the answer to w. It names the program that asks, because
// the prompt itself may claim anything.
func (sc *sessionCall) newQuestion(w *session.InputRequest) (*userQuestion, error) {
	switch {
	case w.Permission != nil:
		return sc.newPermissionQuestion(w)
	case w.Form != nil:
		return sc.newFormQuestion(w)
	}
	about := fmt.Sprintf("Code in the REPL session %q", sc.caller.name)
	if w.Terminal && w.Reader != "" {
		about = fmt.Sprintf("%s, run by code in the REPL session %q,", w.Reader, sc.caller.name)
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
	if sc.call.questionKind(w) == questionPage {
		user := sc.asUser()
		return sc.newPageQuestion(message, &browserprompt.Page{Title: about, Prompt: prompt, Secret: w.Secret, Answer: func(ctx context.Context, text string) error {
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
	return &userQuestion{
		params: &mcp.ElicitParams{Mode: "form", Message: message, RequestedSchema: map[string]any{
			"type":       "object",
			"properties": map[string]any{answerKey: map[string]any{"type": "string", "title": title}},
			"required":   []string{answerKey},
		}},
		removePage: func() {},
	}, nil
}

// newPageQuestion returns a question that the user answers on a page of this server.
func (sc *sessionCall) newPageQuestion(message string, p *browserprompt.Page) (*userQuestion, error) {
	address, remove, err := sc.pages.Add(p)
	if err != nil {
		return nil, fmt.Errorf("cannot create the page for the user's answer: %w", err)
	}
	return &userQuestion{params: &mcp.ElicitParams{Mode: "url", Message: message, URL: address, ElicitationID: rand.Text()}, removePage: remove}, nil
}
