package daemon

import (
	"errors"
	"net"
)

// ErrServed says that another daemon serves the socket.
var ErrServed = errors.New("daemon: the socket is served already")

// A Listener accepts clients.
type Listener struct{ net.Listener }

// Listen fails: there is no daemon on Windows yet.
func Listen(string) (*Listener, error) {
	return nil, errors.New("the daemon does not run on Windows yet; use repl mcp without --daemon")
}

func authorize(net.Conn) error { return errors.New("the daemon does not run on Windows yet") }

func isTemporary(error) bool { return false }
