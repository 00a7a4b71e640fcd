// Package elicitation asks the user of an MCP client what a model must not answer: secrets,
// permissions, and the forms of tool servers. An AskingCall resolves an input request of its
// session, and its Verdict says what the call does next. A SessionQuestions is shared by a caller's
// calls about one session. It has the open question, and which of the calls waits for the user.
//
// The client gets a form, or the address of a page of this server. The answer goes to the session
// with the user as its author, never to the model. The server makes the results of calls and moves
// cursors; this package does neither.
//
// # Forms of tool servers
//
// A tool server may ask its user for typed fields in the middle of a call. The question becomes an
// input request of kind timeline.InputKindForm, whose answer is one JSON object that fits the form.
// The user answers it in a terminal, in repl attach or in a client. The model and repl input cannot
// answer it.
//
// Refusing such questions was rejected, because servers that need consent would fail. Asking field
// by field as reads of standard input was rejected: a model may answer reads, and declining and
// dismissing would look alike. A separate method for the answer was rejected, because it would
// differ from Answer only in name.
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
// SessionQuestions.mu may be held while callerstate.SessionSet.mu is taken.
package elicitation
