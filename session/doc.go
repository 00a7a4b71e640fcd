// Package session defines a session as callers see it: its values, its errors, and one interface. A
// session of this process (supervisor.Session) and one of a daemon (client.Session) both implement
// [Session]. All code that shows, drives or stores a session uses that interface.
//
// The daemon sends the types in their JSON form. The package implements no session itself. Its
// functions only call the interface, and know neither workers nor connections.
//
//	r, err := session.Run(ctx, s, "6 * 7", &session.RunOptions{Timeout: time.Minute})
//	fmt.Println(r.Value) // 42
//
// [Run] is for a program that wants everything that became of some code. The methods of [Session]
// start a turn, wait for it, answer it and interrupt it in single steps.
//
// Package session/sessiontest tests an implementation.
//
// # Exits
//
// Each turn says whether its code may end the worker: SubmitMayExit allows it, and Submit does not.
// If every exit ended the worker, a script that ends in sys.exit(main()) would cost an agent all
// variables. After an exit that reports a failure, papermill would run the next cell in a new
// interpreter. At a terminal, and for a whole program, the same exit is what the user wants.
//
// A decision by the worker was rejected: it would have to guess from the length of the input or the
// status. A setting of the session was rejected, because a user, an agent and a notebook may use
// one session at the same time.
//
// # Dialects
//
// InDialect is a property of the caller for the same reason: the cells of a notebook may contain
// magics, and an agent in the same session keeps plain Python, with its errors and hints.
//
// The package starts no goroutines, except one that interrupts the code of a [Run] whose time is over.
// It ends before Run returns.
package session
