package mcpserver_test

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/turnstone-repl/turnstone/internal/mcpserver"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/workers"
)

func TestServer(t *testing.T) {
	t.Parallel()

	t.Run("speaks every version with a handshake", func(t *testing.T) {
		t.Parallel()
		for _, version := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"} {
			t.Run(version, func(t *testing.T) {
				t.Parallel()
				c := newClient(t, nil)
				var r struct {
					ProtocolVersion string         `json:"protocolVersion"`
					Capabilities    map[string]any `json:"capabilities"`
				}
				if err := json.Unmarshal(c.initialize(version).Result, &r); err != nil {
					t.Fatal(err)
				}
				wantText(t, r.ProtocolVersion, version)
				if len(r.Capabilities) != 2 || r.Capabilities["tools"] == nil || r.Capabilities["experimental"] == nil {
					t.Errorf("got capabilities %v, want only tools and the capability of Codex", r.Capabilities)
				}
				wantText(t, c.runRepl("print 2"), "2")
			})
		}
	})

	t.Run("speaks the version without a handshake", func(t *testing.T) {
		t.Parallel()
		c := newClient(t, nil)
		c.useStateless()
		a := c.request("server/discover", map[string]any{})
		wantPart(t, string(a.Result), `"2026-07-28"`, `"2024-11-05"`, "interpreter")
		r := c.call("repl", map[string]any{"input": "print 2"})
		wantText(t, r.text(), "2")
		wantPart(t, string(c.request("tools/list", map[string]any{}).Result), `"repl_sessions"`)
	})

	t.Run("lists tools before an interpreter is found", func(t *testing.T) {
		t.Parallel()
		found := make(chan struct{})
		c := newInitializedClient(t, &setup{specs: map[string]func(string) workers.Spec{
			"fake": func(string) workers.Spec { <-found; return fakeSpec(nil)("") },
		}})
		a := c.request("tools/list", map[string]any{})
		if a.Error != nil {
			t.Fatal(a.Error)
		}
		call := c.startCall("repl", map[string]any{"input": "print 2"})
		wantPart(t, c.call("repl_sessions", nil).text(), "opening")
		wantPart(t, c.call("repl_output", map[string]any{"wait_ms": 0}).text(), "not open yet")
		close(found)
		wantText(t, c.waitResult(call).text(), "2") // the first call waits
	})

	t.Run("reports a worker that cannot start and tries again", func(t *testing.T) {
		t.Parallel()
		missing := func() workers.Spec { return workers.Spec{Name: "fake", Path: "/does/not/exist"} }
		calls := 0
		c := newInitializedClient(t, &setup{specs: map[string]func(string) workers.Spec{"fake": func(string) workers.Spec {
			if calls++; calls < 3 { // opened ahead, and for the first call
				return missing()
			}
			return fakeSpec(nil)("")
		}}})
		var r toolResult
		for range 3 { // the first may still get the session that was opened ahead
			if r = c.call("repl", map[string]any{"input": "print 2"}); !r.IsError {
				break
			}
			wantPart(t, r.text(), "/does/not/exist")
		}
		wantText(t, r.text(), "2")
	})

	// The SDK's own client uses the newest era, with progress and cancellation.
	t.Run("serves the client of the SDK", func(t *testing.T) {
		t.Parallel()
		sup, err := supervisor.New(&supervisor.Options{Dir: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		inRead, inWrite := io.Pipe()
		outRead, outWrite := io.Pipe()
		ended := make(chan error, 1)
		go func() {
			ended <- mcpserver.Run(context.Background(), &mcpserver.Options{
				Supervisor: sup, Specs: map[string]func(string) workers.Spec{"fake": fakeSpec(nil)}, In: inRead, Out: outWrite,
			})
		}()
		ctx, cancel := context.WithTimeout(t.Context(), deadline)
		defer cancel()
		progress := make(chan float64, 10)
		c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
			ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { progress <- r.Params.Progress },
		})
		session, err := c.Connect(ctx, &mcp.IOTransport{Reader: outRead, Writer: inWrite}, nil)
		if err != nil {
			t.Fatal(err)
		}
		params := &mcp.CallToolParams{Name: "repl", Arguments: map[string]any{"input": "print 2"}}
		r, err := session.CallTool(ctx, params)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Content) != 1 || r.Content[0].(*mcp.TextContent).Text != "2" || r.StructuredContent != nil {
			t.Errorf("got %+v", r)
		}
		params = &mcp.CallToolParams{Name: "repl", Arguments: map[string]any{"input": "sleep"}}
		params.SetProgressToken("token")
		calling, giveUp := context.WithCancel(ctx)
		returned := make(chan error, 1)
		go func() { _, err := session.CallTool(calling, params); returned <- err }()
		select {
		case p := <-progress:
			if p < 1 {
				t.Errorf("got progress %v, want none before 1 s", p)
			}
		case <-time.After(deadline):
			t.Fatal("no progress")
		}
		giveUp()
		if err := <-returned; err == nil {
			t.Error("the cancelled call returned a result")
		}
		params = &mcp.CallToolParams{Name: "repl_output", Arguments: map[string]any{}}
		if r, err = session.CallTool(ctx, params); err != nil {
			t.Fatal(err)
		}
		wantPart(t, r.Content[0].(*mcp.TextContent).Text, "Interrupted", "[interrupted after ")
		if err := session.Close(); err != nil {
			t.Error(err)
		}
		_ = inWrite.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

type listedTool struct {
	Name         string          `json:"name"`
	Description  string          `json:"description"`
	OutputSchema json.RawMessage `json:"outputSchema"`
	InputSchema  struct {
		Properties map[string]any `json:"properties"`
		Required   []string       `json:"required"`
	} `json:"inputSchema"`
	Annotations *struct {
		ReadOnly    bool  `json:"readOnlyHint"`
		Destructive *bool `json:"destructiveHint"`
		OpenWorld   *bool `json:"openWorldHint"`
	} `json:"annotations"`
	Meta map[string]any `json:"_meta"`
}

func listTools(c *client) map[string]listedTool {
	c.t.Helper()
	var r struct {
		Tools []listedTool `json:"tools"`
	}
	if err := json.Unmarshal(c.request("tools/list", map[string]any{}).Result, &r); err != nil {
		c.t.Fatal(err)
	}
	tools := make(map[string]listedTool)
	for _, tool := range r.Tools {
		tools[tool.Name] = tool
	}
	return tools
}

func TestServerTools(t *testing.T) {
	t.Parallel()

	// A model gets the list with every request, so its cost is part of the contract.
	t.Run("are small and have correct annotations", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		tools := listTools(c)
		if len(tools) != 5 {
			t.Errorf("got %d tools, want 5", len(tools))
		}
		for name, tool := range tools {
			if len(tool.Description) > 2000 {
				t.Errorf("%s: the description has %d bytes; clients truncate it at 2 KB", name, len(tool.Description))
			}
			if tool.OutputSchema != nil {
				t.Errorf("%s has an output schema: clients would drop its text", name)
			}
			if tool.Meta["anthropic/alwaysLoad"] != true || tool.Meta["anthropic/maxResultSizeChars"] == nil {
				t.Errorf("%s: got _meta %v", name, tool.Meta)
			}
		}
		if tools["repl"].Annotations != nil {
			t.Error("repl claims to be harmless")
		}
		for _, name := range []string{"repl_output", "repl_sessions"} {
			if !tools[name].Annotations.ReadOnly {
				t.Errorf("%s: got no readOnlyHint", name)
			}
		}
		// Clients run this tool without asking, so that runaway code can be stopped.
		if a := tools["repl_interrupt"].Annotations; a.ReadOnly || *a.Destructive || *a.OpenWorld {
			t.Errorf("repl_interrupt: got %+v", a)
		}
		if a := tools["repl_reset"].Annotations; a.ReadOnly || a.Destructive != nil {
			t.Errorf("repl_reset: got %+v", a)
		}
		// A token has about four bytes.
		if tokens := len(c.request("tools/list", map[string]any{}).Line) / 4; tokens > 1200 {
			t.Errorf("the list of tools has about %d tokens", tokens)
		} else {
			t.Logf("the list of tools has about %d tokens", tokens)
		}
	})

	t.Run("offer languages only if there are several", func(t *testing.T) {
		t.Parallel()
		one := listTools(newInitializedClient(t, nil))["repl"].InputSchema
		if _, ok := one.Properties["lang"]; ok || len(one.Required) > 0 {
			t.Errorf("one language: got %+v", one)
		}
		two := listTools(newInitializedClient(t, &setup{specs: twoLanguages()}))["repl"].InputSchema
		if lang, ok := two.Properties["lang"].(map[string]any); !ok || len(lang["enum"].([]any)) != 2 {
			t.Errorf("two languages: got %+v", two)
		}
	})

	t.Run("are named in the error about an unknown one", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		a := c.request("tools/call", map[string]any{"name": "eval", "arguments": map[string]any{}})
		if a.Error == nil || a.Error.Code != -32602 {
			t.Fatalf("got %s", a.Line)
		}
		wantPart(t, a.Error.Message, `"eval"`, "repl, repl_output, repl_interrupt, repl_reset and repl_sessions")
	})

	// Some model services refuse all tools if one of them has no properties.
	t.Run("have properties in every schema", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		var r struct {
			Tools []struct {
				Name        string         `json:"name"`
				InputSchema map[string]any `json:"inputSchema"`
			} `json:"tools"`
		}
		if err := json.Unmarshal(c.request("tools/list", map[string]any{}).Result, &r); err != nil {
			t.Fatal(err)
		}
		for _, tool := range r.Tools {
			if _, ok := tool.InputSchema["properties"].(map[string]any); !ok || tool.InputSchema["type"] != "object" {
				t.Errorf("%s: got %v", tool.Name, tool.InputSchema)
			}
			if tool.InputSchema["additionalProperties"] == false {
				t.Errorf("%s forbids arguments that clients add", tool.Name)
			}
		}
	})
}

