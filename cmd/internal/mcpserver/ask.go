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
	"unicode"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/turnstone-repl/turnstone/cmd/internal/askpage"
	"github.com/turnstone-repl/turnstone/cmd/internal/mcpwire"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// personTime bounds how long a question stays with a person after the last call that has waited for
// the answer began to. A call waits for it on top of its own timeout, but no longer than its client
// waits for the call.
const personTime = 4 * time.Minute

// answerKey names the one question of a result, and the field of its answer.
const answerKey = "answer"

// A questionKind is how a client can put a question to its user.
type questionKind uint8

const (
	noQuestion   questionKind = iota
	formQuestion              // the client asks, and returns the answer
	pageQuestion              // the client sends the user to a page of ours
)

// questionKind returns how the client can ask its user for the answer to w. Secrets go to a
// page, as the protocol demands, if the user can probably reach one.
func (r *request) questionKind(w *session.InputRequest) questionKind {
	can := r.sdk.ClientCapabilities()
	if can == nil || can.Elicitation == nil || !r.TakesQuestions() {
		return noQuestion
	}
	page := can.Elicitation.URL != nil
	form := can.Elicitation.Form != nil || !page // a client that names no mode predates modes, and has forms
	if form && !(page && w.Secret && askpage.BrowserHere()) {
		return formQuestion
	}
	return pageQuestion
}

// resolveWait handles a wait that the model must not answer. It returns true when the wait is
// over and the call can go on waiting for the turn. Otherwise there is a result, which is nil
// when ctx ended.
func (a *sessionCall) resolveWait(ctx context.Context, wait waiter, w *session.InputRequest, beat *heartbeat) (bool, *mcp.CallToolResult) {
	if w.NeedsUser() {
		return a.resolveOfPerson(ctx, wait, w, beat)
	}
	if p := a.decision; p != nil && p.wait == w.ID {
		a.decision = nil
		if !onPage(p.question, p.answer) {
			return a.applyDecision(ctx, w, p.answer)
		}
		p.question.allowed = true
		return a.askPerson(ctx, wait, w, beat, p.question)
	}
	_, shown := a.view.knows()
	asks := a.call.questionKind(w)
	switch {
	case a.stdin == StdinDeny && a.denied < maxDenied:
		a.denied++
		return a.answerWait(ctx, w, a.session, session.Input{EOF: true})
	case a.stdin != StdinDeny && asks == noQuestion && shown == w.ID && a.session.ByHand != "" && time.Now().Before(a.deadline):
		// The caller knows that the user must answer elsewhere, and waits for that.
		return a.awaitElsewhere(ctx, wait, w, beat)
	case a.stdin == StdinDeny, asks == noQuestion, !time.Now().Before(a.deadline):
		return false, a.replyNow(ctx, wait)
	}
	return a.ask(ctx, wait, w, beat)
}

// ask puts the question for w to a person, unless one is out already. Its results are those of
// resolveWait.
func (a *sessionCall) ask(ctx context.Context, wait waiter, w *session.InputRequest, beat *heartbeat) (bool, *mcp.CallToolResult) {
	if out := a.view.questionOut(w.ID); out != nil {
		return a.awaitPerson(ctx, wait, w, beat, func() *openQuestion { return out })
	}
	if a.call.sdk.ProtocolVersion() >= mcpwire.StatelessVersion {
		return a.returnQuestion(w)
	}
	q, err := a.elicitation(w)
	if err != nil {
		return false, failure(err)
	}
	return a.askPerson(ctx, wait, w, beat, q)
}

// askPerson asks a person, or waits for a person who answers on a page, and applies the
// answer. Its results are those of resolveWait.
func (a *sessionCall) askPerson(ctx context.Context, wait waiter, w *session.InputRequest, beat *heartbeat, q *personQuestion) (bool, *mcp.CallToolResult) {
	defer q.drop()
	return a.awaitPerson(ctx, wait, w, beat, func() *openQuestion { return a.putQuestion(ctx, w, q) })
}

