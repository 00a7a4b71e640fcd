//go:build !windows

package client

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/turnstone-repl/turnstone/internal/registry"
	"github.com/turnstone-repl/turnstone/session"
)

const (
	// askTime is how long a daemon has to make its socket again, and askPause the time
	// between two looks whether it has.
	askTime  = 2 * time.Second
	askPause = 20 * time.Millisecond
)

func defaultSocket(getenv func(string) string) string { return registry.Find(getenv) }

func connect(ctx context.Context, socket string) (net.Conn, error) {
	if err := cmp.Or(registry.CheckPath(socket), registry.CheckOwner(socket, os.Geteuid())); err != nil {
		return nil, &session.Error{Kind: KindUnreachable, Message: err.Error()}
	}
	var d net.Dialer
	return d.DialContext(ctx, "unix", socket)
}

// askForSocket asks the daemon of this user, if it lives, to make its socket again. failed is
// why it was not reached.
func askForSocket(ctx context.Context, getenv func(string) string, failed error) (net.Conn, error) {
	if !registry.Ask(getenv) {
		return nil, failed
	}
	ctx, stop := context.WithTimeout(ctx, askTime)
	defer stop()
	again := time.NewTicker(askPause)
	defer again.Stop()
	for {
		e, lives := registry.Read(getenv)
		if !lives {
			return nil, failed
		}
		if conn, err := connect(ctx, e.Socket); err == nil {
			return conn, nil
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return nil, &session.Error{Kind: KindUnreachable, Message: fmt.Sprintf(
				"the daemon of this user is the process %d, and cannot be reached from here at %s; no second one is started beside it: use it from the login that can, or end it with kill %[1]d", e.PID, e.Socket)}
		}
	}
}
