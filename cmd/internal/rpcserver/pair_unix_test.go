//go:build unix

package rpcserver

import (
	"net"
	"path/filepath"
	"testing"
)

// newConnPair returns a connection over a unix socket: the client's end, and the server's.
func newConnPair(t testing.TB) (client, server net.Conn) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if client, err = net.Dial("unix", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if server, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	return client, server
}

// A pipe of Windows cannot be closed in one direction.
func TestServer_HalfClosed(t *testing.T) {
	for range 50 {
		p := newTestClient(t, &Server{Methods: map[string]Handler{"echo": handleEcho}})
		p.send(`{"jsonrpc":"2.0","id":1,"method":"echo"}`)
		if err := p.conn.(*net.UnixConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		p.wantLine(`{"jsonrpc":"2.0","id":1,"result":{}}`)
	}
}
