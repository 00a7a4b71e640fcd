//go:build unix

package client

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/daemonlock"
	"github.com/turnstone-repl/turnstone/internal/peer"
)

// listenAsDaemon listens at a daemon's address, and proves that it is this user's.
func listenAsDaemon(t *testing.T) (l net.Listener, socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "s")
	l, err := listenAtSocket(socket)
	if err != nil {
		t.Fatal(err)
	}
	return l, socket
}

func listenAtSocket(socket string) (net.Listener, error) {
	l, err := net.Listen("unix", socket)
	return provingListener{l, peer.CanonicalAddress(socket)}, err
}

// A provingListener sends each client its proof before anything else.
type provingListener struct {
	net.Listener
	address string
}

func (p provingListener) Accept() (net.Conn, error) {
	for {
		conn, err := p.Listener.Accept()
		if err != nil || peer.AnswerQuestion(conn, p.address, daemonlock.UserKeys(os.Getenv, os.Geteuid())) == nil {
			return conn, err
		}
		_ = conn.Close()
	}
}
