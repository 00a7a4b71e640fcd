package client

import (
	"context"
	"net"
	"os"
)

// DefaultSocket is where the daemon of this user on this host listens, or where one would. It is
// the first of these:
//
//   - TURNSTONE_SOCKET
//   - on Linux, the socket that a live daemon has noted in the user's state directory
//   - turnstone/daemon.sock in XDG_RUNTIME_DIR, or else in /run/user/UID
//   - that file in a directory of the user's own among the temporary files
//
// A daemon may move, see [DefaultDialer]. On Windows it is a named pipe: TURNSTONE_SOCKET, or
// \\.\pipe\turnstone- and the user's SID. A nil getenv is os.Getenv.
func DefaultSocket(getenv func(string) string) string {
	getenv = getenvOrDefault(getenv)
	if name := getenv("TURNSTONE_SOCKET"); name != "" {
		return name
	}
	return defaultSocket(getenv)
}

// DefaultDialer returns the dialer for the daemon of this user on this host. Each Dial looks up
// again where the daemon listens, because it moves if the directory of its socket was removed
// and cannot be created again. A nil getenv is os.Getenv.
func DefaultDialer(getenv func(string) string) Dialer { return defaultDialer{getenvOrDefault(getenv)} }

// getenvOrDefault returns getenv, or os.Getenv if it is nil.
func getenvOrDefault(getenv func(string) string) func(string) string {
	if getenv == nil {
		return os.Getenv
	}
	return getenv
}

type defaultDialer struct{ getenv func(string) string }

// String implements Dialer.
func (d defaultDialer) String() string { return Socket(DefaultSocket(d.getenv)).String() }

// Dial implements Dialer. It takes up to 5 s. If a live daemon is not at its socket, it is
// asked to create it again first, and has 2 s to do so.
func (d defaultDialer) Dial(ctx context.Context) (net.Conn, error) {
	if named := d.getenv("TURNSTONE_SOCKET"); named != "" {
		return dialAt(ctx, d.getenv, named)
	}
	return dialDefault(ctx, d.getenv)
}