// awaitPerson waits until a question is answered, or its wait is over otherwise. When the call may
// not last any longer, it replies, and the question stays. Its results are those of resolveWait.
func (a *sessionCall) awaitPerson(ctx context.Context, wait waiter, w *session.InputRequest, beat *heartbeat, out func() *openQuestion) (bool, *mcp.CallToolResult) {
	select {
	case a.view.personAsked <- struct{}{}:
	default: // another call asks
		return false, a.replyNow(ctx, wait)
	}
	asked := time.Now()
	q := out()
	became := a.untilAnswered(ctx, beat, q)
	<-a.view.personAsked
	a.deadline = earlier(a.deadline.Add(time.Since(asked)), a.limit)
	a.notes = append(a.notes, became.notes...)
	switch {
	case ctx.Err() != nil:
		return false, nil
	case became.result != nil:
		return false, became.result
	case errors.Is(became.err, errStillOut):
		return false, a.replyNow(ctx, wait)
	case became.err != nil && !errors.Is(became.err, errWaitOver):
		a.note("%s", became.err)
		return false, a.replyNow(ctx, wait)
	}
	return true, nil
}

var (
	errWaitOver  = errors.New("the wait is over")
	errNoAnswer  = errors.New("the user did not answer in time")
	errDismissed = errors.New("the question was dismissed")
	errStillOut  = errors.New("the user has not answered yet")
	errUnfit     = errors.New("the answer does not fit the question")
	errNotShaped = errors.New("the client's answer holds no text")
)

// A personQuestion is a question for a person.
type personQuestion struct {
	params  *mcp.ElicitParams
	allowed bool   // the user has agreed to answer on a page
	theirs  bool   // the page is that of a server of tools: to agree is the answer
	remove  func() // closes the page, if there is one
	out     bool   // an openQuestion removes it
}

// drop removes a question that nobody was asked.
func (q *personQuestion) drop() {
	if !q.out {
		q.remove()
	}
}

// An openQuestion is a question that a person has, until it is answered, the wait that it is for is
// over, or nobody has waited for the answer for personTime. It may outlive the call that asked.
type openQuestion struct {
	wait   timeline.Seq
	expiry *time.Timer   // nil if it does not end by itself
	done   chan struct{} // closed when the question is over, and became is set

	waiting bool    // guarded by view.mu; a call waits, and takes what became of it
	became  outcome // set before done is closed
}

// An outcome is what became of a question. A zero one means that the answer was applied.
type outcome struct {
	err    error
	result *mcp.CallToolResult // of the call that waits; nil if that can go on
	notes  []string
}

// putQuestion asks the user through the client. An answer on a page ends w.
func (a *sessionCall) putQuestion(ctx context.Context, w *session.InputRequest, q *personQuestion) *openQuestion {
	ctx, end := context.WithCancel(context.WithoutCancel(ctx)) // with the stream of the call, to which the question belongs
	forget := context.AfterFunc(a.sessions.ctx, end)
	asking, withdraw := context.WithCancelCause(ctx)
	o := &openQuestion{wait: w.ID, done: make(chan struct{})}
	o.expiry = time.AfterFunc(personTime, func() { withdraw(errNoAnswer) })
	q.out = true
	a.view.setQuestion(o)
	go func() {
		a.untilOver(asking, w.ID)
		withdraw(errWaitOver)
	}()
	go func() {
		defer end()
		defer forget()
		defer q.remove()
		became := a.put(ctx, asking, w, q)
		o.expiry.Stop()
		withdraw(nil)
		a.view.questionOver(o, became)
	}()
	return o
}

// put waits for the answer to a question, which is withdrawn when asking ends, and applies it.
func (a *sessionCall) put(ctx, asking context.Context, w *session.InputRequest, q *personQuestion) outcome {
	if !q.allowed {
		answer, err := a.call.sdk.Session.Elicit(asking, q.params)
		switch {
		case asking.Err() != nil:
		case err != nil:
			if _, said := errors.AsType[*jsonrpc.Error](err); !said && w.Form == nil {
				err = errUnfit // the SDK's own words show the answer, which may be a secret
			}
			return outcome{err: fmt.Errorf("the client cannot ask the user: %w", err)}
		case onPage(q, answer):
		case answer.Action == "cancel" && !a.view.isAwaited():
			// The client may have taken it away with the call. It is asked again.
			return outcome{err: errDismissed}
		default:
			by := &sessionCall{server: a.server, call: a.call, view: a.view, session: a.session}
			_, result := by.applyDecision(ctx, w, answer)
			return outcome{result: result, notes: by.notes}
		}
	}
	<-asking.Done()
	return outcome{err: context.Cause(asking)}
}

