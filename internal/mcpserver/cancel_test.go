package mcpserver_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/fakeworker"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"
)

// runEachProtocolVersion runs a test with a client of each protocol era.
func runEachProtocolVersion(t *testing.T, test func(t *testing.T, c *client)) {
	t.Run("handshake", func(t *testing.T) {
		t.Parallel()
		test(t, newInitializedClient(t, nil))
	})
	t.Run("modern", func(t *testing.T) {
		t.Parallel()
		c := newClient(t, nil)
		c.useStateless()
		test(t, c)
	})
}

// wantNoAnswer fails if the server sent anything for a call. Call it after the server has
// answered a later call.
func (c *client) wantNoAnswer(id string) {
	c.t.Helper()
	for _, a := range c.allMessages() {
		if string(a.ID) == id {
			c.t.Errorf("the cancelled call %s was answered: %s", id, a.Line)
		}
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()

	t.Run("interrupts the turn, which gets no answer", func(t *testing.T) {
		t.Parallel()
		runEachProtocolVersion(t, func(t *testing.T, c *client) {
			id := c.startCall("repl", map[string]any{"input": "print begun\nsleep"})
			c.waitState("running")
			c.cancel(id)
			c.waitState("idle") // its code would sleep forever
			// The events of the cancelled call open the next reply.
			got := c.runRepl("print 2")
			wantPart(t, got, "its code interrupted]\nbegun\nInterrupted", "2")
			if !strings.HasPrefix(got, "[the previous call was cancelled after ") {
				t.Errorf("got %q", got)
			}
			wantText(t, c.runRepl("print 3"), "3")
			c.wantNoAnswer(id)
		})
	})

	t.Run("is complete before the next call runs", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		for range 20 {
			id := c.startCall("repl", map[string]any{"input": "print begun\nsleep"})
			c.waitState("running")
			c.cancel(id)
			got := c.runRepl("print next") // without waiting for the interrupt
			if strings.Contains(got, "NOT run") {
				t.Fatalf("got %q", got)
			}
			wantPart(t, got, "[the previous call was cancelled after ", "begun\nInterrupted", "next")
		}
	})

	t.Run("is reported by the next poll", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		for range 50 {
			id := c.startCall("repl", map[string]any{"input": "print begun\nsleep"})
			c.waitState("running")
			c.cancel(id)
			if got := c.call("repl_output", nil).text(); !strings.HasPrefix(got, "[the previous call was cancelled after ") {
				t.Fatalf("got %q", got)
			}
		}
	})

	t.Run("of an answer interrupts the turn that it resumed", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		for range 20 {
			c.runRepl("wait a? \nsleep")
			id := c.startCall("repl", map[string]any{"input": "x"})
			c.waitState("running")
			c.cancel(id)
			wantPart(t, c.runRepl("print next"), "Interrupted", "next") // code again
			c.wantNoAnswer(id)
		}
	})

	t.Run("of a poll leaves the turn running", func(t *testing.T) {
		t.Parallel()
		for _, poll := range []struct {
			tool string
			args map[string]any
		}{
			{"repl", map[string]any{"input": ""}},
			{"repl_output", nil},
		} {
			t.Run(poll.tool, func(t *testing.T) {
				t.Parallel()
				c := newInitializedClient(t, nil)
				wait, open := newGate(t)
				c.call("repl", map[string]any{"input": wait + "print done", "timeout_ms": 0})
				c.waitState("running")
				id := c.startCall(poll.tool, poll.args)
				c.waitState("running") // answered after the poll has arrived
				c.cancel(id)
				rest := c.startCall("repl_output", nil)
				open()
				wantPart(t, c.waitResult(rest).text(), "done")
				c.wantNoAnswer(id)
			})
		}
	})

	t.Run("before the turn starts keeps it from running", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, &setup{specs: map[string]func(string) workers.Spec{"fake": fakeSpec(&fakeworker.Options{Start: "sleep"})}})
		c.waitState("starting")
		// The worker is not ready, so the session accepts one input only.
		queued := c.sendAll(replCall("print ran"))[0]
		var refused string
		for !strings.Contains(refused, "an earlier call is not answered yet") { // until the first call has started
			refused = c.call("repl", map[string]any{"input": "print ran", "timeout_ms": 0}).text()
			wantPart(t, refused, "[your input was NOT run: an earlier call ", "; starting ")
		}
		c.cancel(queued)
		for event := range c.mainSession().Events(t.Context(), 0) {
			if n, ok := event.Body.(timeline.Notice); ok && strings.Contains(n.Message, "interrupted before it ran") {
				break
			}
		}
		for c.mainSession().State() != session.StateIdle { // end the start-up
			if _, err := c.mainSession().Interrupt(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
		}
		if got := c.runRepl("print 2"); strings.Contains(got, "ran\n") {
			t.Errorf("got %q", got)
		}
		c.wantNoAnswer(queued)
	})

	t.Run("right after its call does no harm", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		c.runRepl("print 1")
		for range 100 {
			c.lastID++
			id := fmt.Sprint(c.lastID)
			c.sendLine(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"repl","arguments":{"input":"sleep"}}}` +
				"\n" + `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`)
			c.waitState("idle")
			c.wantNoAnswer(id)
		}
		wantPart(t, c.runRepl("print 2"), "2")
		wantText(t, c.runRepl("print 3"), "3")
	})

	t.Run("after the answer spares the next turn", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		for range 20 {
			done := c.startCall("repl", map[string]any{"input": "print 1"})
			c.waitResult(done)
			next := c.startCall("repl", map[string]any{"input": "sleep 5ms\nprint 2"})
			c.cancel(done)
			wantText(t, c.waitResult(next).text(), "2")
		}
	})

	// Each race between an answer and its cancel ends in one of two ways. No output is lost or
	// reported twice.
	t.Run("racing the answer loses and repeats no output", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		var output strings.Builder
		const rounds = 200
		raced := map[string]bool{}
		for i := range rounds {
			id := c.startCall("repl", map[string]any{"input": fmt.Sprintf("print <%d>", i)})
			raced[id] = true
			c.cancel(id)
			output.WriteString(c.call("repl_output", nil).text())
		}
		// An answer may come after the answer of the next poll. The last poll follows a turn, and so
		// all of them.
		output.WriteString(c.runRepl("print last"))
		output.WriteString(c.call("repl_output", nil).text())
		for _, a := range c.allMessages() {
			if raced[string(a.ID)] {
				output.WriteString(c.decode(a).text())
			}
		}
		for i := range rounds {
			if n := strings.Count(output.String(), fmt.Sprintf("<%d>", i)); n > 1 {
				t.Errorf("output %d was reported %d times", i, n)
			}
		}
		// Code that ran to its end, without an interrupt, was reported.
		r, err := c.mainSession().Wait(t.Context(), 0, &session.WaitOptions{Poll: true})
		if err != nil {
			t.Fatal(err)
		}
		var printed strings.Builder // the reply's text also names inputs that never ran
		for _, e := range r.Events {
			if b, ok := e.Body.(timeline.Text); ok {
				printed.Write(b.Data)
			}
		}
		for i := range rounds {
			line := fmt.Sprintf("<%d>", i)
			if strings.Contains(printed.String(), line) && !strings.Contains(output.String(), line) {
				t.Errorf("output %d was lost", i)
			}
		}
	})

	t.Run("does not affect calls about other sessions", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		a := c.startCall("repl", map[string]any{"input": "sleep"})
		c.waitState("running")
		wait, open := newGate(t)
		b := c.startCall("repl", map[string]any{"input": wait + "print b", "session": "other"})
		c.cancel(a)
		c.waitState("idle")
		open()
		wantPart(t, c.waitResult(b).text(), "b\n")
		c.wantNoAnswer(a)
	})

	t.Run("of the handshake is ignored", func(t *testing.T) {
		t.Parallel()
		c := newClient(t, nil)
		c.sendLine(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}` +
			"\n" + `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"i"}}`)
		if a := c.waitAnswer(`"i"`); a.Error != nil {
			t.Errorf("got %s", a.Line)
		}
	})
}

