package client

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/turnstone-repl/turnstone/session"
)

// A Dialer is a way to one daemon. [Socket] is one. It is safe for concurrent use.
type Dialer interface {
	// Dial connects, within a bound of its own, and says nothing yet: it is for who speaks
	// in lines of their own. An error is of [KindUnreachable].
	Dial(ctx context.Context) (net.Conn, error)

	// String names the way for people: "the socket /run/user/1000/turnstone/daemon.sock".
	String() string
}

// isHere reports whether a way stays on this machine.
func isHere(d Dialer) bool {
	switch d.(type) {
	case Socket, usual:
		return true
	}
	return false
}

// A Socket is the path of a socket on this machine; on Windows, the name of a pipe.
type Socket string

// String implements Dialer.
func (s Socket) String() string { return "the socket " + string(s) }

// Dial implements Dialer. It takes up to 5 s. On Windows it makes sure that the one who
// listens is this user.
func (s Socket) Dial(ctx context.Context) (net.Conn, error) {
	ctx, stop := context.WithTimeout(ctx, dialTime)
	defer stop()
	conn, err := connect(ctx, string(s))
	if session.KindOf(err) == KindUnreachable { // it says why in its own words
		return nil, err
	}
	if err != nil {
		if reason := errors.Unwrap(err); reason != nil {
			err = reason // our message names the socket already
		}
		return nil, &session.Error{Kind: KindUnreachable, Message: fmt.Sprintf("no daemon answers at %s (%v); start one with repl serve", string(s), err)}
	}
	return conn, nil
}
