package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/turnstone-repl/turnstone/client/internal/conn"
	"github.com/turnstone-repl/turnstone/session"
)

// A Dialer connects to one daemon, for example through a [Socket]. It is safe for concurrent
// use.
type Dialer interface {
	// Dial connects, within its own time limit, and sends nothing yet: the caller sends first. An
	// error is of [session.KindUnreachable].
	Dial(ctx context.Context) (net.Conn, error)

	// String describes the connection for users: "the socket
	// /run/user/1000/turnstone/daemon.sock".
	String() string
}

// isLocal reports whether a dialer stays on this machine.
func isLocal(d Dialer) bool {
	switch d.(type) {
	case Socket, defaultDialer:
		return true
	}
	return false
}

// A Socket is the path of a socket on this machine; on Windows, the name of a pipe.
type Socket string

// String implements Dialer.
func (s Socket) String() string { return "the socket " + string(s) }

// Dial implements Dialer. It takes up to 5 s. It checks that a daemon of this user listens
// there before it returns: a daemon proves that it has the user's key, which no sandboxed
// session can read. On Windows the pipe and the listening process must belong to this user.
func (s Socket) Dial(ctx context.Context) (net.Conn, error) { return dialAt(ctx, os.Getenv, string(s)) }

func dialAt(ctx context.Context, getenv func(string) string, socket string) (net.Conn, error) {
	ctx, stop := context.WithTimeout(ctx, conn.DialTimeout)
	defer stop()
	stream, err := connectSocket(ctx, getenv, socket)
	switch {
	case err == nil:
		return stream, nil
	case session.KindOf(err) == session.KindUnreachable: // the error says why
		return nil, err
	case errors.Is(err, context.DeadlineExceeded):
		silent := conn.NewStuckError(Socket(socket))
		silent.Cause = context.DeadlineExceeded
		return nil, silent
	}
	if reason := errors.Unwrap(err); reason != nil {
		err = reason // the message already names the socket
	}
	return nil, &session.Error{Kind: session.KindUnreachable, Message: fmt.Sprintf("no daemon answers at %s (%v); start one with repl serve", socket, err)}
}

// displayName names the daemon of a dialer for users; d may be nil.
func displayName(d Dialer) string {
	if named, ok := d.(interface{ DisplayName() string }); ok {
		return named.DisplayName()
	}
	return "the daemon"
}
