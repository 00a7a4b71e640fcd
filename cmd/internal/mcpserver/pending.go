package mcpserver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// A pendingQuestion is a call whose client has been handed a question, until it calls
// again with the answer.
type pendingQuestion struct {
	view     *view
	wait     timeline.Seq
	turn     uint64
	question *personQuestion
	notes    []string
	ran      bool
}

// maxPending bounds the pending questions; the oldest are dropped first.
const maxPending = 64

// addPending keeps a question under a handle that cannot be guessed.
func (s *server) addPending(p *pendingQuestion) (handle string) {
	handle = rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.handles) == maxPending {
		oldest := s.handles[0]
		s.pending[oldest].question.remove()
		delete(s.pending, oldest)
		s.handles = s.handles[1:]
	}
	s.pending[handle] = p
	s.handles = append(s.handles, handle)
	return handle
}

// takePending removes a question and returns it.
func (s *server) takePending(handle string) (*pendingQuestion, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.pending[handle]
	delete(s.pending, handle)
	s.handles = slices.DeleteFunc(s.handles, func(h string) bool { return h == handle })
	return p, ok
}

// returnQuestion returns the question for w to the client, which gets the news when it calls
// again.
func (a *sessionCall) returnQuestion(w *session.InputRequest) (bool, *mcp.CallToolResult) {
	q, err := a.elicitation(w)
	if err != nil {
		return false, failure(err)
	}
	a.fate = fateAsksUser
	handle := a.addPending(&pendingQuestion{view: a.view, wait: w.ID, turn: w.Turn, question: q, notes: a.notes, ran: a.ran})
	return false, &mcp.CallToolResult{
		InputRequests: mcp.InputRequestMap{answerKey: q.params},
		RequestState:  handle,
	}
}

// resumeCall goes on with a call that the client repeats with a person's answer. It ignores
// the arguments, which the first call has used.
func (s *server) resumeCall(ctx context.Context, r *request, deadline time.Time) *mcp.CallToolResult {
	r.letNextPass() // its session is known
	p, ok := s.takePending(r.sdk.Params.RequestState)
	if !ok {
		return failure(errors.New("this question is not open any more: call repl_output to see what became of it"))
	}
	defer p.question.drop()
	opened, ok := p.view.isOpen()
	if !ok {
		return failure(fmt.Errorf("session %q is not open any more", p.view.name))
	}
	a := &sessionCall{server: s, call: r, view: p.view, session: opened, asked: time.Now(), deadline: deadline, limit: time.Now().Add(r.patience()), notes: p.notes, ran: p.ran}
	if answer, ok := r.sdk.Params.InputResponses[answerKey].(*mcp.ElicitResult); ok {
		a.decision = &personsDecision{p, answer}
	}
	if now := opened.info(ctx); !now.State.IsActive() || now.Turn != p.turn {
		return a.replyNow(ctx, a.now)
	}
	a.owner = a.view.takeOver(r.Call)
	defer a.releaseTurn()
	return a.waitForTurn(ctx, p.turn)
}

// A personsDecision is a person's decision about a wait, until it is used.
type personsDecision struct {
	*pendingQuestion
	answer *mcp.ElicitResult
}

// noteUnusedAnswer notes an answer whose wait was over when it came.
func (a *sessionCall) noteUnusedAnswer() {
	if a.decision != nil && a.decision.answer.Content != nil {
		a.note(tooLate)
	}
	a.decision = nil
}

const tooLate = "the user's answer came too late, and was not used"
