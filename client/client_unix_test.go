//go:build unix

package client

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/client/protocol"
	"github.com/turnstone-repl/turnstone/session"
)

// serveConn answers the calls on one connection of a daemon as answer says for each method,
// until answer returns "", which closes the connection.
func serveConn(t *testing.T, l net.Listener, answer func(method string) string) {
	t.Helper()
	conn, err := l.Accept()
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close()
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		var call struct {
			ID     json.RawMessage
			Method string
		}
		_ = json.Unmarshal(lines.Bytes(), &call)
		text := fmt.Sprintf(`"result":{"protocol":%d}`, protocol.Version)
		if call.Method != protocol.MethodInfo && call.Method != protocol.MethodHello {
			text = answer(call.Method)
		}
		if text == "" {
			return
		}
		_, _ = io.WriteString(conn, `{"jsonrpc":"2.0","id":`+string(call.ID)+`,`+text+"}\n")
		if strings.Contains(text, string(session.KindShuttingDown)) {
			return
		}
	}
}

func TestLocalDaemon(t *testing.T) {
	t.Parallel()

	t.Run("opens a session at a new daemon after the old one ended", func(t *testing.T) {
		t.Parallel()
		for _, last := range []string{"", `"error":{"code":-32001,"message":"the server is shutting down","data":{"kind":"shutting_down"}}`} {
			t.Run(fmt.Sprintf("last word %.7q", last), func(t *testing.T) {
				t.Parallel()
				l, socket := listenAsDaemon(t)
				link := New(Socket(socket), nil)
				var served sync.WaitGroup
				defer served.Wait()
				defer l.Close()
				defer link.Close()
				served.Go(func() {
					serveConn(t, l, func(string) string { return last })
					serveConn(t, l, func(string) string { return `"result":{"name":"main"}` })
				})
				if err := link.Connect(t.Context()); err != nil {
					t.Fatal(err)
				}
				if _, now, _, err := link.OpenSession(t.Context(), protocol.CreateParams{Name: "main"}); err != nil || now.Name != "main" {
					t.Errorf("got %+v, %v", now, err)
				}
			})
		}
	})

	t.Run("connects to a daemon that starts slowly", func(t *testing.T) {
		t.Parallel()
		l, socket := listenAsDaemon(t)
		_ = l.Close()
		link := New(Socket(socket), func(context.Context) error {
			<-time.After(stuckTimeout)
			l, err := listenAtSocket(socket)
			if err != nil {
				return err
			}
			t.Cleanup(func() { _ = l.Close() })
			go serveConn(t, l, nil)
			return nil
		})
		defer link.Close()
		if err := link.Connect(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