// sendCallsAndCancel sends calls, followed by the cancel of an earlier call, in one write.
func (c *client) sendCallsAndCancel(cancelled string, calls ...toolCall) (ids []string) {
	c.t.Helper()
	var lines strings.Builder
	for _, call := range calls {
		c.lastID++
		ids = append(ids, fmt.Sprint(c.lastID))
		text, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": c.lastID, "method": "tools/call", "params": map[string]any{"name": call.tool, "arguments": call.args}})
		if err != nil {
			c.t.Fatal(err)
		}
		lines.Write(append(text, '\n'))
	}
	if cancelled == "" {
		cancelled = ids[0]
	}
	c.sendLine(lines.String() + `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + cancelled + `}}`)
	return ids
}

func TestCancelledCall(t *testing.T) {
	t.Parallel()

	t.Run("lets queued inputs run once it is interrupted", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		c.runRepl("print begun")
		for range 20 {
			id := c.startCall("repl", map[string]any{"input": "sleep"})
			c.waitState("running")
			ids := c.sendCallsAndCancel(id, replCall("print b"), replCall("print c"))
			wantPart(t, c.waitResult(ids[0]).text(), "[the previous call was cancelled after ", "its code interrupted", "\nb")
			wantText(t, c.waitResult(ids[1]).text(), "c")
			c.wantNoAnswer(id)
		}
	})

	t.Run("makes them wait until its code has ended", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		c.runRepl("print begun")
		id := c.startCall("repl", map[string]any{"input": "busy"})
		c.waitPart("repl_output", map[string]any{"grep": "busy"}, "busy")
		queued := c.sendCallsAndCancel(id, replCall("print b"))[0]
		wantPart(t, c.call("repl_output", map[string]any{"wait_ms": 0}).text(), "its code has not reacted yet")
		if _, err := c.mainSession().Interrupt(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		wantPart(t, c.waitResult(queued).text(), "Interrupted", "\nb")
	})

	t.Run("rejects inputs that would run into an input request", func(t *testing.T) {
		t.Parallel()
		c := newPythonClient(t)
		c.runRepl("import time")
		id := c.startCall("repl", map[string]any{"input": "try:\n    print('begun')\n    time.sleep(600)\nexcept KeyboardInterrupt:\n    print('got', input('name? '))"})
		c.waitPart("repl_output", map[string]any{"grep": "begun"}, "begun")
		queued := c.sendCallsAndCancel(id, replCall("7"), replCall("8"))
		for _, id := range queued {
			wantPart(t, c.waitResult(id).text(), "your input was NOT run: ", `waiting for input: "name? "`)
		}
		wantPart(t, c.runRepl("Ada"), "got Ada")
	})

	t.Run("types no input in place of its own answer", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		for range 100 {
			if got := c.runRepl("wait a? "); !strings.Contains(got, `[waiting for input: "a? "]`) {
				t.Fatalf("got %q", got)
			}
			ids := c.sendCallsAndCancel("", replCall("x"), replCall("print b"))
			got := c.waitResult(ids[1]).text()
			if strings.Contains(got, "print b") {
				t.Fatalf("code was typed as an answer: %q", got)
			}
			if strings.Contains(got, "NOT run") {
				wantPart(t, got, "your input was NOT run: an earlier call, which was not answered yet, was cancelled", `"a? "`)
				wantPart(t, c.runRepl("y"), "y") // the model knows of the request now
			}
		}
	})
}
