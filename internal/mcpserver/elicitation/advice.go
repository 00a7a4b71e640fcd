package elicitation

import (
	"fmt"

	"github.com/turnstone-repl/turnstone/session"
)

// Advice says what the model can do about an input request that it must not answer.
func (c *AskingCall) Advice(w *session.InputRequest) string {
	const giveUp = "repl_interrupt gives up"
	switch {
	case w.NeedsUser():
		return c.userRequestAdvice(w)
	case c.Asker.DeniesInput && c.deniedReads >= maxDeniedReads:
		return fmt.Sprintf(": it has read the end of file %d times; %s", c.deniedReads, giveUp)
	case c.Asker.DeniesInput:
		return ": no answer is allowed; repl_output gives it end of file, " + giveUp
	case c.Questions.isUserAsked():
		return ": the user is being asked; repl_output waits, " + giveUp
	case c.questionKind(w) != questionNone:
		return ": only the user may answer; repl_output has them asked, " + giveUp
	case c.Session.AttachCommand != "":
		return fmt.Sprintf(": only the user may answer; tell them to run this in a terminal and type the answer there: %s (repl_output waits for that, %s)", c.Session.AttachCommand, giveUp)
	case w.Secret:
		return "; only the user may type it, and this client cannot ask. repl_interrupt, then use an environment variable or a file, or ask the user to run this in a terminal"
	default:
		return "; only the user may answer, and this client cannot ask. repl_interrupt, or ask the user to run this in a terminal"
	}
}

// userRequestAdvice says what the model can do about an input request that only a user may
// answer.
func (c *AskingCall) userRequestAdvice(w *session.InputRequest) string {
	const giveUp = "repl_interrupt gives up"
	switch {
	case c.Questions.isUserAsked():
		return ": the user is being asked; repl_output waits, " + giveUp
	case c.canAskUser(w):
		return ": only the user may decide; repl_output has them asked, " + giveUp
	case c.Session.AttachCommand != "" && w.Form != nil:
		return fmt.Sprintf(": only the user may answer, not you; tell them to run this in a terminal and answer there: %s (repl_output waits for that, %s)", c.Session.AttachCommand, giveUp)
	case c.Session.AttachCommand != "":
		return fmt.Sprintf(": only the user may allow it, not you; tell them to run this in a terminal: %s (or with --deny to refuse). repl_output waits for that, %s", c.Session.AllowCommand(w.Permission.Grant), giveUp)
	}
	return ": repl_output continues"
}
