package mcpserver

import (
	"fmt"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/workers"
)

func TestHostUsers(t *testing.T) {
	t.Parallel()
	o, err := (&Options{Supervisor: new(supervisor.Supervisor), Specs: map[string]func(string) workers.Spec{"x": nil}}).withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	h := newHostTools(o, MinIdleTimeout)
	defer h.close()
	h.mu.Lock()
	defer h.mu.Unlock() // before close
	user := func(name string) *hostCaller {
		return h.userLocked(&mcp.CallToolRequest{Extra: &mcp.RequestExtra{TokenInfo: &auth.TokenInfo{UserID: name}}})
	}
	busy := user("busy")
	busy.openCalls++
	for i := range maxUsers + 50 {
		user(fmt.Sprint(i))
	}
	if len(h.users) != maxUsers {
		t.Errorf("%d users are kept, not %d", len(h.users), maxUsers)
	}
	if user("busy") != busy {
		t.Error("a user with an open call was forgotten")
	}
}
