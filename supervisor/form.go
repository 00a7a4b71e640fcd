package supervisor

import (
	"context"
	"errors"
	"strings"
	"time"
	"unicode"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

const (
	// maxFormsPerTurn bounds the forms of one turn. Further forms are declined.
	maxFormsPerTurn = 20

	// maxFormMessageBytes and maxFormSchemaBytes bound a form's question and its schema, in bytes.
	maxFormMessageBytes, maxFormSchemaBytes = 4 << 10, 64 << 10
)

// Ask shows the user a form and returns the answer, which fits the form. The turn waits for it, and
// no model can answer. The answer is FormDecline when no user can be asked, such as between turns
// and after 20 forms in a turn. It is FormCancel when ctx ends or the code is interrupted. An error
// names the part of the form that cannot be shown; then the user was not asked.
func (c Caller) Ask(ctx context.Context, f session.Form) (session.FormAnswer, error) {
	if _, err := f.Fields(); err != nil {
		return session.FormAnswer{}, err
	}
	if len(f.Schema) > maxFormSchemaBytes {
		return session.FormAnswer{}, errors.New("the form's schema is larger than 64 KiB")
	}
	s := c.Session
	f.Server, f.Message = printableText(f.Server), printableText(s.log.Redact(fitValidText(f.Message, maxFormMessageBytes)))
	v := s.awaitDecision(ctx, c.Generation, func(id uint64) { s.m.askForm(id, c.Turn, f) })
	if v.form.Action == "" {
		v.form.Action = session.FormCancel
	}
	return v.form, nil
}

// printableText removes everything from a server's text that could affect the user's terminal.
func printableText(text string) string {
	return strings.Map(func(c rune) rune {
		if c != '\n' && !unicode.IsGraphic(c) {
			return -1
		}
		return c
	}, timeline.TerminalText(text))
}

// askForm opens an input request for a form under the given ID, or declines the form.
func (m *sessionMachine) askForm(id, turn uint64, f session.Form) {
	running := (m.phase == phaseRunning || m.phase == phaseWaiting) && m.turn.id > 0 && m.turn.id == turn
	if !running || m.turn.formCount == maxFormsPerTurn {
		m.recordNotice("a form of the server %s was declined because no user can answer it now: %s", f.Server, f.Message)
		m.addEffect(machineEffect{kind: doAnswerCall, call: id, form: session.FormAnswer{Action: session.FormDecline}})
		return
	}
	if m.turn.interruptUnacked { // the interrupt ends the call
		m.answerCall(id, false)
		return
	}
	m.turn.formCount++
	m.requests = append(m.requests, inputRequest{
		InputRequest: session.InputRequest{Turn: m.turn.id, Prompt: f.Question(), Kind: timeline.InputKindForm, Form: &f},
		callID:       id,
	})
	m.serveInput()
}

// answerForm checks a user's answer to a form and completes the pending call.
func (m *sessionMachine) answerForm(r inputRequest, in session.Input) error {
	answer := session.FormAnswer{Action: session.FormCancel}
	if !in.EOF || len(in.Data) > 0 {
		var err error
		if answer, err = session.ParseFormAnswer(in.Data); err == nil {
			err = r.Form.Check(answer)
		}
		if err != nil {
			return &session.Error{Kind: session.KindInvalid, InputRequest: &r.InputRequest, Message: "the form of the server " + r.Form.Server + " was not answered: " + err.Error(), Cause: err}
		}
	}
	if answer.Action != session.FormAccept {
		answer.Content = nil
	}
	m.turn.interruptedAt = time.Time{} // the code continues after the interrupt
	m.addEffect(machineEffect{kind: doAnswerCall, call: r.callID, form: answer})
	m.dropUserRequests(func(other inputRequest) bool { return other.callID == r.callID })
	return nil
}
