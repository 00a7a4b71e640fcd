package mcpserver_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"runtime"
	"strings"
	"testing"
)

// sendRaw sends a request with an id exactly as given.
func (c *client) sendRaw(id, method string, params map[string]any) {
	c.t.Helper()
	if c.meta != nil {
		meta := maps.Clone(c.meta)
		if own, ok := params["_meta"].(map[string]any); ok {
			maps.Copy(meta, own)
		}
		params["_meta"] = meta
	}
	text, err := json.Marshal(params)
	if err != nil {
		c.t.Fatal(err)
	}
	c.sendLine(`{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":` + string(text) + `}`)
}

func TestStdio(t *testing.T) {
	t.Parallel()

	t.Run("ids come back as they were sent", func(t *testing.T) {
		t.Parallel()
		runEachProtocolVersion(t, func(t *testing.T, c *client) {
			ids := []string{`7`, `"7"`, `0`, `""`, `-1`, `9007199254740993`, `1.5`, `"a\u0062\n"`}
			for _, id := range ids {
				c.sendRaw(id, "tools/list", map[string]any{})
				if a := c.waitAnswer(id); a.Error != nil {
					t.Errorf("%s: got %s", id, a.Line)
				}
			}
		})
	})

	t.Run("ids of different types are different calls", func(t *testing.T) {
		t.Parallel()
		runEachProtocolVersion(t, func(t *testing.T, c *client) {
			start := func(id, session string) {
				c.sendRaw(id, "tools/call", map[string]any{"name": "repl", "arguments": sessionInput(session, "sleep")})
			}
			start(`-500`, "number")
			start(`"-500"`, "string")
			for _, session := range []string{"number", "string"} {
				c.waitPart("repl_output", map[string]any{"session": session, "wait_ms": 0}, "running")
			}
			c.cancel(`"-500"`)
			wantPart(t, c.call("repl_output", map[string]any{"session": "string"}).text(), "Interrupted")
			wantPart(t, c.call("repl_output", map[string]any{"session": "number", "wait_ms": 0}).text(), "running")
			c.call("repl_interrupt", map[string]any{"session": "number"})
			c.waitAnswer(`-500`)
			c.wantNoAnswer(`"-500"`)
		})
	})

	t.Run("an id in use is rejected, and its call is answered", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		first := c.startCall("repl", map[string]any{"input": "sleep"})
		c.waitState("running")
		c.sendLine(`{"jsonrpc":"2.0","id":` + first + `,"method":"ping"}`)
		wantPart(t, c.waitAnswer("null").Error.Message, "in use")
		c.call("repl_interrupt", nil)
		c.waitResult(first)
	})

	t.Run("a malformed line costs an error, not the connection", func(t *testing.T) {
		t.Parallel()
		for name, bad := range map[string]struct {
			line string
			code int
		}{
			"no JSON":         {`{"jsonrpc":`, -32700},
			"plain text":      {`hello`, -32700},
			"a number":        {`5`, -32600},
			"no version":      {`{"id":1,"method":"ping"}`, -32600},
			"null id":         {`{"jsonrpc":"2.0","id":null,"method":"ping"}`, -32600},
			"object id":       {`{"jsonrpc":"2.0","id":{},"method":"ping"}`, -32600},
			"id not text":     {"{\"jsonrpc\":\"2.0\",\"id\":\"\xff\",\"method\":\"ping\"}", -32600},
			"method a number": {`{"jsonrpc":"2.0","id":1,"method":5}`, -32600},
			"empty batch":     {`[]`, -32600},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				c := newInitializedClient(t, nil)
				c.sendLine(bad.line)
				a := c.waitMessage("an error", func(a answer) bool { return a.Error != nil })
				if a.Error.Code != bad.code {
					t.Errorf("got %d (%.200s), want %d", a.Error.Code, a.Error.Message, bad.code)
				}
				wantText(t, c.runRepl("print 2"), "2")
			})
		}
	})

	// The id of an overlong message is in its first or last bytes.
	t.Run("a message that is too long is answered by its id", func(t *testing.T) {
		t.Parallel()
		long := strings.Repeat("x", 161<<20)
		c := newInitializedClient(t, nil)
		c.sendLine(`{"jsonrpc":"2.0","id":41,"method":"tools/call","params":{"id":1,"long":"` + long + `"}}`)
		c.sendLine(`{"method":"tools/call","params":{"id":1,"long":"` + long + `"},"jsonrpc":"2.0","id":"a\"b" }`)
		c.sendLine(`{"method":"tools/call","id":[1],"long":"` + long + `","params":{"id":43}}`)
		for _, id := range []string{`41`, `"a\"b"`, `null`} {
			if a := c.waitAnswer(id); a.Error == nil || a.Error.Code != -32600 {
				t.Errorf("%s: got %.300s", id, a.Line)
			}
		}
		wantText(t, c.runRepl("print 2"), "2")
	})

	t.Run("parameters of the wrong type are named", func(t *testing.T) {
		t.Parallel()
		for params, want := range map[string]string{
			`{"protocolVersion":5,"capabilities":{},"clientInfo":{"name":"a","version":"1"}}`:                                         `initialize: "protocolVersion" must be a string, not number`,
			`{"protocolVersion":"2025-06-18","capabilities":[1],"clientInfo":{"name":"a","version":"1"}}`:                             `initialize: "capabilities" must be an object, not array`,
			`{"protocolVersion":"2025-06-18","capabilities":{"roots":{},"elicitation":true},"clientInfo":{"name":"a","version":"1"}}`: `initialize: "capabilities.elicitation" must be an object, not bool`,
			`{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":[1],"version":"1"}}`:                              `initialize: "clientInfo.name" must be a string, not array`,
			`{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"a","version":"1","icons":{}}}`:                   `initialize: "clientInfo.icons" must be an array, not object`,
			`[1]`: `initialize: "params" must be an object, not array`,
		} {
			c := newClient(t, nil)
			c.sendLine(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":` + params + `}`)
			if a := c.waitAnswer("1"); a.Error == nil || a.Error.Code != -32602 || a.Error.Message != want {
				t.Errorf("%s: got %s, want %s", params, a.Line, want)
			}
			c.initialize("2025-06-18")
		}
	})

	t.Run("an unknown method is an error", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		if a := c.request("no/such", nil); a.Error == nil || a.Error.Code != -32601 {
			t.Errorf("got %s", a.Line)
		}
		c.sendLine(`{"jsonrpc":"2.0","method":"notifications/nobody"}`)
		c.sendLine(`{"jsonrpc":"2.0","id":99,"result":{}}`) // an answer to nothing
		c.sendLine("")
		wantText(t, c.runRepl("print 2"), "2")
	})

	t.Run("a byte order mark is skipped", func(t *testing.T) {
		t.Parallel()
		c := newClient(t, nil)
		c.sendLine("\ufeff" + `{"jsonrpc":"2.0","id":"m","method":"ping"}`)
		if a := c.waitAnswer(`"m"`); a.Error != nil {
			t.Errorf("got %s", a.Line)
		}
	})

	t.Run("a batch is answered in one line", func(t *testing.T) {
		t.Parallel()
		c := newClient(t, nil)
		c.initialize("2025-03-26")
		call := func(id, input string) string {
			return fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":"tools/call","params":{"name":"repl","arguments":{"input":%q,"session":%[1]q}}}`, id, input)
		}
		c.sendLine("[" + call("a", "print 1") + "," + call("b", "sleep") + `,{"jsonrpc":"2.0","method":"notifications/initialized"},{"id":5}]`)
		c.waitState("running")
		c.cancel(`"b"`)
		a := c.waitMessage("the batch", func(a answer) bool { return strings.HasPrefix(a.Line, "[") })
		var answers []answer
		if err := json.Unmarshal([]byte(a.Line), &answers); err != nil {
			t.Fatal(err)
		}
		if len(answers) != 2 || string(answers[0].ID) != "null" || string(answers[1].ID) != `"a"` {
			t.Errorf("got %s", a.Line)
		}
	})
}

