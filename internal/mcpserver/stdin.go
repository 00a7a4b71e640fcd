package mcpserver

import (
	"fmt"

	"github.com/turnstone-repl/turnstone/session"
)

// A StdinPolicy says who answers code that reads its standard input.
type StdinPolicy string

// The policies that a user can choose with --stdin.
const (
	StdinAuto  StdinPolicy = "auto"  // the model; the user if the input is secret
	StdinModel StdinPolicy = "model" // the model, even for secrets
	StdinAsk   StdinPolicy = "ask"   // the user
	StdinDeny  StdinPolicy = "deny"  // every read gets end of file
)

// StdinPolicies returns all policies.
func StdinPolicies() []StdinPolicy {
	return []StdinPolicy{StdinAuto, StdinModel, StdinAsk, StdinDeny}
}

// allowsModel reports whether the model may answer w. It may never give a permission or fill in a
// form.
func (p StdinPolicy) allowsModel(w *session.InputRequest) bool {
	if w.NeedsUser() {
		return false
	}
	return p == StdinModel || p == StdinAuto && !w.Secret
}

// toolDescription returns the sentence about input in the description of repl.
func (p StdinPolicy) toolDescription() string {
	const wait = "When the code asks for input (a prompt, a debugger, a program that reads the terminal), "
	const answer = wait + `the reply ends with [waiting for input: …]: the next call's input is the answer, "\n" an empty one.`
	switch p {
	case StdinModel:
		return answer
	case StdinAsk:
		return wait + "the user is asked, not you."
	case StdinDeny:
		return wait + "it gets end of file."
	default:
		return answer + " The user, not you, is asked for passwords."
	}
}

// maxDeniedReads bounds the reads of one call that get end of file. Code that continues to read
// after that would read forever.
const maxDeniedReads = 100

// requestAdvice says what the model can do about an input request that it must not answer.
func (sc *sessionCall) requestAdvice(w *session.InputRequest) string {
	const giveUp = "repl_interrupt gives up"
	switch {
	case w.NeedsUser():
		return sc.userRequestAdvice(w)
	case sc.stdin == StdinDeny && sc.deniedReads >= maxDeniedReads:
		return fmt.Sprintf(": it has read the end of file %d times; %s", sc.deniedReads, giveUp)
	case sc.stdin == StdinDeny:
		return ": no answer is allowed; repl_output gives it end of file, " + giveUp
	case sc.caller.isUserAsked():
		return ": the user is being asked; repl_output waits, " + giveUp
	case sc.call.questionKind(w) != questionNone:
		return ": only the user may answer; repl_output has them asked, " + giveUp
	case sc.session.AttachCommand != "":
		return fmt.Sprintf(": only the user may answer; tell them to run this in a terminal and type the answer there: %s (repl_output waits for that, %s)", sc.session.AttachCommand, giveUp)
	case w.Secret:
		return "; only the user may type it, and this client cannot ask. repl_interrupt, then use an environment variable or a file, or ask the user to run this in a terminal"
	default:
		return "; only the user may answer, and this client cannot ask. repl_interrupt, or ask the user to run this in a terminal"
	}
}
