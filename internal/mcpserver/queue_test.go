package mcpserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/mcpserver/backend"
	"github.com/turnstone-repl/turnstone/internal/testkit/fakeworker"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
)

// A toolCall is one of several calls that a client makes before it has any answer.
type toolCall struct {
	tool string
	args map[string]any
}

func replCall(input string) toolCall { return toolCall{"repl", map[string]any{"input": input}} }

// sendAll sends calls in one write, like a client whose model makes several calls in one turn.
func (c *client) sendAll(calls ...toolCall) (ids []string) {
	c.t.Helper()
	var lines strings.Builder
	for _, call := range calls {
		c.lastID++
		ids = append(ids, fmt.Sprint(c.lastID))
		params := map[string]any{"name": call.tool, "arguments": call.args}
		if c.meta != nil {
			params["_meta"] = c.meta
		}
		text, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": c.lastID, "method": "tools/call", "params": params})
		if err != nil {
			c.t.Fatal(err)
		}
		lines.Write(text)
		lines.WriteByte('\n')
	}
	c.sendLine(strings.TrimSuffix(lines.String(), "\n"))
	return ids
}

func TestQueuedInput(t *testing.T) {
	t.Parallel()

	t.Run("calls that arrive together run in order", func(t *testing.T) {
		t.Parallel()
		runEachProtocolVersion(t, func(t *testing.T, c *client) {
			for i := range 20 {
				ids := c.sendAll(
					replCall(fmt.Sprintf("sleep 1ms\nprint a%d", i)),
					replCall(fmt.Sprintf("print b%d", i)),
					replCall(fmt.Sprintf("print c%d", i)),
					replCall(fmt.Sprintf("print d%d", i)))
				for n, id := range ids {
					wantText(t, c.waitResult(id).text(), fmt.Sprintf("%c%d", 'a'+n, i))
				}
			}
		})
	})

	t.Run("calls that arrive together over HTTP all run", func(t *testing.T) {
		t.Parallel()
		runEachHTTPVersion(t, func(t *testing.T, c *webClient) {
			c.runRepl("print begun")
			for i := range 5 {
				var calls []*webRequest
				for n := range 3 {
					calls = append(calls, c.startCall("repl", map[string]any{"input": fmt.Sprintf("sleep 1ms\nprint %d.%d", i, n)}, nil))
				}
				for n, call := range calls {
					wantText(t, call.waitResult().text(), fmt.Sprintf("%d.%d", i, n))
				}
			}
		})
	})

	t.Run("a batch runs in its order", func(t *testing.T) {
		t.Parallel()
		c := newWebServer(t, nil, 0).newSessionClient("2025-03-26")
		c.runRepl("print begun")
		call := func(id int, input string) string {
			return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"repl","arguments":{"input":%q}}}`, id, input)
		}
		_, text, _ := c.do("POST", "["+call(91, "sleep 5ms\nprint a")+","+call(92, "print b")+","+call(93, "print c")+"]", nil)
		// Calls that end at nearly the same time are answered in any order.
		turns := make(map[string]string)
		for _, found := range regexp.MustCompile(`"id":(\d+).*"turnstone/turn":(\d+)\}.*"text":"(\w)"`).FindAllStringSubmatch(text, -1) {
			turns[found[1]] = found[2] + found[3]
		}
		if !maps.Equal(turns, map[string]string{"91": "2a", "92": "3b", "93": "4c"}) {
			t.Errorf("got %s", text)
		}
	})

	t.Run("is rejected when the earlier call does not succeed", func(t *testing.T) {
		t.Parallel()
		for _, test := range []struct {
			first, why string
			end        func(c *client) // nil if the code ends
		}{
			{"error E no", "ended in an error", nil},
			{"wait a? ", "waits for input", nil},
			{"exit 3", "ended the session", nil},
			{"", "was interrupted", func(c *client) {
				c.waitState("running")
				if _, err := c.mainSession().Interrupt(c.t.Context(), 0); err != nil {
					c.t.Error(err)
				}
			}},
		} {
			t.Run(test.why, func(t *testing.T) {
				t.Parallel()
				c := newInitializedClient(t, nil)
				c.runRepl("print begun")
				wait, open := newGate(t)
				ids := c.sendAll(replCall(wait+test.first), replCall("print b"), replCall("print c"), toolCall{"repl_sessions", nil})
				c.waitResult(ids[3]) // all calls have arrived
				if test.end != nil {
					test.end(c)
				} else {
					open()
				}
				c.waitResult(ids[0])
				for _, id := range ids[1:3] {
					wantPart(t, c.waitResult(id).text(), "your input was NOT run: an earlier call, which was not answered yet, "+test.why)
				}
				wantPart(t, c.runRepl("print d"), "d") // in one case the answer to the input request
			})
		}
	})

	// A call refers to the state that its client knew when the call arrived, however late the server
	// handles it.
	t.Run("never answers a request that its client has not seen", func(t *testing.T) {
		t.Parallel()
		sup, err := supervisor.New(&supervisor.Options{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = sup.Close() })
		host := &slowBackend{&listOnlyBackend{remotes: []string{""}}, sup, make(chan struct{}, 1), make(chan struct{})}
		c := newInitializedClient(t, &setup{backend: host})
		c.runRepl("print begun")
		wait, open := newGate(t)
		ids := c.sendAll(replCall(wait+"wait a? "), toolCall{"repl_output", map[string]any{"after": 0}}, replCall("print b"), toolCall{"repl", map[string]any{"input": "", "eof": true}})
		<-host.pollStarted
		c.call("repl_sessions", nil) // all calls have arrived
		open()
		wantPart(t, c.waitResult(ids[0]).text(), `[waiting for input: "a? "]`)
		host.pollReleased <- struct{}{}
		for _, id := range ids[2:] {
			wantPart(t, c.waitResult(id).text(), "your input was NOT run: an earlier call, which was not answered yet, waits for input", `"a? "`)
		}
		// Now the client knows of the request, and another call that shows it changes nothing.
		ids = c.sendAll(toolCall{"repl_output", nil}, toolCall{"repl_output", map[string]any{"after": 0}}, replCall("print d"))
		wantPart(t, c.waitResult(ids[0]).text(), `[waiting for input: "a? "]`)
		<-host.pollStarted
		host.pollReleased <- struct{}{}
		wantText(t, c.waitResult(ids[2]).text(), "print d")
	})

	t.Run("is rejected when the earlier call times out", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		c.runRepl("print begun")
		ids := c.sendAll(toolCall{"repl", map[string]any{"input": "sleep", "timeout_ms": 500}}, replCall("print b"))
		wantPart(t, c.waitResult(ids[0]).text(), "[running ")
		wantPart(t, c.waitResult(ids[1]).text(), "your input was NOT run: an earlier call, which was not answered yet, still runs", "repl_interrupt to stop")
		c.call("repl_interrupt", nil)
		wantText(t, c.runRepl("print d"), "d")
	})

	t.Run("waits no longer than its own timeout", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		c.runRepl("print begun")
		ids := c.sendAll(replCall("sleep"), toolCall{"repl", map[string]any{"input": "print b", "timeout_ms": 1}})
		wantPart(t, c.waitResult(ids[1]).text(), "your input was NOT run: an earlier call ") // which is not answered yet, or has not started
		c.call("repl_interrupt", nil)
		wantPart(t, c.waitResult(ids[0]).text(), "interrupted after ")
	})

	t.Run("a cancel drops one input and no other", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		c.runRepl("print begun")
		ids := c.sendAll(replCall("sleep"), replCall("print b"), toolCall{"repl_sessions", nil})
		c.waitResult(ids[2]) // both calls have arrived
		c.waitState("running")
		c.cancel(ids[1])
		c.cancel(ids[0])
		got := c.runRepl("print c")
		wantPart(t, got, "[the previous call was cancelled after ", "Interrupted", "c")
		wantText(t, c.runRepl("print d"), "d")
		if strings.Contains(got, "\nb\n") {
			t.Errorf("got %q, but the dropped input must not run", got)
		}
		c.wantNoAnswer(ids[1])
	})

	t.Run("the queue is limited", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		c.runRepl("print begun")
		calls := []toolCall{replCall("sleep")}
		for range 17 {
			calls = append(calls, replCall("print queued"))
		}
		ids := c.sendAll(calls...)
		wantPart(t, c.waitResult(ids[17]).text(), "your input was NOT run: 16 other inputs are queued already")
		c.call("repl_interrupt", nil)
		for _, id := range ids[1:17] {
			wantPart(t, c.waitResult(id).text(), "your input was NOT run")
		}
	})

	// Calls count in their order on the pipe.
	t.Run("an interrupt right behind a call reaches it", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		c.runRepl("print begun")
		for range 100 {
			ids := c.sendAll(replCall("sleep"), toolCall{"repl_interrupt", nil})
			wantPart(t, c.waitResult(ids[0]).text(), "interrupted after ")
			if got := c.waitResult(ids[1]).text(); strings.Contains(got, "nothing was running") {
				t.Fatalf("got %q", got)
			}
		}
	})

	t.Run("input behind an interrupt runs", func(t *testing.T) {
		t.Parallel()
		for _, stop := range []toolCall{{"repl_interrupt", nil}, {"repl_reset", nil}, replCall("\x03print c")} {
			t.Run(fmt.Sprint(stop), func(t *testing.T) {
				t.Parallel()
				c := newInitializedClient(t, nil)
				c.runRepl("print begun")
				for range 10 {
					ids := c.sendAll(replCall("sleep"), replCall("print b"), stop, replCall("print d"))
					wantPart(t, c.waitResult(ids[1]).text(), "your input was NOT run")
					wantPart(t, c.waitResult(ids[3]).text(), "d")
					if got := c.waitResult(ids[2]).text(); strings.Contains(got, "nothing was running") {
						t.Fatalf("got %q", got)
					}
				}
			})
		}
	})

	// Once the client knows that the earlier call has no answer yet, later inputs are refused at
	// once.
	t.Run("a rejected call rejects later ones at once", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		c.runRepl("print begun")
		ids := c.sendAll(replCall("print so far\nsleep"))
		c.waitState("running")
		refused := c.sendAll(toolCall{"repl", map[string]any{"input": "print b", "timeout_ms": 50}})
		wantPart(t, c.waitResult(refused[0]).text(), "your input was NOT run: an earlier call is not answered yet; running ")
		wantPart(t, c.runRepl("print c"), "your input was NOT run: an earlier call is not answered yet; running ")
		c.call("repl_interrupt", nil)
		c.waitResult(ids[0])
		wantText(t, c.runRepl("print d"), "d")
	})
}

// A slowBackend is a backend whose polls of all output take as long as a test wants.
type slowBackend struct {
	*listOnlyBackend
	sup          *supervisor.Supervisor
	pollStarted  chan struct{} // receives a value when a poll starts
	pollReleased chan struct{} // ends a poll
}

func (b *slowBackend) Open(ctx context.Context, name, _, _ string, _ func(*sandbox.Policy) *sandbox.Policy, _ func(string)) (*backend.SessionHandle, error) {
	s, err := b.sup.Open(ctx, name, fakeworker.NewSpec(testBinary(), nil))
	if err != nil {
		return nil, err
	}
	return &backend.SessionHandle{Session: slowSession{s, b}, OutputPath: s.Log().OutputPath, Leave: s.Close, IsNew: true}, nil
}

type slowSession struct {
	session.Session
	backend *slowBackend
}

func (s slowSession) Wait(ctx context.Context, turn uint64, o *session.WaitOptions) (session.Reply, error) {
	if o.Poll && o.After == 0 {
		s.backend.pollStarted <- struct{}{}
		<-s.backend.pollReleased
	}
	return s.Session.Wait(ctx, turn, o)
}
