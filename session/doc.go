// Package session says what a session is for its caller: the values that it gives
// and takes, its errors, and one interface. A session of this process
// (supervisor.Session) and one of a daemon's (client.Session) are both a [Session],
// and whatever shows, drives or stores a session does it through that.
//
// The JSON form of the types is what goes over the daemon's wire.
//
//	turn, err := s.As("ada").Submit(ctx, "6 * 7")
//	reply, err := s.Wait(ctx, turn, session.Until(45*time.Second))
//	fmt.Println(reply.Text()) // 42
//
// Package session/sessiontest proves an implementation.
//
// It has no goroutines.
package session
