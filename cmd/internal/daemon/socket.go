package daemon

import "errors"

var (
	// ErrServed means that another daemon of this user serves the socket, and has proved that it is
	// one.
	ErrServed = errors.New("daemon: the socket is already served")

	// ErrInUse means that another program has the socket, or a daemon that does not answer.
	ErrInUse = errors.New("daemon: the socket is in use")
)
