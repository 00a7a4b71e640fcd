// Package mcpserver offers REPL sessions to models over the Model Context Protocol. Run serves
// one client on a pair of streams, and RunHTTP any number of clients over HTTP. AddTo adds the tools
// to the MCP server of another program. The package defines everything that a model sees.
//
//	err := mcpserver.Run(ctx, &mcpserver.Options{
//		Supervisor: sup,
//		Specs:      map[string]func(dir string) workers.Spec{"python": spec},
//		In:         os.Stdin,
//		Out:        os.Stdout,
//	})
//
// A client is one caller. It has a read cursor in each session, and every reply starts with the
// events since the last reply that it received. A reply consists of text and images, in order. It
// has no structured content, because clients would then show a model nothing else. At most one
// bracketed line about the state follows. Facts for programs are in the result's _meta, under
// turnstone/.
//
// Keys are input for the programs at the terminal, which code has started. They need no input
// request, but the caller must have been shown the turn. The drawing of a full-screen program is
// replaced by its screen. A call that only waits does not return for a program that polls, if
// the caller was told of it and nothing has changed.
//
// A call outlives its timeout only while a user is being asked, by a few minutes at most, and never
// longer than its client waits. A turn and a question may outlive the call. Calls about a session
// start in the order of their arrival. An input that arrives before an earlier call is answered is
// queued until then. No other input is queued: once the caller knows that code runs, further inputs
// are refused at once, with advice.
//
// Questions that the model must not answer, above all for secrets, go to the user through the
// client. Where the protocol lets a server ask, this happens within the call. Otherwise the result
// asks the client to call again with the answer, and the call is stored under a handle until then.
//
// Package mcptransport carries the messages. It passes each call to its tool, and reports whether
// the client receives the answer. Only a delivered answer moves the cursor.
//
// Six packages below this one can be read and tested without a server:
//
//	backend        where sessions live, and how a client opens one
//	callerstate    the sessions of a caller, how far it has read, and which call owns the turn
//	callorder      which call of a caller may run code next
//	elicitation    asking the user what the model must not answer
//	reply          the content of a reply: text, images and the line about the state
//	clientprofile  how known clients treat results, and what they allow their own commands
//
// Package agents handles signals, flags, languages and the location of the token.
//
// # Goroutines
//
//	name            started by    ends when                     owns
//	pollUntilMatch  a call        the wait or the call is over  nothing
//	callerLocked    a first call  the MCP session ends          the REPL sessions of a caller of AddTo
//	closing         callerLocked  the sessions are closed       the sessions of a caller of AddTo
//
// Run, RunHTTP and the function that AddTo returns wait for the sessions of callerstate. Calls and
// connections belong to mcptransport, questions to elicitation, and the pages for the user to
// browserprompt.
//
// # Locks
//
// server.mu may be held while browserprompt.Pages.mu is taken, and hostTools.mu while
// callerstate.SessionSet.mu is taken. clientRoots.mu may be held while a
// lock of mcptransport is taken. It is held while the client is asked for its directories, for 5 s
// at most.
package mcpserver