// The error of the SDK would name Go types.
func TestWrongParams(t *testing.T) {
	t.Parallel()
	for method, test := range map[string]struct{ params, want string }{
		"ping":                {`[1]`, `ping: "params" must be an object, not array`},
		"tools/list":          {`{"cursor":5}`, `tools/list: "cursor" must be a string, not number`},
		"resources/list":      {`{"_meta":5}`, `resources/list: "_meta" must be an object, not number`},
		"logging/setLevel":    {`{"level":{}}`, `logging/setLevel: "level" must be a string, not object`},
		"completion/complete": {`{"ref":"x"}`, `completion/complete: "ref" must be an object, not string`},
	} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			c := newInitializedClient(t, nil)
			c.sendLine(`{"jsonrpc":"2.0","id":"a","method":"` + method + `","params":` + test.params + `}`)
			if a := c.waitAnswer(`"a"`); a.Error == nil || a.Error.Code != -32602 || a.Error.Message != test.want {
				t.Errorf("got %s, want %s", a.Line, test.want)
			}
			runEachHTTPVersion(t, func(t *testing.T, c *webClient) {
				header := map[string]string{"Mcp-Method": method}
				_, text, _ := c.do("POST", `{"jsonrpc":"2.0","id":"a","method":"`+method+`","params":`+test.params+`}`, header)
				want, _ := json.Marshal(test.want)
				if !strings.Contains(text, string(want)) {
					t.Errorf("got %s, want %s", text, test.want)
				}
			})
		})
	}
}

