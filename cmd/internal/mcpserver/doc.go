// Package mcpserver offers REPL sessions to a model over the Model Context
// Protocol: to one client on a pair of streams, the caller's standard input and
// output (Run), or to any number over HTTP (RunHTTP).
//
//	err := mcpserver.Run(ctx, &mcpserver.Options{
//		Supervisor: sup,
//		Specs:      map[string]func() workers.Spec{"python": spec},
//		In:         os.Stdin,
//		Out:        os.Stdout,
//	})
//
// A client is one caller: it has one cursor for each session, and every reply
// begins with what happened since the last one that it got. What a reply holds is
// content only, text and images in order, because clients show a model nothing
// else once there is structured content. At most one bracketed line about the
// state follows; facts for programs are in the result's _meta under turnstone/.
//
// A call outlives its timeout only while a person is asked, by personTime; a turn
// may. Calls about a session begin in the order in which they came. An input that comes
// before an earlier call is answered is held until then, and so is the only thing that
// waits behind a turn: once the caller knows that code runs, a second input is refused
// at once, and says what to do.
//
// What the model may not answer, secrets above all, is asked of a person through the
// client: within the call where the protocol lets a server ask, and else by a result
// that makes the client call again, while the turn waits under a handle.
//
// The SDK keeps the protocol, in every version from 2024-11-05 on; the wire below
// it keeps the promises that the SDK does not: a cancelled call is never answered,
// ids and progress tokens come back as they were sent, a line that is not JSON
// costs an error and not the connection, and it is known whether the client is
// given a reply. Only one that is moves the cursor.
//
// Over HTTP a front does the same before the SDK's handlers. What tools need of
// either is a call; the way of a request is gate, front, exchange, the SDK, a tool:
//
//	gate      who may: token, Host, Origin, how many connections
//	front     which era, whose: one server for each MCP session, one for all calls without
//	exchange  the response: what is written for a cancelled call goes nowhere
//	replay    messages for clients that come back; whether an answer is given
//
// What it leaves out: signals, flags, languages and where the token is (see cli).
//
// # Goroutines
//
//	name     started by  ends when                          owns
//	lines    Run         the input ends or fails            the input
//	open     a call      the worker's process exists, 60 s  the start of one session, and
//	                     after what must be prepared        that
//	calls    the SDK     the call is answered or cancelled  nothing
//	asides   lines       its messages are written           errors that answer no call
//	ask      a call      the answer, or the end of the call  one question to the client
//	over     a call      the wait or the call is over       nothing
//	last     Run         calls and asides have ended        nothing
//	web      RunHTTP     the listener is closed             connections, with one goroutine each
//	leaving  a request   its calls are answered, 0.5 s      a client that has ended
//
// Run waits for open, and for half a second for calls and asides: no longer,
// because a client that does not read blocks them in a write. lines cannot be
// ended from here while it reads, nor can such a write: they end with the streams,
// or with the process. RunHTTP waits for web, and for half a second for leaving and
// connections, which it then closes.
package mcpserver