func TestServerArguments(t *testing.T) {
	t.Parallel()

	t.Run("errors say how to correct them", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		for _, bad := range []struct {
			tool string
			args any
			want string
		}{
			{"repl", map[string]any{"code": "print 1"}, `unknown argument "code": this tool takes input, keys, timeout_ms, eof, session and lang`},
			{"repl", map[string]any{}, "input is required"},
			{"repl", map[string]any{"input": []any{1}}, "input must be a string, not an array"},
			{"repl", map[string]any{"input": "", "timeout_ms": "5 s"}, "timeout_ms must be a number, not a string"},
			{"repl", map[string]any{"input": "", "eof": "yes"}, "eof must be true or false, not a string"},
			{"repl", map[string]any{"input": "", "timeout_ms": -1}, "timeout_ms must be from 0 to 600000"},
			{"repl", map[string]any{"input": "", "timeout_ms": 600001}, "timeout_ms must be from 0 to 600000"},
			{"repl", map[string]any{"input": "print 1", "lang": "cobol"}, `unknown language "cobol": use fake`},
			{"repl", map[string]any{"input": "print 1", "session": "a b"}, "is not a session name"},
			{"repl", []any{1}, "the arguments must be an object, not an array"},
			{"repl", []any{}, "input is required"},
			{"repl", "", "input is required"},
			{"repl", "print 1", "the arguments must be an object, not a string"},
			{"repl", "{print 1}", "cannot decode the arguments"},
			{"repl_output", map[string]any{"session": "nope"}, `unknown session "nope"; existing sessions: main`},
			{"repl_output", map[string]any{"after": -1}, "after must be a whole number from 0, not number -1"},
			{"repl_output", map[string]any{"grep": "("}, "grep is not a regular expression"},
			{"repl_output", map[string]any{"grep": "a", "lines": "1"}, "use only one"},
			{"repl_output", map[string]any{"lines": "ten"}, `lines must be like "120-180"`},
			{"repl_interrupt", map[string]any{"session": "new"}, `unknown session "new"`},
			{"repl_reset", map[string]any{"input": ""}, "unknown argument"},
			{"repl", map[string]any{"input": map[string]any{}, "more": 1}, "input must be a string, not an object"},
			{"repl", map[string]any{"input": "", "timeout_ms": 1e7}, "timeout_ms must be from 0 to 600000, not 10000000"},
			{"repl", map[string]any{"input": "print 1", "session": strings.Repeat("s", 100_000)}, "sss…"},
		} {
			r := c.decode(c.request("tools/call", map[string]any{"name": bad.tool, "arguments": bad.args}))
			if !r.IsError {
				t.Errorf("%s %v: not an error", bad.tool, bad.args)
			}
			if size := len(r.text()); size > 10_000 {
				t.Errorf("%s: the error has %d bytes", bad.tool, size)
			}
			wantPart(t, r.text(), bad.want)
		}
		wantText(t, c.runRepl("print 2"), "2")
	})

	// Clients add arguments to every tool, and models invent some. The call works if the required
	// ones are present.
	t.Run("unknown ones are ignored and reported once", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		call := func(tool string, args map[string]any) string { return c.call(tool, args).text() }
		more := func() map[string]any { return map[string]any{"input": "print 2", "language": "fake", "Reason": 1} }
		wantText(t, call("repl", map[string]any{"input": "print 2", "wait_for_previous": true}), "2")
		wantText(t, call("repl", more()), "2\n[unknown argument \"Reason\" was ignored]\n[unknown argument \"language\" was ignored]")
		wantText(t, call("repl", more()), "2")
		wantPart(t, call("repl_sessions", map[string]any{"all": true}), "main", `[unknown argument "all" was ignored]`)
		wantPart(t, call("repl_output", map[string]any{"wait_for_previous": false}), "nothing new")
	})
}

