package mcpserver_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// newRequestBody returns a request of the caller's version, and its header.
func (c *webClient) newRequestBody(method string) (body string, header map[string]string) {
	params := `{}`
	if c.session == "" {
		params = `{"_meta":{"io.modelcontextprotocol/protocolVersion":"` + c.version + `","io.modelcontextprotocol/clientCapabilities":{}}}`
	}
	return `{"jsonrpc":"2.0","id":7,"method":"` + method + `","params":` + params + `}`, map[string]string{"Mcp-Method": method}
}

func TestAccept(t *testing.T) {
	t.Parallel()
	for accept, wanted := range map[string]string{
		"application/json":                       "application/json",
		"application/*":                          "application/json",
		"Application/JSON, application/mcp+json": "application/json",

		"application/json, text/event-stream": "text/event-stream",
		"text/event-stream":                   "text/event-stream",
		"*/*":                                 "text/event-stream",
		"":                                    "text/event-stream",
	} {
		t.Run(accept, func(t *testing.T) {
			t.Parallel()
			runEachHTTPVersion(t, func(t *testing.T, c *webClient) {
				body, header := c.newRequestBody("tools/list")
				header["Accept"] = accept
				status, text, got := c.do("POST", body, header)
				kind, _, _ := strings.Cut(got.Get("Content-Type"), ";")
				if status != http.StatusOK || kind != wanted || !strings.Contains(text, `"repl_output"`) {
					t.Fatalf("got %d %s %.200s, want %s", status, kind, text, wanted)
				}
				if whole := json.Valid([]byte(text)); whole != (wanted == "application/json") {
					t.Errorf("got %.200q", text)
				}
			})
		})
	}

	t.Run("of a client without streams still gets the answer of a long call", func(t *testing.T) {
		t.Parallel()
		c := newWebServer(t, nil, 0).newSessionClient("2025-11-25")
		wait, open := newGate(t)
		body, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": "long", "method": "tools/call", "params": map[string]any{
			"name": "repl", "arguments": map[string]any{"input": wait + "print done"}, "_meta": map[string]any{"progressToken": 1},
		}})
		a := c.openStream("POST", body, map[string]string{"Accept": "application/json"}, `"long"`)
		c.waitState("running")
		open()
		a.waitFor("the answer", func() bool { return a.over })
		if kind := a.header.Get("Content-Type"); kind != "application/json" {
			t.Errorf("got the type %q", kind)
		}
	})
}

func TestStreamHeader(t *testing.T) {
	t.Parallel()
	c := newWebServer(t, nil, 0).newSessionClient("2025-11-25")
	body, _ := c.newRequestBody("tools/list")
	if _, _, header := c.do("POST", body, nil); header.Get("X-Accel-Buffering") != "no" {
		t.Errorf("got %v: nginx would delay events", header)
	}
}

func TestEmptyLastEventID(t *testing.T) {
	t.Parallel()
	c := newWebServer(t, nil, 0).newSessionClient("2025-11-25")
	a := c.openStream("GET", nil, map[string]string{"Last-Event-ID": ""}, "")
	a.waitFor("a response", func() bool { return a.status != 0 })
	if a.status != http.StatusOK {
		t.Errorf("got %d", a.status)
	}
}

func TestPath(t *testing.T) {
	t.Parallel()
	c := newWebServer(t, nil, 0).newSessionClient("2025-11-25")
	c.url += "/"
	body, _ := c.newRequestBody("tools/list")
	if status, text, _ := c.do("POST", body, nil); status != http.StatusOK {
		t.Errorf("got %d %s with a trailing slash", status, text)
	}
}

func TestByteOrderMark(t *testing.T) {
	t.Parallel()
	runEachHTTPVersion(t, func(t *testing.T, c *webClient) {
		body, header := c.newRequestBody("tools/list")
		if status, text, _ := c.do("POST", "\ufeff"+body, header); status != http.StatusOK {
			t.Errorf("got %d %s", status, text)
		}
	})
}

func TestUnknownMethod(t *testing.T) {
	t.Parallel()
	runEachHTTPVersion(t, func(t *testing.T, c *webClient) {
		body, header := c.newRequestBody("no/such")
		status, text, _ := c.do("POST", body, header)
		wanted := http.StatusOK // clients take any other status for the end of the connection
		if c.session == "" {
			wanted = http.StatusNotFound // as the protocol requires
		}
		if status != wanted || !strings.Contains(text, "-32601") || !strings.Contains(text, `"id":7`) {
			t.Errorf("got %d %s, want %d and -32601", status, text, wanted)
		}
		if status, text, _ := c.do("POST", `{"jsonrpc":"2.0","method":"notifications/nobody"}`, map[string]string{"Mcp-Method": "notifications/nobody"}); status != http.StatusAccepted {
			t.Errorf("a notification: got %d %s", status, text)
		}
	})
}

