package daemon_test

import (
	"fmt"
	"testing"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/session/sessiontest"
)

func TestClient_SessionKeepsThePromisesOfTheInterface(t *testing.T) {
	r := start(t, nil)
	made := 0
	sessiontest.Run(t, func(t *testing.T) session.Session {
		made++ // sessions are made one after the other, before their tests run
		c, err := client.Dial(t.Context(), r.socket)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		name := fmt.Sprintf("s%d", made)
		if _, err := c.Create(t.Context(), client.CreateParams{Name: name}); err != nil {
			t.Fatal(err)
		}
		return c.Session(name)
	})
}
