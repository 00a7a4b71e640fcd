package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/internal/testkit/fakeworker"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/workers"
)

func TestHTTP(t *testing.T) {
	t.Parallel()

	t.Run("calls work in every protocol version", func(t *testing.T) {
		t.Parallel()
		runEachHTTPVersion(t, func(t *testing.T, c *webClient) {
			wantPart(t, c.runRepl("print 1"), "1")
			wantText(t, c.runRepl("print 2"), "2")
			c.runRepl("wait name? ")
			wantPart(t, c.runRepl("Ada"), "Ada")
			unknown := c.send("tools/call", map[string]any{"name": "nothing"}).waitAnswer()
			if unknown.Error == nil || unknown.Error.Code != -32602 {
				t.Errorf("got %s, want an error -32602", unknown.Line)
			}
		})
	})

	t.Run("admits only requests with the token and a known host", func(t *testing.T) {
		t.Parallel()
		c := newWebServer(t, nil, 0).newStatelessClient()
		ok := func() int { return http.StatusOK }()
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
		own := strings.TrimSuffix(c.url, "/mcp")
		port := own[strings.LastIndexByte(own, ':'):]
		for _, test := range []struct {
			name   string
			header map[string]string
			status int
		}{
			{"with the token", nil, ok},
			{"with a scheme in lower case", map[string]string{"Authorization": "bearer " + webToken}, ok},
			{"without", map[string]string{"Authorization": ""}, http.StatusUnauthorized},
			{"with another", map[string]string{"Authorization": "Bearer " + webToken + "x"}, http.StatusUnauthorized},
			{"with a part", map[string]string{"Authorization": "Bearer " + webToken[:4]}, http.StatusUnauthorized},
			{"with another scheme", map[string]string{"Authorization": "Basic " + webToken}, http.StatusUnauthorized},
			{"called localhost", map[string]string{"Host": "localhost" + port}, ok},
			{"called by IPv6", map[string]string{"Host": "[::1]" + port}, ok},
			{"called by a strange name", map[string]string{"Host": "evil.example" + port}, http.StatusForbidden},
			{"called by a strange name without port", map[string]string{"Host": "evil.example"}, http.StatusForbidden},
			{"called by a name that begins well", map[string]string{"Host": "127.0.0.1.evil.example"}, http.StatusForbidden},
			{"from a page of its own", map[string]string{"Origin": own}, ok},
			{"from another page", map[string]string{"Origin": "http://evil.example"}, http.StatusForbidden},
			{"from a page of another port", map[string]string{"Origin": "http://127.0.0.1:1"}, http.StatusForbidden},
			{"from a page without origin", map[string]string{"Origin": "null"}, http.StatusForbidden},
			{"with a number of ours", map[string]string{"Turnstone-Call": "1"}, ok},
		} {
			header := map[string]string{"Mcp-Method": "tools/list"}
			for k, v := range test.header {
				header[k] = v
			}
			status, text, got := c.do("POST", body, header)
			if status != test.status {
				t.Errorf("%s: got %d %s, want %d", test.name, status, text, test.status)
			}
			challenge := got.Get("WWW-Authenticate")
			if wants := status == http.StatusUnauthorized; wants != strings.HasPrefix(challenge, "Bearer ") {
				t.Errorf("%s: got WWW-Authenticate %q", test.name, challenge)
			}
		}
	})

	t.Run("rejects requests that it cannot serve", func(t *testing.T) {
		t.Parallel()
		w := newWebServer(t, nil, 0)
		for _, c := range []*webClient{w.newSessionClient("2025-11-25"), w.newStatelessClient()} {
			large := `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"x":"` + strings.Repeat("x", 4<<20) + `"}}`
			if status, text, _ := c.do("POST", large, nil); status != http.StatusRequestEntityTooLarge || !strings.Contains(text, "4 MiB") {
				t.Errorf("%s: a large message: got %d %s", c.version, status, text)
			}
			if status, _, _ := c.do("POST", `{"jsonrpc":`, nil); status != http.StatusBadRequest {
				t.Errorf("%s: half a message: got %d", c.version, status)
			}
		}
		lost := w.newWebClient("2025-11-25")
		lost.session = "unknown"
		for _, method := range []string{"POST", "GET", "DELETE"} { // Claude Code also checks this body
			status, text, _ := lost.do(method, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, nil)
			if status != http.StatusNotFound || !strings.HasPrefix(text, `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found: `) || !strings.Contains(text, "initialize") {
				t.Errorf("%s of a lost session: got %d %s", method, status, text)
			}
		}
		elsewhere := w.newStatelessClient()
		elsewhere.url = strings.TrimSuffix(w.url, "/mcp") + "/.well-known/oauth-protected-resource"
		if status, _, _ := elsewhere.do("GET", "", map[string]string{"Authorization": ""}); status != http.StatusNotFound {
			t.Errorf("another path: got %d, want 404, so that clients do not try OAuth", status)
		}
	})

	t.Run("accepts batches in the oldest version only", func(t *testing.T) {
		t.Parallel()
		c := newWebServer(t, nil, 0).newSessionClient("2025-03-26")
		call := func(id, input string) string {
			return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"repl","arguments":{"input":%q,"session":"s%s"}}}`, id, input, id)
		}
		c.runRepl("print 1")
		a := c.openStream("POST", []byte("["+call("1000", "print one")+`,{"jsonrpc":"2.0","method":"notifications/initialized"},`+
			call("1001", "print begun\nsleep")+`,{"jsonrpc":"2.0","id":1002,"method":"no/such"}]`), nil, "1000")
		a.waitFor("the answers to all calls but the running one", func() bool { return len(a.events) == 2 })
		waitUntil(t, "the start of the other call", func() bool {
			return strings.Contains(c.call("repl_output", map[string]any{"session": "s1001", "grep": "^begun$"}).text(), ": begun")
		})
		c.notify("notifications/cancelled", map[string]any{"requestId": 1001})
		wantPart(t, a.waitResult().text(), "one")
		for _, m := range a.waitEvents() {
			switch string(m.ID) {
			case "1000":
			case "1002":
				if m.Error == nil {
					t.Errorf("got %s, want an error", m.Line)
				}
			default:
				t.Errorf("got %s, want nothing for a cancelled call", m.Line)
			}
		}
		if status, text, _ := c.do("POST", `[{"jsonrpc":"2.0","method":"notifications/initialized"}]`, nil); status != http.StatusAccepted {
			t.Errorf("notifications only: got %d %s, want 202", status, text)
		}
		later := c.newSessionClient("2025-06-18")
		if status, _, _ := later.do("POST", "["+call("1", "print 1")+"]", nil); status != http.StatusBadRequest {
			t.Errorf("got %d in a version without batches, want 400", status)
		}
	})

	t.Run("sends progress with the client's token", func(t *testing.T) {
		t.Parallel()
		runEachHTTPVersion(t, func(t *testing.T, c *webClient) {
			c.runRepl("print 1")
			wait, open := newGate(t)
			a := c.startCall("repl", map[string]any{"input": "print so far\n" + wait + "print done"}, map[string]any{"progressToken": json.RawMessage(`9007199254740993`)})
			a.waitFor("progress", func() bool {
				return slices.ContainsFunc(a.events, func(m answer) bool { return m.Method == "notifications/progress" })
			})
			open()
			wantText(t, a.waitResult().text(), "so far\ndone")
			var beats []answer
			for _, m := range a.waitEvents() {
				if m.Method == "notifications/progress" {
					beats = append(beats, m)
				}
			}
			if len(beats) != 1 {
				t.Fatalf("got %d progress notifications, want 1", len(beats))
			}
			wantPart(t, string(beats[0].Params), `"progressToken":9007199254740993`, "7 bytes so far")
		})
	})

	t.Run("the end answers calls and closes sessions", func(t *testing.T) {
		t.Parallel()
		runEachHTTPVersion(t, func(t *testing.T, c *webClient) {
			stream := (*webRequest)(nil)
			if c.session != "" {
				stream = c.openStream("GET", nil, nil, "")
				stream.waitFor("the stream", func() bool { return stream.status == http.StatusOK })
			}
			a := c.startCall("repl", map[string]any{"input": "print begun\nsleep"}, nil)
			c.waitFirstOutput()
			c.stopAndWait()
			if !errors.Is(c.runErr, context.Canceled) {
				t.Errorf("got %v, want the context's error", c.runErr)
			}
			if n := len(c.sup.Sessions()); n > 0 {
				t.Errorf("%d sessions are left", n)
			}
			wantPart(t, a.waitResult().text(), "begun")
			if stream != nil {
				stream.waitEvents()
			}
		})
	})

	t.Run("opens sessions in several languages", func(t *testing.T) {
		t.Parallel()
		w := newWebServer(t, &setup{specs: map[string]func(string) workers.Spec{
			"fake": fakeSpec(nil), "other": fakeSpec(nil), "broken": fakeSpec(&fakeworker.Options{Mode: "exit"}),
		}}, 0)
		c := w.newStatelessClient()
		r := c.call("repl", map[string]any{"input": "print 1", "session": "new"})
		wantPart(t, r.text(), `[new broken session "broken-`) // the first language by default
		r = c.call("repl", map[string]any{"input": "print 1", "session": "new", "lang": "other"})
		wantPart(t, r.text(), `1`+"\n"+`[new session "other-`)
	})

	t.Run("rejects a request without an MCP session by its id", func(t *testing.T) {
		t.Parallel()
		w := newWebServer(t, nil, 0)
		for body, want := range map[string]string{
			`{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"repl","arguments":{"input":"print 1"}}}`: `"id":"a","error":{"code":-32600,"message":"no MCP session: `,
			`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":5}}`:                             `"id":1,"error":{"code":-32602,"message":"initialize: \"protocolVersion\" must be a string, not number"`,
		} {
			status, text, _ := w.newWebClient("2025-06-18").do("POST", body, nil)
			if status != http.StatusBadRequest || !strings.Contains(text, want) {
				t.Errorf("got %d, %s, want %s", status, text, want)
			}
		}
	})
}