// untilAnswered waits until a question is over, or the call may not last any longer.
func (a *sessionCall) untilAnswered(ctx context.Context, beat *heartbeat, o *openQuestion) outcome {
	limit := a.limit
	if o.expiry == nil {
		limit = earlier(limit, a.deadline)
	} else {
		o.expiry.Reset(personTime)
	}
	a.view.await(o, true)
	for {
		timer := time.NewTimer(time.Until(beat.next(limit)))
		select {
		case <-o.done:
		case <-ctx.Done():
		case <-timer.C:
			if time.Now().Before(limit) {
				if elapsed, due := beat.due(); due {
					a.call.Progress(elapsed.Seconds(), "the user is being asked")
				}
				continue
			}
		}
		timer.Stop()
		if a.view.await(o, false); o.isOver() {
			return o.became
		}
		return outcome{err: errStillOut}
	}
}

// isOver reports whether it is known what became of the question.
func (o *openQuestion) isOver() bool {
	select {
	case <-o.done:
		return true
	default:
		return false
	}
}

// awaitElsewhere waits for a user who answers without a question of ours. Its results are those of
// resolveWait.
func (a *sessionCall) awaitElsewhere(ctx context.Context, wait waiter, w *session.InputRequest, beat *heartbeat) (bool, *mcp.CallToolResult) {
	watching, stop := context.WithCancel(ctx)
	defer stop()
	o := &openQuestion{wait: w.ID, done: make(chan struct{}), became: outcome{err: errWaitOver}}
	go func() {
		if a.untilOver(watching, w.ID); watching.Err() == nil {
			close(o.done)
		}
	}()
	return a.awaitPerson(ctx, wait, w, beat, func() *openQuestion { return o })
}

// onPage reports whether the user has chosen to answer on a page.
func onPage(q *personQuestion, r *mcp.ElicitResult) bool {
	return q.params.Mode == "url" && !q.theirs && r.Action == "accept" && r.Content == nil
}

// untilOver returns when a wait is over, or ctx.
func (a *sessionCall) untilOver(ctx context.Context, wait timeline.Seq) {
	for e := range a.session.Events(ctx, wait) { // the stream ends with an event without a body
		switch b := e.Body.(type) {
		case timeline.InputRequestEnded:
			if b.Request == wait {
				return
			}
		case timeline.Gap: // the end of the wait may be in the gap
			if now := a.session.info(ctx).InputRequest; now == nil || now.ID != wait {
				return
			}
		}
	}
}

// applyDecision applies a person's decision about a wait: an answer goes to the code, and a
// refusal interrupts the code, like Ctrl-C at a prompt. So code never goes on without a real
// answer.
func (a *sessionCall) applyDecision(ctx context.Context, w *session.InputRequest, answer *mcp.ElicitResult) (bool, *mcp.CallToolResult) {
	switch {
	case w.Permission != nil:
		return a.applyPermission(ctx, w, answer)
	case w.Form != nil:
		return a.applyForm(ctx, w, answer)
	}
	if answer.Action == "accept" {
		text, ok := answerText(answer.Content[answerKey])
		if !ok {
			return false, a.unanswered(ctx)
		}
		return a.answerWait(ctx, w, a.user(), fromUser(text))
	}
	if answer.Action == "decline" { // a user declined, or a client that does not ask
		a.note("the question was declined")
	} else {
		a.note("the question was dismissed")
	}
	if _, err := a.session.Interrupt(ctx, w.Turn); err != nil {
		if ctx.Err() != nil {
			return false, nil
		}
		return false, failure(err)
	}
	return true, nil
}

// unanswered replies that a client has accepted a question without an answer to it. The code still waits.
func (a *sessionCall) unanswered(ctx context.Context) *mcp.CallToolResult {
	a.note("%v", errNotShaped)
	return a.replyNow(ctx, a.now)
}

// answerText returns the text of an answer. Forms of some clients make numbers of what looks like one.
func answerText(answer any) (text string, ok bool) {
	const whole = 1 << 53 // beyond it, not all numbers are there
	switch v := answer.(type) {
	case string:
		return v, true
	case bool:
		return strconv.FormatBool(v), true
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), math.Abs(v) <= whole
	}
	return "", false
}

