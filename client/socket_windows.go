package client

import (
	"context"
	"net"

	"github.com/turnstone-repl/turnstone/internal/namedpipe"
)

func defaultSocket(func(string) string) string { return namedpipe.DefaultName() }

// connectSocket connects to a pipe if the pipe and the listening process belong to this user.
func connectSocket(ctx context.Context, _ func(string) string, socket string) (net.Conn, error) {
	return namedpipe.Dial(ctx, socket)
}

func dialDefault(ctx context.Context, getenv func(string) string) (net.Conn, error) {
	return dialAt(ctx, getenv, namedpipe.DefaultName())
}
