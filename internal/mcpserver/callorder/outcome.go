package callorder

// A CallOutcome says how a call ended, for the inputs queued behind it.
type CallOutcome string

// The outcomes of a call. RefusalReason uses their texts in a sentence.
const (
	OutcomeDone          CallOutcome = "" // the inputs behind the call may run
	OutcomeFailed        CallOutcome = "failed"
	OutcomeCancelled     CallOutcome = "was cancelled"
	OutcomeNotRun        CallOutcome = "was not run"
	OutcomeWaitsForInput CallOutcome = "waits for input"
	OutcomeWaitsForUser  CallOutcome = "waits for the user"
	OutcomeError         CallOutcome = "ended in an error"
	OutcomeInterrupted   CallOutcome = "was interrupted"
	OutcomeSessionEnded  CallOutcome = "ended the session"
	OutcomeStillRuns     CallOutcome = "still runs"
)

// RefusalReason returns why inputs that came before the answer to the call are refused.
func (o CallOutcome) RefusalReason() string {
	return "an earlier call, which was not answered yet, " + string(o)
}
