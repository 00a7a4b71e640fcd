package daemon

import (
	"errors"
	"fmt"
	"io"
	"net"

	"golang.org/x/sys/windows"

	"github.com/turnstone-repl/turnstone/internal/namedpipe"
)

// A Listener accepts clients on a named pipe of this user.
type Listener struct{ net.Listener }

// Listen creates a named pipe for this user alone. ErrServed means that another daemon has the
// name.
func Listen(name string) (*Listener, error) {
	l, err := namedpipe.Listen(name)
	if served, ok := errors.AsType[*namedpipe.InUseError](err); ok {
		if served.PID == 0 {
			return nil, fmt.Errorf("%w: %w", ErrInUse, err)
		}
		return nil, fmt.Errorf("%w: by process %d, which has %s", ErrServed, served.PID, name)
	}
	if err != nil {
		return nil, err
	}
	return &Listener{l}, nil
}

// authorizePeer accepts every client: the kernel admits only processes of this user on this
// machine.
func authorizePeer(net.Conn) error { return nil }

// isTemporary reports whether the listener can accept clients again after err.
func isTemporary(err error) bool {
	for _, e := range []windows.Errno{
		windows.ERROR_NO_SYSTEM_RESOURCES, windows.ERROR_NOT_ENOUGH_MEMORY, windows.ERROR_OUTOFMEMORY, windows.ERROR_NOT_ENOUGH_QUOTA,
		windows.ERROR_COMMITMENT_LIMIT, windows.ERROR_PIPE_BUSY,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// peerPID returns 0: on Windows the daemon does not ask for the process of a client.
func peerPID(io.ReadWriteCloser) int { return 0 }
