package client

import (
	"io"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/session"
)

func TestDial_OtherProtocol(t *testing.T) {
	l, socket := listenAsDaemon(t)
	defer l.Close()
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = conn.Read(make([]byte, 1<<10))
		_, _ = io.WriteString(conn, `{"jsonrpc":"2.0","id":1,"result":{"version":"9.0","protocol":2}}`+"\n")
		_, _ = io.Copy(io.Discard, conn)
	}()
	if _, err := Dial(t.Context(), Socket(socket)); session.KindOf(err) != session.KindProtocol || !strings.Contains(err.Error(), "speaks protocol 2") {
		t.Errorf("got %v", err)
	} else if want := "is newer than this program: version 9.0 speaks protocol 2, and this program"; !strings.Contains(err.Error(), want) || !strings.HasSuffix(err.Error(), "repl daemon drain") {
		t.Errorf("got %v; want %q and the command", err, want)
	}
}
