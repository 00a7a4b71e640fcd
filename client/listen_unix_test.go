//go:build unix

package client

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/peer"
	"github.com/turnstone-repl/turnstone/internal/registry"
)

// listen listens where a daemon could, and proves that it is this user's.
func listen(t *testing.T) (l net.Listener, socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "s")
	l, err := listenAt(socket)
	if err != nil {
		t.Fatal(err)
	}
	return l, socket
}

func listenAt(socket string) (net.Listener, error) {
	l, err := net.Listen("unix", socket)
	return proving{l, peer.Address(socket)}, err
}

// A proving listener gives each client its proof before anything else.
type proving struct {
	net.Listener
	address string
}

func (p proving) Accept() (net.Conn, error) {
	for {
		conn, err := p.Listener.Accept()
		if err != nil || peer.Answer(conn, p.address, registry.Keys(os.Getenv, os.Geteuid())) == nil {
			return conn, err
		}
		_ = conn.Close()
	}
}
