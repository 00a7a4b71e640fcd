package mcpserver_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/tests/fakeworker"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"
)

// eras runs a test with a client of each kind.
func eras(t *testing.T, test func(t *testing.T, c *client)) {
	t.Run("handshake", func(t *testing.T) {
		t.Parallel()
		test(t, greet(t, nil))
	})
	t.Run("modern", func(t *testing.T) {
		t.Parallel()
		c := connect(t, nil)
		c.modern()
		test(t, c)
	})
}

// neverAnswered fails if anything was sent for a call. The server has answered
// later calls by the time it is asked.
func (c *client) neverAnswered(id string) {
	c.t.Helper()
	for _, a := range c.all() {
		if string(a.ID) == id {
			c.t.Errorf("the cancelled call %s was answered: %s", id, a.Line)
		}
	}
}

func TestCancel_InterruptsTheTurnAndIsNeverAnswered(t *testing.T) {
	t.Parallel()
	eras(t, func(t *testing.T, c *client) {
		id := c.startCall("repl", map[string]any{"input": "print begun\nsleep"})
		c.untilState("running")
		c.cancel(id)
		c.untilState("idle") // its code would sleep for ever
		// The news of the cancelled call opens the next reply.
		got := c.repl("print 2")
		wantPart(t, got, "its code interrupted]\nbegun\nInterrupted", "2")
		if !strings.HasPrefix(got, "[the call before was cancelled after ") {
			t.Errorf("got %q", got)
		}
		wantText(t, c.repl("print 3"), "3")
		c.neverAnswered(id)
	})
}

func TestCancel_IsOverForTheCallThatFollowsIt(t *testing.T) {
	t.Parallel()
	c := greet(t, nil)
	for range 20 {
		id := c.startCall("repl", map[string]any{"input": "print begun\nsleep"})
		c.untilState("running")
		c.cancel(id)
		got := c.repl("print next") // it does not wait for the interrupt
		if strings.Contains(got, "NOT run") {
			t.Fatalf("got %q", got)
		}
		wantPart(t, got, "[the call before was cancelled after ", "begun\nInterrupted", "next")
	}
}

// sendCancelBehind sends calls, and the cancel of an earlier one behind them, in one piece.
func (c *client) sendCancelBehind(cancelled string, calls ...burst) (ids []string) {
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

	t.Run("lets inputs behind it run once it is interrupted", func(t *testing.T) {
		t.Parallel()
		c := greet(t, nil)
		c.repl("print begun")
		for range 20 {
			id := c.startCall("repl", map[string]any{"input": "sleep"})
			c.untilState("running")
			ids := c.sendCancelBehind(id, code("print b"), code("print c"))
			wantPart(t, c.resultOf(ids[0]).text(), "[the call before was cancelled after ", "its code interrupted", "\nb")
			wantText(t, c.resultOf(ids[1]).text(), "c")
			c.neverAnswered(id)
		}
	})

	t.Run("lets them wait while its code still ends", func(t *testing.T) {
		t.Parallel()
		c := greet(t, nil)
		c.repl("print begun")
		id := c.startCall("repl", map[string]any{"input": "busy"})
		c.untilPart("repl_output", map[string]any{"grep": "busy"}, "busy")
		held := c.sendCancelBehind(id, code("print b"))[0]
		wantPart(t, c.call("repl_output", map[string]any{"wait_ms": 0}).text(), "its code does not react yet")
		if _, err := c.main().Interrupt(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		wantPart(t, c.resultOf(held).text(), "Interrupted", "\nb")
	})

	t.Run("has those refused that would run into a question", func(t *testing.T) {
		t.Parallel()
		c := greetPython(t)
		c.repl("import time")
		id := c.startCall("repl", map[string]any{"input": "try:\n    print('begun')\n    time.sleep(600)\nexcept KeyboardInterrupt:\n    print('got', input('name? '))"})
		c.untilPart("repl_output", map[string]any{"grep": "begun"}, "begun")
		held := c.sendCancelBehind(id, code("7"), code("8"))
		for _, id := range held {
			wantPart(t, c.resultOf(id).text(), "your input was NOT run: ", `waiting for input: "name? "`)
		}
		wantPart(t, c.repl("Ada"), "got Ada")
	})

	t.Run("has no input typed where it may have been the answer", func(t *testing.T) {
		t.Parallel()
		c := greet(t, nil)
		for range 100 {
			if got := c.repl("wait a? "); !strings.Contains(got, `[waiting for input: "a? "]`) {
				t.Fatalf("got %q", got)
			}
			ids := c.sendCancelBehind("", code("x"), code("print b"))
			got := c.resultOf(ids[1]).text()
			if strings.Contains(got, "print b") {
				t.Fatalf("code was typed as an answer: %q", got)
			}
			if strings.Contains(got, "NOT run") {
				wantPart(t, got, "your input was NOT run: an earlier call, which was not answered yet, was cancelled", `"a? "`)
				wantPart(t, c.repl("y"), "y") // which it knows of now
			}
		}
	})
}

func TestCancel_IsToldByThePollThatFollowsIt(t *testing.T) {
	t.Parallel()
	c := greet(t, nil)
	for range 50 {
		id := c.startCall("repl", map[string]any{"input": "print begun\nsleep"})
		c.untilState("running")
		c.cancel(id)
		if got := c.call("repl_output", nil).text(); !strings.HasPrefix(got, "[the call before was cancelled after ") {
			t.Fatalf("got %q", got)
		}
	}
}

func TestCancel_OfAnAnswerInterruptsTheTurnThatItFed(t *testing.T) {
	t.Parallel()
	c := greet(t, nil)
	for range 20 {
		c.repl("wait a? \nsleep")
		id := c.startCall("repl", map[string]any{"input": "x"})
		c.untilState("running")
		c.cancel(id)
		wantPart(t, c.repl("print next"), "Interrupted", "next") // code again
		c.neverAnswered(id)
	}
}

func TestCancel_OfAPollDetaches(t *testing.T) {
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
			c := greet(t, nil)
			wait, open := gate(t)
			c.call("repl", map[string]any{"input": wait + "print done", "timeout_ms": 0})
			c.untilState("running")
			id := c.startCall(poll.tool, poll.args)
			c.untilState("running") // answered after the poll was taken in
			c.cancel(id)
			rest := c.startCall("repl_output", nil)
			open()
			wantPart(t, c.resultOf(rest).text(), "done")
			c.neverAnswered(id)
		})
	}
}

