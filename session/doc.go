// Package session defines a session as callers see it: its values, its errors, and one interface.
// A session of this process (supervisor.Session) and one of a daemon (client.Session) are both a
// [Session]. All code that shows, drives or stores a session uses that interface.
//
// The daemon sends the types in their JSON form. The package has no session of its own, and knows
// neither workers nor connections: its functions only call the interface.
//
//	turn, err := s.As("ada").Submit(ctx, "6 * 7")
//	reply, err := s.Wait(ctx, turn, session.WaitAtMost(45*time.Second))
//	fmt.Println(reply.Text()) // 42
//
// Package session/sessiontest tests an implementation.
//
// # Exits
//
// Each turn says whether its code may end the worker: SubmitMayExit allows it, and Submit does not. If
// every exit ended the worker, a script that ends in sys.exit(main()) would cost an agent all
// variables. papermill would run the next cell in a new interpreter, after an exit that reports a
// failure. At a terminal, and for a whole program, the
// same exit is what the user wants. A worker cannot guess that from the length of the input or the
// status. A setting of the session does not fit either: a person, an agent and a notebook may use one
// session at the same time.
//
// It has no goroutines.
package session
