package mcpserver_test

import (
	"encoding/json"
	"testing"
	"time"
)

type progress struct {
	Token    json.RawMessage `json:"progressToken"`
	Progress float64         `json:"progress"`
	Message  string          `json:"message"`
	at       time.Time
}

func (c *client) progress() []progress {
	c.t.Helper()
	var all []progress
	for _, a := range c.all() {
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

func TestProgress_FirstComesAfterASecondAndNoneNearTheAnswer(t *testing.T) {
	eras(t, func(t *testing.T, c *client) {
		id := c.send("tools/call", map[string]any{
			"name": "repl", "arguments": map[string]any{"input": "print so far\nsleep 1050ms\nprint done"},
			"_meta": map[string]any{"progressToken": "t"},
		})
		wantText(t, c.resultOf(id).text(), "so far\ndone")
		answered := c.answerTo(id).At
		all := c.progress()
		if len(all) != 1 {
			t.Fatalf("got %d progress notifications, want 1", len(all))
		}
		if all[0].Progress < 1 {
			t.Errorf("the first came after %v s, want 1", all[0].Progress)
		}
		wantPart(t, all[0].Message, "7 bytes so far")
		if gap := answered.Sub(all[0].at); gap < 90*time.Millisecond { // the clock runs on the other side
			t.Errorf("the answer came %s after a progress, want 100 ms", gap)
		}
	})
}

// The two eras at the same time, because it takes so long.
func TestProgress_IncreasesUntilTheAnswerAndNotAfter(t *testing.T) {
	clients := []*client{greet(t, nil), connect(t, nil)}
	clients[1].modern()
	var ids []string
	for _, c := range clients {
		c.call("repl", map[string]any{"input": "print ready"}) // the time of a start is not meant
		ids = append(ids, c.send("tools/call", map[string]any{
			"name": "repl", "arguments": map[string]any{"input": "sleep", "timeout_ms": 7000},
			"_meta": map[string]any{"progressToken": "t"},
		}))
	}
	for i, c := range clients {
		wantPart(t, c.resultOf(ids[i]).text(), "[running ")
		answered := c.answerTo(ids[i]).At
		c.call("repl_interrupt", nil)
		all := c.progress()
		if len(all) != 2 || all[0].Progress < 1 || all[1].Progress <= all[0].Progress {
			t.Errorf("got %+v, want two that increase", all)
		}
		for _, p := range all {
			if p.at.After(answered) {
				t.Error("a progress came after the answer")
			}
		}
	}
}

func TestProgress_TokensComeBackAsSent(t *testing.T) {
	c := greet(t, nil)
	tokens := []string{`7`, `"7"`, `0`, `""`, `9007199254740993`, `-1`}
	absent := []string{`null`, `true`, `{}`, `[1]`}
	ids := make(map[string]bool)
	for i, token := range append(tokens, absent...) {
		c.lastID++
		id, _ := json.Marshal(c.lastID)
		session, _ := json.Marshal("s" + string(rune('a'+i)))
		c.sendLine(`{"jsonrpc":"2.0","id":` + string(id) + `,"method":"tools/call","params":{"name":"repl","arguments":{"input":"sleep 1200ms","session":` +
			string(session) + `},"_meta":{"progressToken":` + token + `}}}`)
		ids[string(id)] = true
	}
	silent := c.startCall("repl", map[string]any{"input": "sleep 1200ms"})
	for id := range ids {
		c.resultOf(id)
	}
	c.resultOf(silent)
	seen := make(map[string]int)
	for _, p := range c.progress() {
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
}

func TestProgress_NoneAfterACancel(t *testing.T) {
	c := greet(t, nil)
	id := c.send("tools/call", map[string]any{
		"name": "repl", "arguments": map[string]any{"input": "sleep"},
		"_meta": map[string]any{"progressToken": 1},
	})
	c.until("progress", func(a answer) bool { return a.Method == "notifications/progress" })
	c.cancel(id)
	c.untilState("idle")
	before := len(c.progress())
	c.repl("sleep 100ms")
	if n := len(c.progress()); n != before {
		t.Errorf("got %d more", n-before)
	}
	c.neverAnswered(id)
}