func TestHTTPCancel(t *testing.T) {
	t.Parallel()

	t.Run("interrupts, and nothing is written after it", func(t *testing.T) {
		t.Parallel()
		runEachHTTPVersion(t, func(t *testing.T, c *webClient) {
			c.runRepl("print 1") // so that a slow start causes no progress
			start := time.Now()
			a := c.startCall("repl", map[string]any{"input": "print begun\nsleep"}, map[string]any{"progressToken": 1})
			c.waitFirstOutput()
			c.cancel(a)
			c.waitState("idle") // its code would sleep forever
			over := time.Since(start).Seconds()
			wantPart(t, c.runRepl("print 2"), "begun\nInterrupted", "2")
			wantText(t, c.runRepl("print 3"), "3")
			for _, m := range a.waitEvents() {
				var p progress // earlier progress may be read later, but says when it was sent
				if m.Method != "notifications/progress" || json.Unmarshal(m.Params, &p) != nil || p.Progress > over {
					t.Errorf("got %s after the cancel, want nothing", m.Line)
				}
			}
		})
	})

	t.Run("is complete before the next call runs", func(t *testing.T) {
		t.Parallel()
		c := newWebServer(t, nil, 0).newSessionClient("2025-11-25")
		for range 20 {
			a := c.startCall("repl", map[string]any{"input": "print begun\nsleep"}, nil)
			c.waitFirstOutput()
			c.cancel(a)
			got := c.runRepl("print next") // without waiting for the interrupt
			if strings.Contains(got, "NOT run") {
				t.Fatalf("got %q", got)
			}
			wantPart(t, got, "begun\nInterrupted", "next")
			if all := a.waitEvents(); len(all) > 0 {
				t.Errorf("got %s after the cancel, want nothing", all[0].Line)
			}
		}
	})

	// The cancel is a separate request, and may arrive after the next call.
	t.Run("may arrive after the next call", func(t *testing.T) {
		t.Parallel()
		c := newWebServer(t, nil, 0).newSessionClient("2025-11-25")
		c.runRepl("print begun")
		for range 20 {
			a := c.startCall("repl", map[string]any{"input": "print begun\nsleep"}, nil)
			c.waitFirstOutput()
			next := c.startCall("repl", map[string]any{"input": "print next"}, nil)
			c.cancel(a)
			if got := next.waitResult().text(); strings.Contains(got, "NOT run") || !strings.HasSuffix(got, "next") {
				t.Fatalf("got %q", got)
			}
		}
	})

	// An answer and a cancel may race. The client gets each output once: with the answer, or with
	// the next reply.
	t.Run("racing the answer loses and repeats no output", func(t *testing.T) {
		t.Parallel()
		c := newWebServer(t, nil, 0).newSessionClient("2025-06-18")
		c.runRepl("print 0")
		for i := range 100 {
			mark := fmt.Sprintf("<%d>", i)
			a := c.startCall("repl", map[string]any{"input": "print " + mark}, nil)
			c.cancel(a)
			var seen string
			for _, m := range a.waitEvents() {
				seen += m.Line
			}
			seen += c.runRepl("print next")
			escaped := fmt.Sprintf(`\u003c%d\u003e`, i)
			count := strings.Count(seen, mark) + strings.Count(seen, escaped)
			if never := strings.Contains(seen, "before it ran"); count > 1 || count == 0 && !never && strings.Contains(seen, "Interrupted") {
				t.Fatalf("got %q", seen)
			}
		}
	})

	t.Run("of an unknown call has no effect", func(t *testing.T) {
		t.Parallel()
		c := newWebServer(t, nil, 0).newSessionClient("2025-11-25")
		for _, id := range []any{99, "1", nil, map[string]any{}} {
			body, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": map[string]any{"requestId": id}})
			c.do("POST", string(body), nil)
		}
		wantText(t, c.runRepl("print 1"), "1")
	})

	t.Run("of a call keeps it from being replayed", func(t *testing.T) {
		t.Parallel()
		c := newWebServer(t, nil, 0).newSessionClient("2025-11-25")
		a := c.startCall("repl", map[string]any{"input": "print begun\nsleep"}, nil)
		a.waitFor("an event to come back to", func() bool { return a.lastID != "" })
		c.waitFirstOutput()
		c.cancel(a)
		c.waitState("idle")
		a.waitEvents()
		if all := c.reconnect(a).waitEvents(); len(all) > 0 {
			t.Errorf("got %s, want nothing", all[0].Line)
		}
	})
}

