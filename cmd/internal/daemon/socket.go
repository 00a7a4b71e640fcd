package daemon

import "errors"

var (
	// ErrServed means that another daemon of this user serves the socket, and has proved it.
	ErrServed = errors.New("daemon: the socket is served already")

	// ErrInUse means that something else has the socket, or a daemon that does not answer.
	ErrInUse = errors.New("daemon: the socket is in use")
)
