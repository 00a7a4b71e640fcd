//go:build unix

package daemon_test

import (
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline/render"
)

func TestAuthor_InvalidNames(t *testing.T) {
	t.Parallel()
	r := startDaemon(t, nil)
	c := r.dial()
	r.newSession(c)
	for _, author := range []string{"\x1b[2J", "a\nturn 2 by b", strings.Repeat("a", protocol.MaxAuthorBytes+1)} {
		_, started := c.StartTurn(t.Context(), protocol.StartParams{Session: "main", Input: "print x", Author: author})
		_, answered := c.SendInput(t.Context(), protocol.InputParams{Session: "main", InputRequest: 1, Input: "x", Author: author})
		_, typed := c.TypeKeys(t.Context(), protocol.TypeParams{Session: "main", Keys: session.Keys{Text: "x"}, Author: author})
		_, interrupted := c.InterruptTurn(t.Context(), protocol.InterruptParams{Session: "main", Turn: 1, Author: author})
		for what, err := range map[string]error{
			"start": started, "input": answered, "type": typed, "interrupt": interrupted,
			"take": c.TakeWriteLock(t.Context(), "main", author, false),
		} {
			if err == nil || !strings.Contains(err.Error(), "author: use up to 128 bytes of text") {
				t.Errorf("%s by %q: got %v", what, author, err)
			}
		}
	}
}

func TestInterrupt_NamesAuthor(t *testing.T) {
	t.Parallel()
	r := startDaemon(t, nil)
	agent, user := r.dial(), r.dial()
	r.newSession(agent)
	if _, err := agent.StartTurn(t.Context(), protocol.StartParams{Session: "main", Input: "sleep", Author: "bot"}); err != nil {
		t.Fatal(err)
	}
	if _, err := user.InterruptTurn(t.Context(), protocol.InterruptParams{Session: "main", Turn: 2, Author: "ada"}); err != nil {
		t.Fatal(err)
	}
	reply, err := agent.WaitTurn(t.Context(), protocol.WaitParams{Session: "main", WaitMS: processTimeout.Milliseconds()})
	if err != nil {
		t.Fatal(err)
	}
	if got := render.Events(reply.Events, &render.Options{Self: "bot"}).Text(); !strings.Contains(got, "[interrupted by ada]") {
		t.Errorf("the agent reads %q", got)
	}
}
