package callerstate

import (
	"errors"
	"sync"

	"github.com/turnstone-repl/turnstone/internal/mcptransport"
	"github.com/turnstone-repl/turnstone/timeline"
)

// errAlreadyAnswered means that an earlier call of the same caller has answered the input
// request.
var errAlreadyAnswered = errors.New("an earlier call has answered the input request")

// An AnswerInProgress is an answer that a call is submitting to an input request. While it is in
// progress, no other call answers.
type AnswerInProgress struct {
	caller    *CallerSession
	call      *mcptransport.ToolCall
	requestID timeline.Seq

	mu    sync.Mutex
	ended bool       // guarded by mu
	owner *TurnClaim // guarded by mu; nil until the answer is known to be accepted
}

// BeginAnswer starts the answer to an input request, unless an earlier call has answered it. The
// caller must call FinishAnswer.
func (cs *CallerSession) BeginAnswer(c *mcptransport.ToolCall, requestID timeline.Seq) (*AnswerInProgress, error) {
	cs.answerMu.Lock()
	if cs.lastAnswered == requestID {
		cs.answerMu.Unlock()
		return nil, errAlreadyAnswered
	}
	return &AnswerInProgress{caller: cs, call: c, requestID: requestID}, nil
}

// MarkAccepted records that the session has accepted the answer. From then on the next input is
// code again, and the call owns the turn. After the end of the call it changes nothing: a client
// that answers again learns that the request is over.
func (p *AnswerInProgress) MarkAccepted() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended || p.owner != nil {
		return
	}
	p.caller.lastAnswered = p.requestID
	p.caller.ExpectCode()
	p.owner = p.caller.TakeOverTurn(p.call)
	p.caller.answerMu.Unlock()
}

// AcceptedOwner returns the ownership of the turn, or nil until the answer is known to be
// accepted.
func (p *AnswerInProgress) AcceptedOwner() *TurnClaim {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.owner
}

// FinishAnswer ends an answer, whether or not it was accepted. From then on other calls may answer.
func (p *AnswerInProgress) FinishAnswer() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended = true; p.owner == nil {
		p.caller.answerMu.Unlock()
	}
}
