// Package elicitation asks the user of an MCP client what a model must not answer: secrets,
// permissions, and the forms of tool servers. An AskingCall resolves an input request of its session, and
// its Verdict says what the call does next. SessionQuestions is what a caller's calls about one
// session share: the question that is open, and which of them waits for the user.
//
// The client gets a form, or the address of a page of this server. The answer goes to the session
// with the user as its author, never to the model. The package makes no results of calls and moves
// no cursor: both are the server's.
//
// # Goroutines
//
//	name                  started by  ends when                          owns
//	startQuestion         a call      the answer, the end of its input   one question to the client
//	                                  request, userAnswerTimeout
//	                                  without a call
//	awaitRequestOver      a call      the same                           the end of the input request
//	awaitAnswerElsewhere  a call      the wait or the call is over       nothing
//
// The first two may outlive their call, but not Asker.Lifetime.
//
// # Locks
//
// SessionQuestions.mu may be held when callerstate.SessionSet.mu is taken.
package elicitation
