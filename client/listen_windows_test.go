package client

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/namedpipe"
)

// listenAsDaemon listens at a daemon's address.
func listenAsDaemon(t *testing.T) (l net.Listener, socket string) {
	t.Helper()
	socket = fmt.Sprintf(`\\.\pipe\turnstone-test-%d`, os.Getpid())
	l, err := namedpipe.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	return l, socket
}

func TestDefaultSocket_Pipe(t *testing.T) {
	none := func(string) string { return "" }
	if got := DefaultSocket(none); !strings.HasPrefix(got, `\\.\pipe\turnstone-S-1-`) {
		t.Errorf("got %s", got)
	}
	named := func(name string) string { return map[string]string{"TURNSTONE_SOCKET": `\\.\pipe\mine`}[name] }
	if got := DefaultSocket(named); got != `\\.\pipe\mine` {
		t.Errorf("got %s", got)
	}
}