func TestArguments(t *testing.T) {
	t.Parallel()

	t.Run("that can mean only one thing are accepted", func(t *testing.T) {
		t.Parallel()
		c := newPythonClient(t)
		c.clearMessages()
		for _, one := range []struct {
			args string
			want string
		}{
			{`{"input":42}`, "42"},
			{`{"input":-1.50}`, "-1.5"},
			{`{"input":"6*7","timeout_ms":"5000"}`, "42"},
			{`{"input":"6*7","timeout_ms":" 5000.0 ","eof":"False"}`, "42"},
			{`{"input":"6*7","wait_ms":5000}`, "42"},
			{`{"input":"6*7","Wait_MS":"5000"}`, "42"},
			{`{"input":"6*7","lang":"Python"}`, "42"},
			{`{"input":"6*7","lang":" PYTHON"}`, "42"},
			{`{"input":"a = input()"}`, "[waiting for input]"},
			{`{"input":7,"eof":"true"}`, "[done, no output]"},
			{`"{\"input\":\"6*7\",\"timeout_ms\":\"5000\"}"`, "42"},
		} {
			c.sendRaw("1", "tools/call", map[string]any{"name": "repl", "arguments": json.RawMessage(one.args)})
			got := c.waitResult("1").text()
			c.clearMessages()
			if got != one.want && !strings.HasSuffix(got, "\n"+one.want) { // the first reply has a line about the sandbox
				t.Errorf("%s: got %q, want %q", one.args, got, one.want)
			}
		}
	})

	t.Run("with invalid characters are refused", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		c.clearMessages()
		for escaped, want := range map[string]string{
			`\ud83d\ude00`: "😀",
			`\\ud83d`:      `\ud83d`,
			`\u00e9`:       "é",
			`\udcaf`:       "half of a character",
			`\ud83d x`:     "half of a character",
			`\ud83d\ud83d`: "half of a character",
			`\\\uD83D\n`:   "half of a character",
			"\xe9":         "the byte 0xE9, which is not UTF-8",
			"é\ufffd\xff":  "the byte 0xFF, which is not UTF-8",
			"\ufffd":       "\ufffd",
		} {
			c.sendLine(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"repl","arguments":{"input":"print ` + escaped + `"}}}`)
			wantPart(t, c.waitResult("1").text(), want)
			c.clearMessages()
		}
	})

	t.Run("accept either timeout name in both tools", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		c.runRepl("print begun")
		c.call("repl", map[string]any{"input": "sleep", "wait_ms": 0})
		for _, args := range []map[string]any{{"timeout_ms": 0}, {"timeout_ms": "0"}, {"wait_ms": "0"}} {
			got := c.call("repl_output", args).text() // not after 45 s
			if !strings.HasPrefix(got, "[running ") {
				t.Errorf("%v: got %q", args, got)
			}
		}
		wantPart(t, c.call("repl_output", map[string]any{"wait_ms": 0, "timeout_ms": 60000}).text(), `[unknown argument "timeout_ms" was ignored]`)
		c.call("repl_interrupt", nil)
	})
}

func TestServerShutdown(t *testing.T) {
	t.Parallel()

	// Some programs write all of their messages into a pipe, and close it.
	t.Run("calls before the end of input are answered", func(t *testing.T) {
		t.Parallel()
		c := newClient(t, nil)
		c.sendLine(`{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`)
		c.sendLine(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		first := c.startCall("repl", map[string]any{"input": "print 1"})
		second := c.startCall("repl", map[string]any{"input": "print 2"})
		other := c.startCall("repl", map[string]any{"input": "sleep", "session": "other"})
		_ = c.in.Close()
		c.waitEnd()
		wantText(t, c.waitResult(first).text(), "1")
		wantText(t, c.waitResult(second).text(), "2")
		wantPart(t, c.waitResult(other).text(), "[session ended: closed, state lost")
		if c.runErr != nil {
			t.Errorf("got %v, want no error", c.runErr)
		}
	})

	t.Run("the end of input ends everything", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		c.startCall("repl", map[string]any{"input": "sleep"})
		c.waitState("running")
		info, _ := c.mainSession().Info(t.Context())
		pid := info.PID
		if pid == 0 {
			t.Fatal("no worker")
		}
		_ = c.in.Close()
		c.waitEnd()
		if c.runErr != nil {
			t.Errorf("got %v, want no error", c.runErr)
		}
	})

	t.Run("the end of the context ends everything at once", func(t *testing.T) {
		t.Parallel()
		c := newInitializedClient(t, nil)
		id := c.startCall("repl", map[string]any{"input": "sleep"})
		c.waitState("running")
		c.stop()
		c.waitEnd()
		if c.runErr != context.Canceled {
			t.Errorf("got %v, want context.Canceled", c.runErr)
		}
		wantPart(t, c.waitResult(id).text(), "[session ended: closed, state lost")
	})

	t.Run("does not wait for a client that does not read", func(t *testing.T) {
		t.Parallel()
		for name, test := range map[string]struct {
			send string // before the end
			end  func(*client)
			err  error
		}{
			"end of input":                 {"", func(c *client) { _ = c.in.Close() }, nil},
			"end of input behind nonsense": {strings.Repeat("nonsense\n[5]\n", 10_000), func(c *client) { _ = c.in.Close() }, nil},
			"context":                      {"", func(c *client) { c.stop() }, context.Canceled},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				c := newClient(t, &setup{neverReads: true})
				c.sendLine(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`)
				c.sendLine(`{"jsonrpc":"2.0","id":2,"method":"ping"}`)
				c.sendLine(test.send)
				test.end(c)
				c.waitEnd()
				if c.runErr != test.err {
					t.Errorf("got %v, want %v", c.runErr, test.err)
				}
			})
		}
	})

	t.Run("refusals are written before it ends", func(t *testing.T) {
		t.Parallel()
		c := newClient(t, nil)
		for range 100 {
			c.sendLine("nonsense")
		}
		_ = c.in.Close()
		c.waitEnd()
		c.waitMessage("the last of 100 errors", func(answer) bool { return len(c.allMessages()) == 100 })
	})
}

func TestRun_RefusesIncompleteOptions(t *testing.T) {
	t.Parallel()
	sup, err := supervisor.New(&supervisor.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	specs := map[string]func(string) workers.Spec{"fake": fakeSpec(nil)}
	for want, o := range map[string]*mcpserver.Options{
		"required":         {Specs: specs, In: strings.NewReader(""), Out: io.Discard},
		"no language":      {Supervisor: sup, In: strings.NewReader(""), Out: io.Discard},
		"default language": {Supervisor: sup, Specs: specs, Default: "r", In: strings.NewReader(""), Out: io.Discard},
	} {
		if err := mcpserver.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