// Clients in PHP do not distinguish an empty list from an empty object.
func TestEmptyLists(t *testing.T) {
	t.Parallel()
	calls := map[string]string{
		"ping":       `[]`,
		"tools/list": `{"_meta":[]}`,
		"tools/call": `{"name":"repl_sessions","arguments":[]}`,
	}
	t.Run("on standard input", func(t *testing.T) {
		t.Parallel()
		c := newClient(t, nil)
		c.sendLine(`{"jsonrpc":"2.0","id":"a","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"roots":[]},"clientInfo":{"name":"php","version":"1","icons":[]}}}`)
		if a := c.waitAnswer(`"a"`); a.Error != nil {
			t.Fatal(a.Line)
		}
		c.sendLine(`{"jsonrpc":"2.0","method":"notifications/initialized","params":[]}`)
		for method, params := range calls {
			c.sendLine(`{"jsonrpc":"2.0","id":"` + method + `","method":"` + method + `","params":` + params + `}`)
			if a := c.waitAnswer(`"` + method + `"`); a.Error != nil || strings.Contains(a.Line, "isError") {
				t.Errorf("%s: got %s", method, a.Line)
			}
		}
		wantText(t, c.runRepl(`print {"a":[]}`), `{"a":[]}`)
	})
	t.Run("over HTTP", func(t *testing.T) {
		t.Parallel()
		c := newWebServer(t, nil, 0).newSessionClient("2025-06-18")
		for method, params := range calls {
			_, text, _ := c.do("POST", `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`, nil)
			if strings.Contains(text, `"error"`) || strings.Contains(text, "isError") {
				t.Errorf("%s: got %s", method, text)
			}
		}
	})
}

// A client may cancel unknown calls, by mistake or malice. This test measures the memory of the
// whole process, so it runs alone.
func TestStdioUnknownCancels(t *testing.T) {
	t.Run("handshake", func(t *testing.T) { runUnknownCancels(t, newInitializedClient(t, nil)) })
	t.Run("modern", func(t *testing.T) {
		c := newClient(t, nil)
		c.useStateless()
		runUnknownCancels(t, c)
	})
}

func runUnknownCancels(t *testing.T, c *client) {
	c.runRepl("print 1")
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapInuse
	}
	before := heap()
	for i := range 100_000 {
		c.cancel(fmt.Sprint(1_000_000 + i))
	}
	for _, malformed := range []string{`{}`, `[]`, `5`, `{"requestId":null}`, `{"requestId":{}}`} {
		c.sendLine(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":` + malformed + `}`)
	}
	c.sendLine(`{"jsonrpc":"2.0","method":"notifications/cancelled"}`)
	wantText(t, c.runRepl("print 2"), "2")
	if after := heap(); after > before+4<<20 {
		t.Errorf("the heap grew from %d to %d bytes", before, after)
	}
}
