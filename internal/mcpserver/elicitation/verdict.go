package elicitation

import (
	"errors"
	"fmt"
	"time"
)

// A NextStep is what a call does after an input request was handled.
type NextStep uint8

// The next steps of a call.
const (
	StepContinue NextStep = iota // the request is over: the call waits for its turn
	StepReply                    // the request is open: the call replies with the state of the session
	StepFail                     // the call replies with Verdict.Err
	StepReturn                   // the client gets Verdict.Question, and calls again with the answer
	StepStop                     // the call is over, and needs no answer
)

// A Verdict says how an input request that the model must not answer was handled.
type Verdict struct {
	Next     NextStep
	Err      error
	Question *Question
	Notices  []string      // for the model
	Waited   time.Duration // for the user, which does not count toward the call's own timeout
}

// The verdicts that need no field except Next.
var (
	over       = Verdict{Next: StepContinue}
	unresolved = Verdict{Next: StepReply}
	stopped    = Verdict{Next: StepStop}
)

func failed(err error) Verdict { return Verdict{Next: StepFail, Err: err} }

// withNotice returns the verdict with one more notice, before its other notices.
func (v Verdict) withNotice(format string, args ...any) Verdict {
	v.Notices = append([]string{fmt.Sprintf(format, args...)}, v.Notices...)
	return v
}

var (
	errRequestOver    = errors.New("the input request is over")
	errNoAnswer       = errors.New("the user did not answer in time")
	errDismissed      = errors.New("the question was dismissed")
	errNotAnsweredYet = errors.New("the user has not answered yet")
	errAnswerMismatch = errors.New("the answer does not fit the question")
	errAnswerNotText  = errors.New("the client's answer contains no text")
)