// A client may encode the name that the header repeats from the body. It must do so if the name
// is not plain ASCII.
func TestEncodedName(t *testing.T) {
	t.Parallel()
	c := newWebServer(t, nil, 0).newStatelessClient()
	for name, test := range map[string]struct{ tool, header, want string }{
		"of a tool":               {"repl_sessions", "=?base64?cmVwbF9zZXNzaW9ucw==?=", "no session"},
		"of a tool that is not":   {"répl", "=?base64?csOpcGw=?=", `unknown tool`},
		"that looks encoded":      {"=?base64?cmVwbA==?=", "=?base64?PT9iYXNlNjQ/Y21Wd2JBPT0/PQ==?=", `unknown tool`},
		"of another tool":         {"repl_sessions", "=?base64?cmVwbA==?=", "-32020"},
		"without an end":          {"repl_sessions", "=?base64?cmVwbF9zZXNzaW9ucw==", "-32020"},
		"that cannot be decoded":  {"repl_sessions", "=?base64?cmVwbF9zZXNzaW9ucw?=", "-32020"},
		"with another case of it": {"repl_sessions", "=?BASE64?cmVwbF9zZXNzaW9ucw==?=", "-32020"},
	} {
		t.Run(name, func(t *testing.T) {
			body, header := c.newRequestBody("tools/call")
			encoded, _ := json.Marshal(test.tool)
			body = strings.Replace(body, `"params":{`, `"params":{"name":`+string(encoded)+`,"arguments":{},`, 1)
			header["Mcp-Name"] = test.header
			if _, text, _ := c.do("POST", body, header); !strings.Contains(text, test.want) {
				t.Errorf("got %s, want %s", text, test.want)
			}
		})
	}
}

// A body that is not exactly one message is refused before any call in it is decoded.
func TestMalformedBody(t *testing.T) {
	t.Parallel()
	runEachHTTPVersion(t, func(t *testing.T, c *webClient) {
		call, header := c.newRequestBody("tools/call")
		call = strings.Replace(call, `"params":{`, `"params":{"name":"repl","arguments":{"input":"print 1"},`, 1)
		call = strings.Replace(call, `},}`, `}}`, 1)
		header["Mcp-Name"] = "repl"
		for name, test := range map[string]struct{ body, code string }{
			"a bracket too many":    {call + "}", "-32700"},
			"a word behind it":      {call + " then", "-32700"},
			"two messages":          {call + call, "-32700"},
			"an id that is no text": {strings.Replace(call, `:7,`, ":\"\xff\",", 1), "-32600"},
			"another case":          {strings.Replace(call, `"method"`, `"Method"`, 1), "-32600"},
			"nothing":               {"", "-32700"},
			"an empty array":        {"[]", "-32600"},
		} {
			if status, text, _ := c.do("POST", test.body, header); status != http.StatusBadRequest || !strings.Contains(text, test.code) {
				t.Errorf("%s: got %d %s", name, status, text)
			}
		}
		both := strings.Replace(call, `"method":"tools/call"`, `"method":"ping","Method":"tools/call"`, 1)
		_, _, _ = c.do("POST", both, header) // either may count
		wantPart(t, c.runRepl("print 2"), "2")
	})
	t.Run("in a batch", func(t *testing.T) {
		t.Parallel()
		c := newWebServer(t, nil, 0).newSessionClient("2025-03-26")
		_, text, _ := c.do("POST", `[{"jsonrpc":"2.0","id":1,"method":"ping"},1,{"jsonrpc":"2.0","id":3}]`, nil)
		if strings.Count(text, "-32600") != 2 || !strings.Contains(text, `"id":null`) || !strings.Contains(text, `"id":3`) || !strings.Contains(text, `"id":1,"result"`) {
			t.Errorf("got %s", text)
		}
	})
}

