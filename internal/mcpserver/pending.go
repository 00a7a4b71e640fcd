package mcpserver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/turnstone-repl/turnstone/internal/mcpserver/callerstate"
	"github.com/turnstone-repl/turnstone/internal/mcpserver/callorder"
	"github.com/turnstone-repl/turnstone/internal/mcpserver/elicitation"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
)

// A pendingCall is a call whose client has received a question, until the client calls again with
// the answer.
type pendingCall struct {
	caller    *callerstate.CallerSession
	requestID timeline.Seq
	turn      uint64
	question  *elicitation.Question
	notices   []string
	ran       bool
}

// maxPending bounds the pending calls; the oldest are dropped first.
const maxPending = 64

// addPending stores a call under a handle that cannot be guessed.
func (s *server) addPending(p *pendingCall) (handle string) {
	handle = rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pendingOrder) == maxPending {
		oldest := s.pendingOrder[0]
		s.pending[oldest].question.DropUnasked()
		delete(s.pending, oldest)
		s.pendingOrder = s.pendingOrder[1:]
	}
	s.pending[handle] = p
	s.pendingOrder = append(s.pendingOrder, handle)
	return handle
}

// takePending removes and returns a call.
func (s *server) takePending(handle string) (*pendingCall, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.pending[handle]
	delete(s.pending, handle)
	s.pendingOrder = slices.DeleteFunc(s.pendingOrder, func(h string) bool { return h == handle })
	return p, ok
}

// returnQuestion returns the question for w to the client, which gets the new events when it
// calls again.
func (sc *sessionCall) returnQuestion(w *session.InputRequest, q *elicitation.Question) *mcp.CallToolResult {
	sc.outcome = callorder.OutcomeWaitsForUser
	handle := sc.addPending(&pendingCall{caller: sc.caller, requestID: w.ID, turn: w.Turn, question: q, notices: sc.notices, ran: sc.ran})
	return &mcp.CallToolResult{InputRequests: q.Requests(), RequestState: handle}
}

// resumeCall continues a call that the client repeats with the user's answer. It ignores the
// arguments, which the first call has used.
func (s *server) resumeCall(ctx context.Context, r *toolRequest, deadline time.Time) *mcp.CallToolResult {
	r.leaveQueues() // the session is already known
	p, ok := s.takePending(r.sdk.Params.RequestState)
	if !ok {
		return s.errorResult(errors.New(s.wording.NameTools("this question is no longer open: call repl_output to see the outcome")))
	}
	defer p.question.DropUnasked()
	opened, ok := p.caller.HandleIfOpen()
	if !ok {
		return s.errorResult(fmt.Errorf("session %q is no longer open", p.caller.Name))
	}
	a := s.startSessionCall(r, p.caller, opened, time.Now(), deadline)
	a.notices, a.ran = p.notices, p.ran
	if answer, ok := elicitation.AnswerIn(r.sdk.Params.InputResponses); ok {
		a.questions.CarryAnswer(p.requestID, p.question, answer)
	}
	if now := opened.InfoOrEnded(ctx); !now.State.IsActive() || now.Turn != p.turn {
		return a.replyNow(ctx, a.currentReply)
	}
	a.owner = a.caller.TakeOverTurn(r.ToolCall)
	defer a.releaseTurn()
	return a.waitForTurn(ctx, p.turn)
}