func TestCancel_BeforeTheTurnStartsMeansThatItNeverRuns(t *testing.T) {
	t.Parallel()
	c := greet(t, &setup{specs: map[string]func(string) workers.Spec{"fake": fake(&fakeworker.Options{Start: "sleep"})}})
	c.untilState("starting")
	// The worker is not ready: the session takes one input, and no other.
	held := c.sendAll(code("print ran"))[0]
	var refused string
	for !strings.Contains(refused, "an earlier call is not answered yet") { // so it has begun
		refused = c.call("repl", map[string]any{"input": "print ran", "timeout_ms": 0}).text()
		wantPart(t, refused, "[your input was NOT run: an earlier call ", "; starting ")
	}
	c.cancel(held)
	for event := range c.main().Events(t.Context(), 0) {
		if n, ok := event.Body.(timeline.Notice); ok && strings.Contains(n.Message, "interrupted before it ran") {
			break
		}
	}
	for c.main().State() != session.StateIdle { // end the start-up
		if _, err := c.main().Interrupt(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
	}
	if got := c.repl("print 2"); strings.Contains(got, "ran\n") {
		t.Errorf("got %q", got)
	}
	c.neverAnswered(held)
}

func TestCancel_RightBehindItsCallNeverHurts(t *testing.T) {
	t.Parallel()
	c := greet(t, nil)
	c.repl("print 1")
	for range 100 {
		c.lastID++
		id := fmt.Sprint(c.lastID)
		c.sendLine(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"repl","arguments":{"input":"sleep"}}}` +
			"\n" + `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`)
		c.untilState("idle")
		c.neverAnswered(id)
	}
	wantPart(t, c.repl("print 2"), "2")
	wantText(t, c.repl("print 3"), "3")
}

func TestCancel_LateOneSparesTheNextTurn(t *testing.T) {
	t.Parallel()
	c := greet(t, nil)
	for range 20 {
		done := c.startCall("repl", map[string]any{"input": "print 1"})
		c.resultOf(done)
		next := c.startCall("repl", map[string]any{"input": "sleep 5ms\nprint 2"})
		c.cancel(done)
		wantText(t, c.resultOf(next).text(), "2")
	}
}

// Each race between an answer and its cancel ends in one of two ways. No output is lost, or
// reported twice.
func TestCancel_RacingTheAnswerLosesNothing(t *testing.T) {
	t.Parallel()
	c := greet(t, nil)
	var told strings.Builder
	const rounds = 200
	raced := map[string]bool{}
	for i := range rounds {
		id := c.startCall("repl", map[string]any{"input": fmt.Sprintf("print <%d>", i)})
		raced[id] = true
		c.cancel(id)
		told.WriteString(c.call("repl_output", nil).text())
	}
	// An answer may come after that of the poll behind it: the last poll is behind
	// a turn of its own, and so behind all of them.
	told.WriteString(c.repl("print last"))
	told.WriteString(c.call("repl_output", nil).text())
	for _, a := range c.all() {
		if raced[string(a.ID)] {
			told.WriteString(c.decode(a).text())
		}
	}
	for i := range rounds {
		if n := strings.Count(told.String(), fmt.Sprintf("<%d>", i)); n > 1 {
			t.Errorf("output %d was told %d times", i, n)
		}
	}
	// Code that ran to its end, without an interrupt, was reported.
	r, err := c.main().Wait(t.Context(), 0, &session.WaitOptions{Poll: true})
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
		if strings.Contains(printed.String(), line) && !strings.Contains(told.String(), line) {
			t.Errorf("output %d was lost", i)
		}
	}
}

func TestCancel_DoesNotTouchOtherCalls(t *testing.T) {
	t.Parallel()
	c := greet(t, nil)
	a := c.startCall("repl", map[string]any{"input": "sleep"})
	c.untilState("running")
	wait, open := gate(t)
	b := c.startCall("repl", map[string]any{"input": wait + "print b", "session": "other"})
	c.cancel(a)
	c.untilState("idle")
	open()
	wantPart(t, c.resultOf(b).text(), "b\n")
	c.neverAnswered(a)
}

func TestCancel_OfTheHandshakeIsIgnored(t *testing.T) {
	t.Parallel()
	c := connect(t, nil)
	c.sendLine(`{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}` +
		"\n" + `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"i"}}`)
	if a := c.answerTo(`"i"`); a.Error != nil {
		t.Errorf("got %s", a.Line)
	}
}
