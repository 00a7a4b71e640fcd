package mcpserver

import (
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
