//go:build !race

package daemon_test

import (
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/client/protocol"
	"github.com/turnstone-repl/turnstone/session"
)

// With the race detector this takes two minutes. The largest input runs, even if JSON doubles each of its bytes. A larger one gets the error of a
// session.
func TestDaemon_MaxInput(t *testing.T) {
	r := startDaemon(t, nil)
	c := newConnOver(t, client.New(client.Socket(r.socket), nil))
	r.newSession(c)
	input := "print whole" + strings.Repeat("\n", session.MaxInputBytes-len("print whole"))
	reply, err := c.StartTurn(t.Context(), protocol.StartParams{Session: "main", Input: input, WaitMS: processTimeout.Milliseconds()})
	if err != nil || reply.Text() != "whole\n" {
		t.Fatalf("got %q, %v", reply.Text(), err)
	}
	err = c.Call(t.Context(), protocol.MethodStart, protocol.StartParams{Session: "main", Input: input + "\n"}, nil)
	if want := session.NewTooLargeError(session.MaxInputBytes + 1); session.KindOf(err) != session.KindTooLarge || err.Error() != want.Error() {
		t.Errorf("got %v, want %v", err, want)
	}
	if now, err := c.GetSession(t.Context(), "main"); err != nil || now.State != session.StateIdle {
		t.Errorf("got %+v, %v", now, err)
	}
}
