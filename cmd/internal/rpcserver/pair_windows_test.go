package rpcserver

import (
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/namedpipe"
)

var pairCount atomic.Int64

// newConnPair returns a connection over a named pipe: the client's end, and the server's.
func newConnPair(t testing.TB) (client, server net.Conn) {
	t.Helper()
	name := fmt.Sprintf(`\\.\pipe\turnstone-test-%d-%d`, os.Getpid(), pairCount.Add(1))
	l, err := namedpipe.Listen(name)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if client, err = namedpipe.Dial(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	if server, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	return client, server
}
