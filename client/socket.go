package client

import (
	"context"
	"errors"
	"fmt"
	"github.com/turnstone-repl/turnstone/session"
	"net"
)

// DefaultSocket is where the daemon of this user listens: REPL_SOCKET, or
// turnstone/daemon.sock in XDG_RUNTIME_DIR, or the same in a directory of the
// user's own among the temporary files. On Windows, where it is a named pipe, it is
// REPL_SOCKET, or \\.\pipe\turnstone- and the user's SID. getenv is os.Getenv.
func DefaultSocket(getenv func(string) string) string {
	if name := getenv("REPL_SOCKET"); name != "" {
		return name
	}
	return defaultSocket(getenv)
}

// Connect connects to the daemon at a socket, within 5 s, and says nothing yet: it is
// for who speaks in lines of their own. On Windows it makes sure before that whoever
// listens is this user. An error is of [KindUnreachable].
func Connect(ctx context.Context, socket string) (net.Conn, error) {
	ctx, stop := context.WithTimeout(ctx, dialTime)
	defer stop()
	conn, err := connect(ctx, socket)
	if err != nil {
		if reason := errors.Unwrap(err); reason != nil {
			err = reason // our message names the socket already
		}
		return nil, &session.Error{Kind: KindUnreachable, Message: fmt.Sprintf("no daemon answers at %s (%v); start one with repl serve", socket, err)}
	}
	return conn, nil
}
