// Package mcpserver offers REPL sessions to a model over the Model Context
// Protocol: to one client on a pair of streams, the caller's standard input and
// output (Run), or to any number over HTTP (RunHTTP). It is what a model sees.
//
//	err := mcpserver.Run(ctx, &mcpserver.Options{
//		Supervisor: sup,
//		Specs:      map[string]func() workers.Spec{"python": spec},
//		In:         os.Stdin,
//		Out:        os.Stdout,
//	})
//
// A client is one caller. It has one cursor for each session, and every reply begins with the
// events since the last reply that it got. A reply has only content, text and images in order,
// because clients show a model nothing else once there is structured content. At most one
// bracketed line about the state follows; facts for programs are in the result's _meta under
// turnstone/.
//
// A call outlives its timeout only while a person is asked, by userAnswerTimeout, and never the time that
// its client waits; a turn and a question may. Calls about a session begin in the order in which they came. An input that comes
// before an earlier call is answered is held until then, and so is the only thing that
// waits behind a turn: once the caller knows that code runs, a second input is refused
// at once, and says what to do.
//
// Questions that the model may not answer, secrets above all, are put to a person through
// the client: within the call where the protocol lets a server ask, and else by a result
// that makes the client call again, while the turn waits under a handle.
//
// Messages are carried by package mcpwire, which brings a call to its tool and says
// whether the client is given the answer. Only an answer that is given moves the cursor.
//
// Signals, flags, languages and the place of the token are left to cli.
//
// # Goroutines
//
//	name  started by  ends when                           owns
//	open  a call      the worker's process exists, 60 s   the start of one session, and
//	                  after its preparation               that
//	ask   a call      the answer, the end of the wait,    one question to the client
//	                  userAnswerTimeout without a call
//	over  a call      the wait or the question is over    nothing
//
// Run and RunHTTP wait for open. Calls and connections are mcpwire's.
package mcpserver
