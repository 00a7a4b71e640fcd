//go:build unix

package daemon_test

import (
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/timeline"
)

func TestAuthor_IsTextThatOthersCanBeShown(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	c := r.dial()
	r.session(c)
	for _, author := range []string{"\x1b[2J", "a\nturn 2 by b", strings.Repeat("a", client.MaxAuthorBytes+1)} {
		_, started := c.Start(t.Context(), client.StartParams{Session: "main", Input: "print x", Author: author})
		_, answered := c.Input(t.Context(), client.InputParams{Session: "main", Wait: 1, Input: "x", Author: author})
		_, interrupted := c.Interrupt(t.Context(), client.InterruptParams{Session: "main", Turn: 1, Author: author})
		for what, err := range map[string]error{
			"start": started, "input": answered, "interrupt": interrupted,
			"take": c.Take(t.Context(), "main", author, false),
		} {
			if err == nil || !strings.Contains(err.Error(), "author: use up to 128 bytes of text") {
				t.Errorf("%s by %q: got %v", what, author, err)
			}
		}
	}
}

func TestInterrupt_NamesWhoDidIt(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	agent, person := r.dial(), r.dial()
	r.session(agent)
	if _, err := agent.Start(t.Context(), client.StartParams{Session: "main", Input: "sleep", Author: "bot"}); err != nil {
		t.Fatal(err)
	}
	if _, err := person.Interrupt(t.Context(), client.InterruptParams{Session: "main", Turn: 2, Author: "ada"}); err != nil {
		t.Fatal(err)
	}
	reply, err := agent.Wait(t.Context(), client.WaitParams{Session: "main", WaitMS: patience.Milliseconds()})
	if err != nil {
		t.Fatal(err)
	}
	if got := timeline.Render(reply.Events, &timeline.RenderOptions{Self: "bot"}).Text(); !strings.Contains(got, "[interrupted by ada]") {
		t.Errorf("the agent reads %q", got)
	}
}
