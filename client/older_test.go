package client_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/session"
)

func TestOlderDaemon_UnknownMethod(t *testing.T) {
	t.Parallel()
	local, remote := net.Pipe()
	defer remote.Close()
	go func() {
		for in := bufio.NewScanner(remote); in.Scan(); {
			var m struct {
				ID     json.RawMessage
				Method string
			}
			_ = json.Unmarshal(in.Bytes(), &m)
			fmt.Fprintf(remote, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"method not found: %s","data":{"kind":"unknown_method"}}}`+"\n", m.ID, m.Method)
		}
	}()
	c := client.FromConn(local)
	defer c.Close()
	s := c.Session("main")
	_, read := s.Read(t.Context(), session.ReadQuery{})
	_, typed := s.Type(t.Context(), session.Keys{Text: "x"})
	_, seen := s.Screen(t.Context())
	for method, err := range map[string]error{protocol.MethodRead: read, protocol.MethodType: typed, protocol.MethodScreen: seen} {
		if session.KindOf(err) != session.KindUnknownMethod || !strings.Contains(err.Error(), "method not found: "+method+": the daemon is older than this program") {
			t.Errorf("got %v", err)
		}
	}
}
