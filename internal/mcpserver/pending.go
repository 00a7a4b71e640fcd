package mcpserver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/turnstone-repl/turnstone/internal/mcpserver/callorder"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// A pendingQuestion is a call whose client has received a question, until the client calls again
// with the answer.
type pendingQuestion struct {
	caller    *callerSession
	requestID timeline.Seq
	turn      uint64
	question  *userQuestion
	notices   []string
	ran       bool
}

// maxPending bounds the pending questions; the oldest are dropped first.
const maxPending = 64

// addPending stores a question under a handle that cannot be guessed.
func (s *server) addPending(p *pendingQuestion) (handle string) {
	handle = rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pendingOrder) == maxPending {
		oldest := s.pendingOrder[0]
		s.pending[oldest].question.removePage()
		delete(s.pending, oldest)
		s.pendingOrder = s.pendingOrder[1:]
	}
	s.pending[handle] = p
	s.pendingOrder = append(s.pendingOrder, handle)
	return handle
}

// takePending removes and returns a question.
func (s *server) takePending(handle string) (*pendingQuestion, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.pending[handle]
	delete(s.pending, handle)
	s.pendingOrder = slices.DeleteFunc(s.pendingOrder, func(h string) bool { return h == handle })
	return p, ok
}

// returnQuestion returns the question for w to the client, which gets the new events when it
// calls again.
func (sc *sessionCall) returnQuestion(w *session.InputRequest) (bool, *mcp.CallToolResult) {
	q, err := sc.newQuestion(w)
	if err != nil {
		return false, errorResult(err)
	}
	sc.outcome = callorder.OutcomeWaitsForUser
	handle := sc.addPending(&pendingQuestion{caller: sc.caller, requestID: w.ID, turn: w.Turn, question: q, notices: sc.notices, ran: sc.ran})
	return false, &mcp.CallToolResult{
		InputRequests: mcp.InputRequestMap{answerKey: q.params},
		RequestState:  handle,
	}
}

// resumeCall continues a call that the client repeats with the user's answer. It ignores the
// arguments, which the first call has used.
func (s *server) resumeCall(ctx context.Context, r *toolRequest, deadline time.Time) *mcp.CallToolResult {
	r.leaveQueues() // the session is already known
	p, ok := s.takePending(r.sdk.Params.RequestState)
	if !ok {
		return errorResult(errors.New("this question is no longer open: call repl_output to see the outcome"))
	}
	defer p.question.dropUnasked()
	opened, ok := p.caller.handleIfOpen()
	if !ok {
		return errorResult(fmt.Errorf("session %q is no longer open", p.caller.name))
	}
	a := &sessionCall{server: s, call: r, caller: p.caller, session: opened, receivedAt: time.Now(), deadline: deadline, replyDeadline: time.Now().Add(r.maxCallTime()), notices: p.notices, ran: p.ran}
	if answer, ok := r.sdk.Params.InputResponses[answerKey].(*mcp.ElicitResult); ok {
		a.decision = &userDecision{p, answer}
	}
	if now := opened.InfoOrEnded(ctx); !now.State.IsActive() || now.Turn != p.turn {
		return a.replyNow(ctx, a.currentReply)
	}
	a.owner = a.caller.takeOverTurn(r.ToolCall)
	defer a.releaseTurn()
	return a.waitForTurn(ctx, p.turn)
}

// A userDecision is the user's decision about an input request, until it is applied.
type userDecision struct {
	*pendingQuestion
	answer *mcp.ElicitResult
}

// noteUnusedAnswer records an answer that came after its input request was over.
func (sc *sessionCall) noteUnusedAnswer() {
	if sc.decision != nil && sc.decision.answer.Content != nil {
		sc.addNotice(answerTooLate)
	}
	sc.decision = nil
}

const answerTooLate = "the user's answer came too late and was not used"
