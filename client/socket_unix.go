//go:build !windows

package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/turnstone-repl/turnstone/internal/daemonlock"
	"github.com/turnstone-repl/turnstone/internal/peer"
	"github.com/turnstone-repl/turnstone/session"
)

const (
	// socketRenewTimeout bounds how long a daemon may take to create its socket again, and
	// socketPollInterval is the time between two checks for it.
	socketRenewTimeout = 2 * time.Second
	socketPollInterval = 20 * time.Millisecond
)

func defaultSocket(getenv func(string) string) string { return daemonlock.FindSocket(getenv) }

// connectSocket connects to a socket and checks that a daemon of its user listens there.
func connectSocket(ctx context.Context, getenv func(string) string, socket string) (net.Conn, error) {
	user := os.Geteuid()
	if err := cmp.Or(daemonlock.CheckPath(socket), daemonlock.CheckOwner(socket, user)); err != nil {
		return nil, &session.Error{Kind: session.KindUnreachable, Message: err.Error()}
	}
	address := peer.CanonicalAddress(socket)
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}
	if user == 0 { // root may use the daemon of any user
		user = cmp.Or(daemonlock.SocketOwner(socket), user)
	}
	err = peer.RequestProof(ctx, conn, address, daemonlock.UserKeys(getenv, user))
	if err == nil {
		return conn, nil
	}
	_ = conn.Close()
	if _, unproven := errors.AsType[*peer.UnprovenError](err); unproven {
		err = &session.Error{Kind: session.KindUnreachable, Message: err.Error(), Cause: err}
	}
	return nil, err
}

// dialDefault connects to the daemon of this user, wherever it is. A listener that does not
// prove that it is that daemon is skipped. A live daemon that is not at its socket is asked to
// create it again.
func dialDefault(ctx context.Context, getenv func(string) string) (net.Conn, error) {
	first := daemonlock.FindSocket(getenv)
	conn, err := dialAt(ctx, getenv, first)
	if _, unproven := errors.AsType[*peer.UnprovenError](err); unproven {
		for _, other := range daemonlock.SocketPaths(getenv) {
			if other == first {
				continue
			}
			if conn, err := dialAt(ctx, getenv, other); err == nil {
				return conn, nil
			}
		}
	}
	if err == nil || errors.Is(err, context.DeadlineExceeded) { // a daemon is there, even if it does not answer
		return conn, err
	}
	return askForSocket(ctx, getenv, err)
}

// askForSocket asks the daemon of this user, if it is alive, to create its socket again. failed
// says why it was not reached.
func askForSocket(ctx context.Context, getenv func(string) string, failed error) (net.Conn, error) {
	if !daemonlock.RequestRenewal(getenv) {
		return nil, failed
	}
	ctx, stop := context.WithTimeout(ctx, socketRenewTimeout)
	defer stop()
	again := time.NewTicker(socketPollInterval)
	defer again.Stop()
	for {
		e, lives := daemonlock.ReadEntry(getenv)
		if !lives {
			return nil, failed
		}
		if conn, err := connectSocket(ctx, getenv, e.Socket); err == nil {
			return conn, nil
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			if _, unproven := errors.AsType[*peer.UnprovenError](failed); unproven {
				return nil, failed // another program listens there
			}
			return nil, &session.Error{Kind: session.KindUnreachable, Message: fmt.Sprintf(
				"the daemon of this user (process %d) cannot be reached from here at %s, and a second one is not started; use a login that can reach it, or end it with kill %[1]d", e.PID, e.Socket)}
		}
	}
}