func TestStream(t *testing.T) {
	t.Parallel()

	t.Run("sends keep-alives while nothing happens", func(t *testing.T) {
		t.Parallel()
		runEachHTTPVersion(t, func(t *testing.T, c *webClient) {
			wait, open := newGate(t)
			streams := map[string]*webRequest{"call": c.startCall("repl", map[string]any{"input": wait + "print done"}, nil)}
			if c.session != "" {
				streams["GET"] = c.openStream("GET", nil, nil, "")
			}
			for name, stream := range streams {
				stream.waitFor("a comment on the stream of the "+name, func() bool { return stream.keepAlives > 0 })
			}
			open()
			wantPart(t, streams["call"].waitResult().text(), "done")
		})
	})

	t.Run("starts with an unnamed event", func(t *testing.T) {
		t.Parallel()
		c := newWebServer(t, nil, 0).newSessionClient("2025-11-25")
		a := c.startCall("repl", map[string]any{"input": "print 1"}, nil)
		a.waitResult()
		if !slices.Equal(a.names, []string{"message"}) || a.lastID == "" {
			t.Errorf("the events are named %q, and the last has the id %q", a.names, a.lastID)
		}
	})
}

func TestVersionHeader(t *testing.T) {
	t.Parallel()
	w := newWebServer(t, nil, 0)
	for _, version := range []string{"not-a-version", "1.0", "2026-7-28", "draft", "2099-01-01"} {
		for _, method := range []string{"POST", "GET"} {
			status, text, _ := w.newWebClient(version).do(method, `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`, nil)
			if status != http.StatusBadRequest || !strings.Contains(text, "MCP-Protocol-Version") || !strings.Contains(text, version) {
				t.Errorf("%s %s: got %d %s, want 400 and the header's name", method, version, status, text)
			}
		}
		// A request that names its version itself gets the protocol's own answer.
		body := `{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"` + version + `","io.modelcontextprotocol/clientCapabilities":{}}}}`
		status, text, _ := w.newWebClient(version).do("POST", body, map[string]string{"Mcp-Method": "tools/list"})
		if status != http.StatusBadRequest || !strings.Contains(text, "supported") || !strings.Contains(text, "2025-11-25") {
			t.Errorf("%s: got %d %s, want 400 and the versions that are supported", version, status, text)
		}
	}

	// A gateway may drop or change the header of a request that names its version itself.
	body := `{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	for _, version := range []string{"", "2025-11-25", "2099-01-01"} {
		status, text, _ := w.newStatelessClient().do("POST", body, map[string]string{"Mcp-Method": "tools/list", "MCP-Protocol-Version": version})
		if status != http.StatusBadRequest || !strings.Contains(text, `"code":-32020`) {
			t.Errorf("%q: got %d %s, want 400 and the error about headers", version, status, text)
		}
	}
}

func TestHTTPReconnect(t *testing.T) {
	t.Parallel()

	t.Run("a lost connection keeps the turn and its output", func(t *testing.T) {
		t.Parallel()
		c := newWebServer(t, nil, 0).newSessionClient("2025-11-25")
		// The server needs a while to notice that the client is gone. Until then it writes an
		// answer.
		a := c.startCall("repl", map[string]any{"input": "print begun\nsleep 3s\nprint done"}, nil)
		c.waitFirstOutput()
		a.hangUp()
		a.waitEvents()
		c.waitState("idle")
		wantPart(t, c.runRepl("print next"), "begun\ndone", "next")
		wantText(t, c.runRepl("print last"), "last")
	})

	t.Run("a client that reconnects gets the rest", func(t *testing.T) {
		t.Parallel()
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprintf("late=%v", late), func(t *testing.T) {
				t.Parallel()
				c := newWebServer(t, nil, 0).newSessionClient("2025-11-25")
				wait, open := newGate(t)
				a := c.startCall("repl", map[string]any{"input": "print begun\n" + wait + "print done"}, nil)
				a.waitFor("an event to come back to", func() bool { return a.lastID != "" })
				c.waitFirstOutput()
				a.hangUp()
				a.waitEvents()
				if late {
					open()
					// not by calls: they would fill the bounded replay
					waitUntil(t, "the end of the turn", func() bool { return c.sup.Sessions()[0].State() == session.StateIdle })
				}
				if !late { // probably while the client reconnects, which waits for an event
					time.AfterFunc(100*time.Millisecond, open)
				}
				wantText(t, c.reconnect(a).waitResult().text(), "begun\ndone")
				wantText(t, c.runRepl("print next"), "next") // nothing is repeated
			})
		}
	})
}

func TestHTTPSessions(t *testing.T) {
	t.Parallel()

	t.Run("a call without an MCP session must name its session", func(t *testing.T) {
		t.Parallel()
		c := newWebServer(t, nil, 0).newStatelessClient()
		for _, tool := range []string{"repl", "repl_output", "repl_interrupt", "repl_reset"} {
			r := c.call(tool, map[string]any{"input": "print 1", "session": ""})
			if tool != "repl" {
				r = c.call(tool, map[string]any{"session": ""})
			}
			if !r.IsError {
				t.Errorf("%s: got %q, want an error", tool, r.text())
			}
			wantPart(t, r.text(), "session is required", `pass "new"`)
		}
		made := c.call("repl", map[string]any{"input": "print 1", "session": "new"})
		name, _ := made.Meta["turnstone/session"].(string)
		wantText(t, made.text(), fmt.Sprintf("1\n[new session %q]", name))
		wantText(t, c.call("repl", map[string]any{"input": "print 2", "session": name}).text(), "2")
		other := c.call("repl", map[string]any{"input": "print 1", "session": "new"}).Meta["turnstone/session"]
		if other == name {
			t.Errorf("two new sessions have the name %q", name)
		}
		wantPart(t, c.call("repl_sessions", nil).text(), name, "sessions end after 1h without a call")

		list := c.send("tools/list", nil).waitAnswer()
		if got := strings.Count(string(list.Result), `"required":["session"]`) + strings.Count(string(list.Result), `"required":["input","session"]`); got != 4 {
			t.Errorf("%d tools require a session, want 4: %s", got, list.Result)
		}
	})

	t.Run("each MCP session has its own sessions", func(t *testing.T) {
		t.Parallel()
		w := newWebServer(t, nil, 0)
		a, b := w.newSessionClient("2025-11-25"), w.newSessionClient("2025-06-18")
		wantText(t, a.runRepl("print a"), "a")
		wantText(t, b.runRepl("print b"), "b")
		a.call("repl", map[string]any{"input": "print 1", "session": "work"})
		if got := b.call("repl_sessions", nil).text(); strings.Contains(got, "\nwork ") || !strings.Contains(got, "\nmain ") {
			t.Errorf("got %q, want only main", got)
		}
		if n := len(w.sup.Sessions()); n != 3 {
			t.Errorf("got %d sessions, want 3", n)
		}
		if status, text, _ := a.do("DELETE", "", nil); status != http.StatusNoContent {
			t.Fatalf("got %d %s", status, text)
		}
		if n := len(w.sup.Sessions()); n != 1 {
			t.Errorf("got %d sessions after one client has left, want 1", n)
		}
		if status, _, _ := a.do("POST", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, nil); status != http.StatusNotFound {
			t.Errorf("got %d, want 404", status)
		}
		wantText(t, b.runRepl("print c"), "c")
	})

	t.Run("are limited across all clients", func(t *testing.T) {
		t.Parallel()
		s := &setup{}
		s.sup.MaxSessions = 1
		w := newWebServer(t, s, 0)
		a, b := w.newSessionClient("2025-11-25"), w.newSessionClient("2025-11-25")
		wantText(t, a.runRepl("print 1"), "1")
		refused := b.call("repl", map[string]any{"input": "print 1"})
		if !refused.IsError {
			t.Errorf("got %q, want an error", refused.text())
		}
		wantPart(t, refused.text(), "too many sessions: all belong to other clients")
		wantPart(t, a.call("repl", map[string]any{"input": "print 1", "session": "two"}).text(), "too many sessions: use one of main")
		wantPart(t, a.call("repl", map[string]any{"input": "print 1", "session": "a b"}).text(), `"a b" is not a session name`)

		missing := func(string) workers.Spec { return workers.Spec{Err: errors.New("no fake was found on PATH")} }
		a = newWebServer(t, &setup{specs: map[string]func(string) workers.Spec{"fake": missing}}, 0).newSessionClient("2025-11-25")
		wantPart(t, a.runRepl("print 1"), `session "main" did not start: no fake`)
	})

	t.Run("end when idle", func(t *testing.T) {
		t.Parallel()
		w := newWebServer(t, nil, 10*time.Second) // long enough for a busy machine to keep the other client connected
		gone, c := w.newSessionClient("2025-11-25"), w.newStatelessClient()
		gone.runRepl("print 1")
		present := w.newSessionClient("2025-11-25")
		stream := present.openStream("GET", nil, nil, "")
		stream.waitFor("the stream", func() bool { return stream.status == http.StatusOK })
		present.runRepl("print 1")
		c.runRepl("print 1")
		waitUntil(t, "the end of all but one session", func() bool { return len(w.sup.Sessions()) == 1 })
		wantPart(t, c.runRepl("print 2"), "2\n", `"main" was ended after 10s without a call; this is a new one, its state is lost`)
		if status, _, _ := gone.do("POST", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, nil); status != http.StatusNotFound {
			t.Errorf("got %d for a client that had gone, want 404", status)
		}
		wantText(t, present.runRepl("print 2"), "2") // an open stream keeps the client
	})
}

func TestHTTPClients(t *testing.T) {
	t.Parallel()

	t.Run("a client may leave during a call", func(t *testing.T) {
		t.Parallel()
		c := newWebServer(t, nil, 0).newSessionClient("2025-11-25")
		a := c.startCall("repl", map[string]any{"input": "print begun\nsleep"}, nil)
		c.waitFirstOutput()
		if status, text, _ := c.do("DELETE", "", nil); status != http.StatusNoContent {
			t.Fatalf("got %d %s", status, text)
		}
		a.waitEvents()
	})

	t.Run("the longest idle client makes room for a new one", func(t *testing.T) {
		t.Parallel()
		w := newWebServer(t, nil, 0)
		const most = 32
		first := w.newSessionClient("2025-11-25")
		for range most - 1 {
			w.newSessionClient("2025-11-25").runRepl("print 0")
		}
		wantText(t, first.runRepl("print 1"), "1") // the second client is now idle longest
		w.newSessionClient("2025-11-25").runRepl("print 0")
		wantText(t, first.runRepl("print 2"), "2")
		waitUntil(t, "the end of the longest idle client", func() bool { return len(w.sup.Sessions()) == most })
	})

	t.Run("clients that never call share one interpreter", func(t *testing.T) {
		t.Parallel()
		var opened atomic.Int64
		spec := func(dir string) workers.Spec {
			opened.Add(1)
			return fakeSpec(nil)(dir)
		}
		w := newWebServer(t, &setup{specs: map[string]func(string) workers.Spec{"fake": spec}}, 0)
		var clients []*webClient
		for range 10 {
			clients = append(clients, w.newSessionClient("2025-06-18"))
		}
		wantText(t, clients[9].runRepl("print 1"), "1") // its session was not opened ahead
		wantText(t, clients[0].runRepl("print 2"), "2") // this one was opened ahead
		if n := opened.Load(); n != 2 {
			t.Errorf("%d interpreters were started for two clients that call", n)
		}
		late := w.newSessionClient("2025-06-18") // the next spare
		waitUntil(t, "its session is opened ahead", func() bool { return opened.Load() == 3 })
		wantText(t, late.runRepl("print 3"), "3")
		if n := opened.Load(); n != 3 {
			t.Errorf("%d interpreters were started for three clients that call", n)
		}
	})

	t.Run("open calls of a client are limited", func(t *testing.T) {
		t.Parallel()
		c := newWebServer(t, nil, 0).newSessionClient("2025-11-25")
		c.call("repl", map[string]any{"input": "sleep", "timeout_ms": 0})
		for range 64 {
			a := c.startCall("repl_output", nil, nil)
			a.waitFor("the call's first event", func() bool { return a.lastID != "" })
			a.hangUp() // the call keeps waiting, because the client may reconnect
			a.waitEvents()
		}
		status, text, _ := c.do("POST", `{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"repl_sessions"}}`, nil)
		if status != http.StatusServiceUnavailable {
			t.Errorf("got %d, want 503", status)
		}
		wantPart(t, text, "too many open calls (64)")
	})
}
