package mcpserver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/turnstone-repl/turnstone/cmd/internal/askpage"
	"github.com/turnstone-repl/turnstone/cmd/internal/mcpwire"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// personTime bounds how long a call waits for a person, on top of its own timeout. Codex gives
// up a call only after 300 s.
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
func (r *request) questionKind(w *session.Wait) questionKind {
	can := r.sdk.ClientCapabilities()
	if can == nil || can.Elicitation == nil {
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
func (a *sessionCall) resolveWait(ctx context.Context, wait waiter, w *session.Wait, beat *heartbeat) (bool, *mcp.CallToolResult) {
	if w.OfPerson() {
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
		return a.askPerson(ctx, wait, w, beat, &personQuestion{allowed: true, until: a.deadline, remove: func() {}})
	case a.stdin == StdinDeny, asks == noQuestion, !time.Now().Before(a.deadline):
		return false, a.replyNow(ctx, wait)
	case a.call.sdk.ProtocolVersion() >= mcpwire.StatelessVersion:
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
func (a *sessionCall) askPerson(ctx context.Context, wait waiter, w *session.Wait, beat *heartbeat, q *personQuestion) (bool, *mcp.CallToolResult) {
	defer q.remove()
	select {
	case a.view.personAsked <- struct{}{}:
	default: // another call asks
		return false, a.replyNow(ctx, wait)
	}
	asked := time.Now()
	answer, err := a.putQuestion(ctx, w, beat, q)
	<-a.view.personAsked
	a.deadline = a.deadline.Add(time.Since(asked))
	switch {
	case ctx.Err() != nil:
		return false, nil
	case errors.Is(err, errWaitOver):
		return true, nil
	case err != nil:
		a.note("%s", err)
		return false, a.replyNow(ctx, wait)
	}
	return a.applyDecision(ctx, w, answer)
}

var (
	errWaitOver  = errors.New("the wait is over")
	errNoAnswer  = errors.New("the user did not answer in time")
	errNotShaped = errors.New("the client's answer holds no text")
)

// A personQuestion is a question for a person.
type personQuestion struct {
	params  *mcp.ElicitParams
	allowed bool      // the user has agreed to answer on a page, or answers elsewhere
	theirs  bool      // the page is that of a server of tools: to agree is the answer
	until   time.Time // when to stop waiting; zero means personTime from now
	remove  func()    // closes the page, if there is one
}

// putQuestion asks the user through the client. It waits for the answer or the end of w, for
// personTime at most. An answer on a page ends w.
func (a *sessionCall) putQuestion(ctx context.Context, w *session.Wait, beat *heartbeat, q *personQuestion) (*mcp.ElicitResult, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop() // withdraws the question
	type answered struct {
		result *mcp.ElicitResult
		err    error
	}
	answers := make(chan answered, 1)
	if !q.allowed {
		go func() {
			result, err := a.call.sdk.Session.Elicit(ctx, q.params)
			answers <- answered{result, err}
		}()
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		a.untilOver(ctx, w.ID)
	}()
	limit := q.until
	if limit.IsZero() {
		limit = time.Now().Add(personTime)
	}
	for {
		timer := time.NewTimer(time.Until(beat.next(limit)))
		select {
		case got := <-answers:
			timer.Stop()
			if got.err != nil {
				return nil, fmt.Errorf("the client cannot ask the user: %w", got.err)
			}
			if !onPage(q, got.result) {
				return got.result, nil
			}
		case <-over:
			timer.Stop()
			return nil, errWaitOver
		case <-timer.C:
			if !time.Now().Before(limit) {
				return nil, errNoAnswer
			}
			if elapsed, due := beat.due(); due {
				a.call.Progress(elapsed.Seconds(), "the user is being asked")
			}
		}
	}
}

// onPage reports whether the user has chosen to answer on a page.
func onPage(q *personQuestion, r *mcp.ElicitResult) bool {
	return q.params.Mode == "url" && !q.theirs && r.Action == "accept" && r.Content == nil
}

// untilOver returns when a wait is over, or ctx.
func (a *sessionCall) untilOver(ctx context.Context, wait timeline.Seq) {
	for e := range a.session.Events(ctx, wait) { // the stream ends with an event without a body
		switch b := e.Body.(type) {
		case timeline.WaitEnded:
			if b.Wait == wait {
				return
			}
		case timeline.Gap: // the end of the wait may be in the gap
			if now := a.session.info(ctx).Wait; now == nil || now.ID != wait {
				return
			}
		}
	}
}

// applyDecision applies a person's decision about a wait: an answer goes to the code, and a
// refusal interrupts the code, like Ctrl-C at a prompt. So code never goes on without a real
// answer.
func (a *sessionCall) applyDecision(ctx context.Context, w *session.Wait, answer *mcp.ElicitResult) (bool, *mcp.CallToolResult) {
	switch {
	case w.Permission != nil:
		return a.applyPermission(ctx, w, answer)
	case w.Form != nil:
		return a.applyForm(ctx, w, answer)
	}
	if answer.Action == "accept" {
		text, ok := answer.Content[answerKey].(string)
		if !ok {
			return false, failure(errNotShaped)
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

// answerWait answers w, unless it is over.
func (a *sessionCall) answerWait(ctx context.Context, w *session.Wait, as session.Session, in session.Input) (bool, *mcp.CallToolResult) {
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
func answerAs(ctx context.Context, s session.Session, w *session.Wait, in session.Input) error {
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
func (a *sessionCall) elicitation(w *session.Wait) (*personQuestion, error) {
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
	}, timeline.Plain(text)))
}
