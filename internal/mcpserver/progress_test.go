package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/workers"
)

type progress struct {
	Token    json.RawMessage `json:"progressToken"`
	Progress float64         `json:"progress"`
	Message  string          `json:"message"`
	at       time.Time
}

func (c *client) progressMessages() []progress {
	c.t.Helper()
	var all []progress
	for _, a := range c.allMessages() {
		if a.Method != "notifications/progress" {
			continue
		}
		p := progress{at: a.At}
		if err := json.Unmarshal(a.Params, &p); err != nil {
			c.t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

func TestProgress(t *testing.T) {
	t.Parallel()

	t.Run("first comes after a second", func(t *testing.T) {
		t.Parallel()
		runEachProtocolVersion(t, func(t *testing.T, c *client) {
			c.call("repl", map[string]any{"input": "print ready"}) // so that the start takes no time
			wait, open := newGate(t)
			id := c.send("tools/call", map[string]any{
				"name": "repl", "arguments": map[string]any{"input": "print so far\n" + wait + "print done"},
				"_meta": map[string]any{"progressToken": "t"},
			})
			c.waitMessage("progress", func(a answer) bool { return a.Method == "notifications/progress" })
			open()
			wantText(t, c.waitResult(id).text(), "so far\ndone")
			all := c.progressMessages()
			if len(all) == 0 {
				t.Fatal("got no progress")
			}
			if all[0].Progress < 1 {
				t.Errorf("the first came after %v s, want at least 1", all[0].Progress)
			}
			wantPart(t, all[0].Message, "7 bytes so far: so far")
		})
	})

	// Both eras run concurrently, because this takes long.
	t.Run("increases until the answer and stops there", func(t *testing.T) {
		t.Parallel()
		clients := []*client{newInitializedClient(t, nil), newClient(t, nil)}
		clients[1].useStateless()
		var ids []string
		for _, c := range clients {
			c.call("repl", map[string]any{"input": "print ready"}) // so that the start takes no time
			ids = append(ids, c.send("tools/call", map[string]any{
				"name": "repl", "arguments": map[string]any{"input": "sleep", "timeout_ms": 13_000},
				"_meta": map[string]any{"progressToken": "t"},
			}))
		}
		for i, c := range clients {
			wantPart(t, c.waitResult(ids[i]).text(), "[running ")
			answered := c.waitAnswer(ids[i]).At
			c.call("repl_interrupt", nil)
			all := c.progressMessages()
			if len(all) < 2 || all[0].Progress < 1 || all[1].Progress <= all[0].Progress {
				t.Errorf("got %+v, want some that increase", all)
			}
			for _, p := range all {
				if p.at.After(answered) {
					t.Error("a progress came after the answer")
				}
			}
		}
	})

	t.Run("carries the token as it was sent", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		tokens := []string{`7`, `"7"`, `0`, `""`, `9007199254740993`, `-1`}
		absent := []string{`null`, `true`, `{}`, `[1]`}
		ids := make(map[string]bool)
		for i, token := range append(tokens, absent...) {
			c.lastID++
			id, _ := json.Marshal(c.lastID)
			session, _ := json.Marshal("s" + string(rune('a'+i)))
			c.sendLine(`{"jsonrpc":"2.0","id":` + string(id) + `,"method":"tools/call","params":{"name":"repl","arguments":{"input":"sleep 3s","session":` +
				string(session) + `},"_meta":{"progressToken":` + token + `}}}`)
			ids[string(id)] = true
		}
		silent := c.startCall("repl", map[string]any{"input": "sleep 3s"})
		for id := range ids {
			c.waitResult(id)
		}
		c.waitResult(silent)
		seen := make(map[string]int)
		for _, p := range c.progressMessages() {
			seen[string(p.Token)]++
		}
		for _, token := range tokens {
			if seen[token] == 0 {
				t.Errorf("no progress for the token %s", token)
			}
		}
		if len(seen) != len(tokens) {
			t.Errorf("got progress for %v, want %v only", seen, tokens)
		}
	})

	t.Run("stops after a cancel", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		id := c.send("tools/call", map[string]any{
			"name": "repl", "arguments": map[string]any{"input": "sleep"},
			"_meta": map[string]any{"progressToken": 1},
		})
		c.waitMessage("progress", func(a answer) bool { return a.Method == "notifications/progress" })
		c.cancel(id)
		c.waitState("idle")
		before := len(c.progressMessages())
		c.runRepl("sleep 100ms")
		if n := len(c.progressMessages()); n != before {
			t.Errorf("got %d more", n-before)
		}
		c.wantNoAnswer(id)
	})
}

// A preparationControl prepares sessions under the control of a test.
type preparationControl struct {
	ctx      chan context.Context // of each started preparation
	messages chan string          // to report
	end      chan error           // to return
}

func newPreparationControl() *preparationControl {
	return &preparationControl{make(chan context.Context, 10), make(chan string), make(chan error)}
}

func (c *preparationControl) prepare(ctx context.Context, report func(workers.PreparationProgress)) (workers.PreparationResult, error) {
	c.ctx <- ctx
	for {
		select {
		case text := <-c.messages:
			report(workers.PreparationProgress{Message: text})
		case err := <-c.end:
			return workers.PreparationResult{}, err
		case <-ctx.Done():
			return workers.PreparationResult{}, ctx.Err()
		}
	}
}

func TestPreparation(t *testing.T) {
	t.Parallel()

	t.Run("calls wait for it and report its progress", func(t *testing.T) {
		t.Parallel()
		shop := newPreparationControl()
		c := newInitializedClient(t, &setup{prepare: shop.prepare, with: []string{"a", "b"}})
		shop.messages <- "fetching"
		c.waitPart("repl_sessions", nil, "s: a, b: fetching")
		wantPart(t, c.call("repl_output", map[string]any{"wait_ms": 0}).text(), `[session "main" is not open yet, preparing `, "s: a, b: fetching: call repl_output to wait]")
		for _, tool := range []string{"repl_interrupt", "repl_reset"} { // at once
			wantPart(t, c.call(tool, nil).text(), "is not open yet, preparing ")
		}
		id := c.send("tools/call", map[string]any{
			"name": "repl", "arguments": map[string]any{"input": "print 2"}, "_meta": map[string]any{"progressToken": "t"},
		})
		c.waitMessage("progress", func(a answer) bool { return a.Method == "notifications/progress" })
		shop.end <- nil
		wantText(t, c.waitResult(id).text(), "[a and b can be used in this session]\n2")
		all := c.progressMessages()
		if len(all) == 0 || all[0].Progress < 1 {
			t.Fatalf("got %+v, want one after a second", all)
		}
		wantPart(t, all[0].Message, "preparing ", "s: a, b: fetching")
		wantText(t, c.runRepl("print 3"), "3")
	})

	t.Run("a failure is reported and the next call tries again", func(t *testing.T) {
		t.Parallel()
		var fixed atomic.Bool
		prepare := func(context.Context, func(workers.PreparationProgress)) (workers.PreparationResult, error) {
			if fixed.Load() {
				return workers.PreparationResult{}, nil
			}
			return workers.PreparationResult{}, errors.New("a cannot be prepared: it broke\nlast words")
		}
		c := newInitializedClient(t, &setup{prepare: prepare, with: []string{"a"}})
		r := c.call("repl", map[string]any{"input": "print 1"})
		if !r.IsError {
			t.Error("the result is not an error")
		}
		wantPart(t, r.text(), "a cannot be prepared: it broke\nlast words\n[no session was opened and nothing was run. The next call tries again", "--with")
		fixed.Store(true)
		wantPart(t, c.runRepl("print 2"), "\n2")
	})

	t.Run("an input that it delays too long is an error", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, &setup{prepare: newPreparationControl().prepare})
		r := c.call("repl", map[string]any{"input": "print 1", "timeout_ms": 0})
		wantPart(t, r.text(), "is not open yet", "your input was NOT run")
		if !r.IsError {
			t.Error("the result is not an error")
		}
	})

	// A session may need preparation even without packages, such as a part of the worker.
	t.Run("of the worker itself is reported", func(t *testing.T) {
		t.Parallel()
		shop := newPreparationControl()
		c := newInitializedClient(t, &setup{prepare: shop.prepare})
		shop.messages <- "compiling the shim"
		c.waitPart("repl_sessions", nil, "s: compiling the shim")
		id := c.send("tools/call", map[string]any{
			"name": "repl", "arguments": map[string]any{"input": "print 1"}, "_meta": map[string]any{"progressToken": "t"},
		})
		// A call after the failure would try again, so this one must wait before it.
		c.waitMessage("progress", func(a answer) bool { return a.Method == "notifications/progress" })
		shop.end <- errors.New("no compiler")
		wantPart(t, c.waitResult(id).text(), `no compiler`)
		c = newInitializedClient(t, &setup{prepare: shop.prepare})
		shop.end <- nil
		wantPart(t, c.runRepl("print 1"), "1")
	})

	t.Run("ends with the client and in another directory", func(t *testing.T) {
		t.Parallel()
		shop := newPreparationControl()
		c := newInitializedClient(t, &setup{prepare: shop.prepare})
		ahead := <-shop.ctx
		id := c.send("tools/call", map[string]any{
			"name": "repl", "arguments": map[string]any{"input": "cwd", "timeout_ms": 0},
			"_meta": map[string]any{"codex/sandbox-state-meta": map[string]any{"sandboxCwd": directoryURI(newRealDir(t))}},
		})
		elsewhere := <-shop.ctx // nothing waits for the preparation that was started ahead
		if ahead.Err() == nil {
			t.Error("an unneeded preparation continues")
		}
		c.cancel(id)                 // the preparation belongs to the session, not to the call
		c.call("repl_sessions", nil) // answered after the cancel
		if elsewhere.Err() != nil {
			t.Error("the preparation ended with a call")
		}
		_ = c.in.Close()
		c.waitEnd()
		if elsewhere.Err() == nil {
			t.Error("the preparation outlives the client")
		}
	})

	t.Run("sessions that are not open yet are limited", func(t *testing.T) {
		t.Parallel()
		shop := newPreparationControl()
		shop.ctx = make(chan context.Context, 100)
		c := newInitializedClient(t, &setup{prepare: shop.prepare})
		for range 63 {
			c.startCall("repl", sessionInput("new", "print 1"))
		}
		for range 64 {
			<-shop.ctx
		}
		wantPart(t, c.call("repl", sessionInput("new", "print 1")).text(), "too many sessions")
	})
}
