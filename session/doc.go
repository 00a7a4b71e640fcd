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
// It has no goroutines.
package session