func TestInitialize(t *testing.T) {
	t.Parallel()

	const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`

	t.Run("starts a session for a client with the session id of an earlier server", func(t *testing.T) {
		t.Parallel()
		c := newWebServer(t, nil, 0).newWebClient("2025-06-18")
		c.session = "of-a-server-before"
		status, text, header := c.do("POST", hello, nil)
		if c.session = header.Get("Mcp-Session-Id"); status != http.StatusOK || c.session == "" {
			t.Fatalf("got %d %s", status, text)
		}
		wantText(t, c.runRepl("print 1"), "1")
	})

	t.Run("starts another session within a session", func(t *testing.T) {
		t.Parallel()
		c := newWebServer(t, nil, 0).newSessionClient("2025-06-18")
		first := c.session
		_, text, header := c.do("POST", hello, nil)
		if second := header.Get("Mcp-Session-Id"); second == "" || second == first || !strings.Contains(text, "serverInfo") {
			t.Errorf("got the session %q, %s", second, text)
		}
		wantText(t, c.runRepl("print 1"), "1")
	})

	t.Run("negotiates a version regardless of the header", func(t *testing.T) {
		t.Parallel()
		w := newWebServer(t, nil, 0)
		for _, version := range []string{"2026-07-28", "2099-01-01", "draft"} {
			if status, text, _ := w.newWebClient(version).do("POST", hello, nil); status != http.StatusOK || !strings.Contains(text, `"protocolVersion":"2025-06-18"`) {
				t.Errorf("%s: got %d %s", version, status, text)
			}
		}
	})

	t.Run("repeats its answer on standard input, for gateways", func(t *testing.T) {
		t.Parallel()
		c := newClient(t, nil)
		first := c.initialize("2025-06-18")
		second := c.initialize("2025-11-25")
		if second.Error != nil || string(second.Result) != string(first.Result) {
			t.Errorf("got %s, want the result of %s", second.Line, first.Line)
		}
		wantText(t, c.runRepl("print 1"), "1")
	})
}

func TestIDs(t *testing.T) {
	t.Parallel()
	runEachHTTPVersion(t, func(t *testing.T, c *webClient) {
		for _, id := range []string{`7`, `"7"`, `0`, `""`, `-1`, `9007199254740993`, `1.5`, `1e3`} {
			body, header := c.newRequestBody("tools/list")
			if _, text, _ := c.do("POST", strings.Replace(body, `"id":7`, `"id":`+id, 1), header); !strings.Contains(text, `"id":`+id+`,"result"`) {
				t.Errorf("%s: got %.200s", id, text)
			}
		}
	})

	t.Run("that are not integers can be cancelled", func(t *testing.T) {
		t.Parallel()
		c := newWebServer(t, nil, 0).newSessionClient("2025-11-25")
		a := c.openStream("POST", []byte(`{"jsonrpc":"2.0","id":2.5,"method":"tools/call","params":{"name":"repl","arguments":{"input":"print begun\nsleep"}}}`), nil, "2.5")
		c.waitFirstOutput()
		c.notify("notifications/cancelled", map[string]any{"requestId": 2.5})
		c.waitState("idle") // its code would sleep forever
		if all := a.waitEvents(); len(all) > 0 {
			t.Errorf("got %s for a cancelled call", all[0].Line)
		}
	})
}

// A client that lost its connection may reconnect before the server notices the loss.
func TestStreamReader(t *testing.T) {
	t.Parallel()

	t.Run("replaces an earlier reader", func(t *testing.T) {
		t.Parallel()
		c := newWebServer(t, nil, 0).newSessionClient("2025-11-25")
		before := c.openStream("GET", nil, nil, "")
		before.waitFor("the stream", func() bool { return before.status != 0 })
		now := c.openStream("GET", nil, nil, "")
		now.waitFor("the stream", func() bool { return now.status != 0 })
		if now.status != http.StatusOK {
			t.Errorf("got %d, want the stream", now.status)
		}
		before.waitFor("its end", func() bool { return before.over })
	})

	t.Run("that reconnects gets the answer of a call with an earlier reader", func(t *testing.T) {
		t.Parallel()
		c := newWebServer(t, nil, 0).newSessionClient("2025-11-25")
		wait, open := newGate(t)
		before := c.startCall("repl", map[string]any{"input": wait + "print done"}, nil)
		before.waitFor("an event", func() bool { return before.lastID != "" })
		now := c.openStream("GET", nil, map[string]string{"Last-Event-ID": before.lastID}, before.id)
		now.waitFor("the stream", func() bool { return now.status != 0 })
		open()
		wantText(t, now.waitResult().text(), "done")
		if all := before.waitEvents(); len(all) > 0 {
			t.Errorf("the first reader got %s", all[0].Line)
		}
	})
}

// A client that accepts only one message cannot be asked anything before it.
func TestAccept_SingleMessage(t *testing.T) {
	t.Parallel()
	c := newWebServer(t, nil, 0).newWebClient("2025-06-18")
	header := map[string]string{"Accept": "application/json"}
	_, _, got := c.do("POST", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"elicitation":{},"roots":{}},"clientInfo":{"name":"test","version":"1"}}}`, header)
	c.session = got.Get("Mcp-Session-Id")
	c.notify("notifications/initialized", nil)
	_, text, _ := c.do("POST", `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"repl","arguments":{"input":"secret pw: "}}}`, header)
	wantPart(t, text, "this client cannot ask")
}