// takeAnswers makes texts of answers before the SDK looks whether they are.
func takeAnswers(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		result, err := next(ctx, method, req)
		answer, answered := result.(*mcp.ElicitResult)
		asked, _ := req.GetParams().(*mcp.ElicitParams)
		if err != nil || !answered || answer == nil || asked == nil {
			return result, err
		}
		if _, ours := asked.RequestedSchema.(map[string]any); ours {
			if answer.Content == nil {
				answer.Content = map[string]any{} // which the SDK finds to be no answer
			}
			if text, ok := answerText(answer.Content[answerKey]); ok {
				answer.Content[answerKey] = text
			}
		}
		return result, nil
	}
}

// answerWait answers w, unless it is over.
func (a *sessionCall) answerWait(ctx context.Context, w *session.InputRequest, as session.Session, in session.Input) (bool, *mcp.CallToolResult) {
	switch err := answerAs(ctx, as, w, in); {
	case err == nil:
		return true, nil
	case errors.Is(err, session.ErrStale):
		if !in.EOF {
			a.note(tooLate)
		}
		return true, nil
	case ctx.Err() != nil:
		return false, nil
	default:
		return false, failure(err)
	}
}

// answerAs answers w as the author of s. The error is session.ErrStale when w is over.
func answerAs(ctx context.Context, s session.Session, w *session.InputRequest, in session.Input) error {
	_, err := s.Answer(ctx, w.ID, in)
	return err
}

// user returns the session with the answering person as its author.
func (a *sessionCall) user() session.Session { return a.session.As("user") }

// fromUser returns a person's answer as input.
func fromUser(text string) session.Input {
	return session.Input{Data: []byte(withNewline(text))}
}

// withNewline adds the newline that a reader of lines needs.
func withNewline(text string) string {
	if text != "" && strings.HasSuffix(text, "\n") {
		return text
	}
	return text + "\n"
}

// elicitation returns the question for the answer to w. It names the asking program, because
// the prompt itself may say anything.
func (a *sessionCall) elicitation(w *session.InputRequest) (*personQuestion, error) {
	switch {
	case w.Permission != nil:
		return a.permissionQuestion(w)
	case w.Form != nil:
		return a.formQuestion(w)
	}
	about := fmt.Sprintf("Code in the REPL session %q", a.view.name)
	if w.Terminal && w.Reader != "" {
		about = fmt.Sprintf("%s, run by code in the REPL session %q,", w.Reader, a.view.name)
	}
	about, colon := about+" asks for input", ": "
	if w.Secret {
		about += " that is not to be seen. The answer goes to the code, not into the conversation. Where the code prints it as it is, the model sees [secret]"
		colon = ". The question is: "
	}
	message, prompt := about, oneLine(w.Prompt)
	if prompt != "" {
		message += colon + prompt
	}
	if a.call.questionKind(w) == pageQuestion {
		user := a.user()
		return a.page(message, &askpage.Page{About: about, Prompt: prompt, Secret: w.Secret, Answer: func(ctx context.Context, text string) error {
			err := answerAs(ctx, user, w, fromUser(text))
			if errors.Is(err, session.ErrStale) {
				return askpage.ErrOver
			}
			return err
		}})
	}
	title := prompt
	if title == "" {
		title = "Input"
	}
	return &personQuestion{
		params: &mcp.ElicitParams{Mode: "form", Message: message, RequestedSchema: map[string]any{
			"type":       "object",
			"properties": map[string]any{answerKey: map[string]any{"type": "string", "title": title}},
			"required":   []string{answerKey},
		}},
		remove: func() {},
	}, nil
}

// page returns a question that the user answers on a page of ours.
func (a *sessionCall) page(message string, p *askpage.Page) (*personQuestion, error) {
	address, remove, err := a.pages.Add(p)
	if err != nil {
		return nil, fmt.Errorf("the page for the user's answer cannot be opened: %w", err)
	}
	return &personQuestion{params: &mcp.ElicitParams{Mode: "url", Message: message, URL: address, ElicitationID: rand.Text()}, remove: remove}, nil
}

// maxPrompt bounds the end of a prompt that a question or a state line shows, in characters.
const maxPrompt = 300

// oneLine returns the end of a prompt without control characters.
func oneLine(prompt string) string { return lastRunes(withoutControls(prompt), maxPrompt) }

// withoutControls returns text as one line.
func withoutControls(text string) string {
	return strings.TrimSpace(strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, timeline.TerminalText(text)))
}
