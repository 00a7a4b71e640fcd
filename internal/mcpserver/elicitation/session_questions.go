package elicitation

import (
	"strings"
	"sync"
	"time"

	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/timeline"
)

// SessionQuestions holds the questions about one session of a caller. At most one of them is open.
type SessionQuestions struct {
	// waitToken holds one token, taken by the call that waits for the user.
	waitToken chan struct{}

	// leaveNotice adds a result that no call waits for to the next reply.
	leaveNotice func(text string)

	mu   sync.Mutex
	open *openQuestion // guarded by mu; nil when none is open
}

// NewSessionQuestions returns the questions of a session; none is open yet. leaveNotice adds a line
// to the next reply about the session.
func NewSessionQuestions(leaveNotice func(text string)) *SessionQuestions {
	return &SessionQuestions{waitToken: make(chan struct{}, 1), leaveNotice: leaveNotice}
}

// beginWait lets a call wait for the user. It returns false if another call already waits.
func (s *SessionQuestions) beginWait() bool {
	select {
	case s.waitToken <- struct{}{}:
		return true
	default:
		return false
	}
}

func (s *SessionQuestions) endWait() { <-s.waitToken }

// isUserAwaited reports whether a call waits for the user.
func (s *SessionQuestions) isUserAwaited() bool { return len(s.waitToken) > 0 }

// isUserAsked reports whether the user is being asked.
func (s *SessionQuestions) isUserAsked() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isUserAwaited() || s.open != nil
}

// setQuestion records a question that the user is being asked.
func (s *SessionQuestions) setQuestion(o *openQuestion) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = o
}

// openQuestionFor returns the open question for an input request, or nil.
func (s *SessionQuestions) openQuestionFor(requestID timeline.Seq) *openQuestion {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil || s.open.requestID != requestID {
		return nil
	}
	return s.open
}

// setQuestionAwaited records whether a call waits for a question's outcome.
func (s *SessionQuestions) setQuestionAwaited(o *openQuestion, waits bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o.isAwaited = waits
}

// maxErrorChars bounds the text of an error in a notice.
const maxErrorChars = 4000

// finishQuestion records the outcome of a question. If no call waits for it, the next reply
// reports it.
func (s *SessionQuestions) finishQuestion(o *openQuestion, outcome questionOutcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == o {
		s.open = nil
	}
	if !o.isAwaited {
		notes := outcome.verdict.Notices
		if outcome.verdict.Next == StepFail {
			notes = append(notes, text.Shorten(outcome.verdict.Err.Error(), maxErrorChars))
		}
		if len(notes) > 0 {
			s.leaveNotice(strings.Join(notes, "; "))
		}
	}
	o.outcome = outcome
	close(o.done)
}

// An openQuestion is a question that the user has not answered yet. It ends with the answer, with
// its input request, or after userAnswerTimeout without a waiting call. It may outlive the call
// that asked.
type openQuestion struct {
	requestID timeline.Seq
	expiry    *time.Timer   // nil if it has no timeout
	done      chan struct{} // closed when the question is over and outcome is set

	isAwaited bool            // guarded by SessionQuestions.mu; a call waits for the outcome
	outcome   questionOutcome // set before done is closed
}

// A questionOutcome says how a question ended. The zero value means that the answer was applied.
type questionOutcome struct {
	err     error   // why there was no answer to apply
	verdict Verdict // of the answer
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
