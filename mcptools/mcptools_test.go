package mcptools_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/turnstone-repl/turnstone/internal/testkit/sandboxcheck"
	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
	"github.com/turnstone-repl/turnstone/mcptools"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/workers"
)

func toolNames(t *testing.T, c client) (names []string) {
	t.Helper()
	for tool, err := range c.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, tool.Name)
	}
	return names
}

func TestAdd(t *testing.T) {
	t.Parallel()

	t.Run("offers the tools beside those of the server", func(t *testing.T) {
		t.Parallel()
		server, _ := newHost(t, newOptions())
		c := connect(t, server, nil)
		if want := []string{"own", "repl", "repl_interrupt", "repl_output", "repl_reset", "repl_sessions"}; !slices.Equal(toolNames(t, c), want) {
			t.Errorf("got %q", toolNames(t, c))
		}
		wantPart(t, c.run("print hello"), "hello")
		wantPart(t, textOf(c.call("own", nil)), "own result")
		if _, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "nosuch"}); err == nil || !strings.Contains(err.Error(), `unknown tool "nosuch"`) {
			t.Errorf("got %v", err)
		}
	})

	t.Run("gives each MCP session sessions of its own", func(t *testing.T) {
		t.Parallel()
		server, sup := newHost(t, newOptions())
		one, two := connect(t, server, nil), connect(t, server, nil)
		if got := [3]int{one.runTurn(""), two.runTurn(""), one.runTurn("")}; got != [3]int{1, 1, 2} {
			t.Errorf("the turns of two clients are %v", got)
		}
		if sessions := textOf(one.call("repl_sessions", nil)); strings.Count(sessions, "\n") != 1 || strings.Contains(sessions, "mcp") {
			t.Errorf("a caller sees %s", sessions)
		}
		_ = one.Close()
		waitSessions(t, sup, 1)
		wantPart(t, two.run("print still"), "still")
		_ = two.Close()
		waitSessions(t, sup, 0)
	})

	t.Run("ends a session whose client leaves during a call", func(t *testing.T) {
		t.Parallel()
		server, sup := newHost(t, newOptions())
		r := newRawClient(t, server, func(t mcp.Transport) mcp.Transport { return t })
		r.sendCall("repl", "input", "sleep")
		waitRunning(t, sup)
		_ = r.conn.Close()
		waitSessions(t, sup, 0)
	})

	t.Run("returns at the timeout, and can be interrupted", func(t *testing.T) {
		t.Parallel()
		server, _ := newHost(t, newOptions())
		c := connect(t, server, nil)
		c.run("print begin")
		wantPart(t, textOf(c.call("repl", map[string]any{"input": "sleep", "timeout_ms": 10})), "[running", "call repl_output to wait, repl_interrupt to stop")
		wantPart(t, textOf(c.call("repl_interrupt", nil)), "interrupted after")
		wantPart(t, c.run("print next"), "next")
	})

	t.Run("interrupts a cancelled call, and the next reply says so", func(t *testing.T) {
		t.Parallel()
		for name, wrap := range map[string]func(mcp.Transport) mcp.Transport{
			"plain": func(t mcp.Transport) mcp.Transport { return t }, "ordered": mcptools.Ordered,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				server, sup := newHost(t, newOptions())
				a, b := mcp.NewInMemoryTransports()
				if _, err := server.Connect(t.Context(), wrap(a), nil); err != nil {
					t.Fatal(err)
				}
				c := dial(t, b, nil)
				for range 10 {
					ctx, cancel := context.WithCancel(t.Context())
					ended := make(chan error, 1)
					go func() {
						_, err := c.CallTool(ctx, &mcp.CallToolParams{Name: "repl", Arguments: map[string]any{"input": "sleep"}})
						ended <- err
					}()
					waitRunning(t, sup)
					cancel()
					if err := <-ended; err == nil {
						t.Fatal("the cancelled call has a result")
					}
					got := textOf(c.call("repl_output", nil))
					for !strings.Contains(got, "the previous call was cancelled") && strings.Contains(got, "[idle, nothing new]") {
						got = textOf(c.call("repl_output", nil)) // the cancel was not read yet
					}
					wantPart(t, got, "[the previous call was cancelled after ")
				}
			})
		}
	})

	t.Run("reports progress", func(t *testing.T) {
		t.Parallel()
		server, _ := newHost(t, newOptions())
		reported := make(chan string, 100)
		c := connect(t, server, &mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			if r.Params.ProgressToken == "here" {
				select {
				case reported <- r.Params.Message:
				default:
				}
			}
		}})
		params := &mcp.CallToolParams{Name: "repl", Arguments: map[string]any{"input": "print step\nsleep"}}
		params.SetProgressToken("here")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = c.CallTool(ctx, params)
		}()
		for !strings.Contains(<-reported, "step") {
		}
		cancel()
		<-ended
	})

	t.Run("shows pictures", func(t *testing.T) {
		t.Parallel()
		server, _ := newHost(t, newOptions())
		result := connect(t, server, nil).call("repl", map[string]any{"input": "image"})
		i := slices.IndexFunc(result.Content, func(c mcp.Content) bool { _, ok := c.(*mcp.ImageContent); return ok })
		if i < 0 || len(result.Content[i].(*mcp.ImageContent).Data) == 0 {
			t.Errorf("got %s", textOf(result))
		}
	})

	t.Run("is refused if the server has such a tool", func(t *testing.T) {
		t.Parallel()
		server, sup := newServer(nil), newSupervisor(t)
		mcp.AddTool(server, &mcp.Tool{Name: "repl_reset"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "the host's"}}}, nil, nil
		})
		if _, err := mcptools.Add(server, sup, newOptions()); err == nil || !strings.Contains(err.Error(), `"repl_reset"`) {
			t.Fatalf("got %v", err)
		}
		c := connect(t, server, nil)
		wantPart(t, textOf(c.call("repl_reset", nil)), "the host's")
		if names := toolNames(t, c); len(names) != 2 {
			t.Errorf("a refused Add has added %q", names)
		}
		o := newOptions()
		o.Prefix = "py-"
		withTools(t, server, sup, o)
		if _, err := mcptools.Add(server, sup, o); err == nil {
			t.Error("the tools can be added twice")
		}
		wantPart(t, textOf(c.call("repl_reset", nil)), "the host's")
		wantPart(t, textOf(c.call("py-repl", map[string]any{"input": "print ours"})), "ours")
	})

	t.Run("finds a tool of the server behind the first page of the list", func(t *testing.T) {
		t.Parallel()
		server := mcp.NewServer(&mcp.Implementation{Name: "host", Version: "1"}, &mcp.ServerOptions{PageSize: 2})
		for _, name := range []string{"a", "b", "c", "d", "repl_sessions"} {
			mcp.AddTool(server, &mcp.Tool{Name: name}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
				return nil, nil, nil
			})
		}
		if _, err := mcptools.Add(server, newSupervisor(t), newOptions()); err == nil || !strings.Contains(err.Error(), `"repl_sessions"`) {
			t.Errorf("got %v", err)
		}
	})

	t.Run("is refused if the list of tools cannot be read", func(t *testing.T) {
		t.Parallel()
		server := newServer(nil)
		server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
			return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
				if extra := r.GetExtra(); extra == nil || extra.TokenInfo == nil {
					return nil, errors.New("who are you?")
				}
				return next(ctx, method, r)
			}
		})
		if _, err := mcptools.Add(server, newSupervisor(t), newOptions()); err == nil || !strings.Contains(err.Error(), "who are you?") {
			t.Errorf("got %v", err)
		}
	})

	t.Run("names the tools with their prefix in replies", func(t *testing.T) {
		t.Parallel()
		o := newOptions()
		o.Prefix = "py-"
		server, _ := newHost(t, o)
		c := connect(t, server, nil)
		for tool, err := range c.Tools(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			if rest := strings.ReplaceAll(tool.Description, "py-repl", ""); strings.Contains(rest, "repl_") || strings.Contains(rest, "py-") {
				t.Errorf("%s: %s", tool.Name, tool.Description)
			}
		}
		wantPart(t, textOf(c.call("py-repl_output", nil)), "no sessions yet: py-repl creates one")
		c.call("py-repl", map[string]any{"input": "print repl_output"})
		wantPart(t, textOf(c.call("py-repl", map[string]any{"input": "print repl_output\nsleep", "timeout_ms": 10})), "call py-repl_output to wait")
		got := textOf(c.call("py-repl", map[string]any{"input": "print x", "timeout_ms": 0}))
		wantPart(t, got, "NOT run", "call py-repl_output to wait, py-repl_interrupt to stop")
		c.call("py-repl_interrupt", nil)
		if got := textOf(c.call("py-repl", map[string]any{"input": "print repl_output"})); !strings.HasPrefix(got, "repl_output") {
			t.Errorf("the output of code is changed: %q", got)
		}
	})

	t.Run("leaves nothing behind when it is done", func(t *testing.T) {
		t.Parallel()
		server, sup := newServer(nil), newSupervisor(t)
		done := withTools(t, server, sup, newOptions())
		c := connect(t, server, nil)
		ended := make(chan string, 1)
		go func() {
			result, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "repl", Arguments: map[string]any{"input": "sleep"}})
			if err != nil {
				ended <- err.Error()
				return
			}
			ended <- textOf(result)
		}()
		waitRunning(t, sup)
		done()
		if n := len(sup.Sessions()); n != 0 {
			t.Errorf("%d sessions are left", n)
		}
		if got := <-ended; got == "" {
			t.Error("the running call got no answer")
		}
		done()
		if names := toolNames(t, c); !slices.Equal(names, []string{"own"}) {
			t.Errorf("tools that are left: %q", names)
		}
		withTools(t, server, sup, newOptions())
		wantPart(t, c.run("print again"), "again")
	})

	t.Run("can be undone while clients call and come", func(t *testing.T) {
		t.Parallel()
		server, sup := newServer(nil), newSupervisor(t)
		done := withTools(t, server, sup, newOptions())
		var calling sync.WaitGroup
		first := make(chan struct{}, 8)
		for i := range 8 {
			a, b := mcp.NewInMemoryTransports()
			var to mcp.Transport = a
			if i%2 == 0 {
				to = mcptools.Ordered(a)
			}
			if _, err := server.Connect(t.Context(), to, nil); err != nil {
				t.Fatal(err)
			}
			c := dial(t, b, nil)
			calling.Go(func() {
				for n := 0; ; n++ {
					result, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "repl", Arguments: map[string]any{"input": "print x"}})
					if err != nil || result.IsError {
						return // the tools are gone
					}
					if n == 0 {
						first <- struct{}{}
					}
				}
			})
		}
		for range 4 {
			<-first
		}
		done()
		if n := len(sup.Sessions()); n != 0 {
			t.Errorf("%d sessions are left", n)
		}
		calling.Wait()
		waitSessions(t, sup, 0)
	})

	t.Run("shares a supervisor with another server", func(t *testing.T) {
		t.Parallel()
		sup := newSupervisor(t)
		one, two := newServer(nil), newServer(nil)
		done := withTools(t, one, sup, newOptions())
		withTools(t, two, sup, newOptions())
		a, b := connect(t, one, nil), connect(t, two, nil)
		if got := [2]int{a.runTurn(""), b.runTurn("")}; got != [2]int{1, 1} {
			t.Errorf("the turns of two servers are %v", got)
		}
		done()
		waitSessions(t, sup, 1)
		wantPart(t, b.run("print still"), "still")
	})

	t.Run("reports a closed supervisor", func(t *testing.T) {
		t.Parallel()
		server, sup := newHost(t, newOptions())
		c, late := connect(t, server, nil), connect(t, server, nil)
		c.run("print x")
		_ = sup.Close()
		result := c.call("repl", map[string]any{"input": "print x"})
		wantPart(t, textOf(result), "this session no longer exists")
		for _, c := range []client{c, late} {
			result = c.call("repl", map[string]any{"input": "print x"})
			if wantPart(t, textOf(result), "closed"); !result.IsError {
				t.Errorf("not an error: %s", textOf(result))
			}
		}
	})

	t.Run("says when all sessions are taken", func(t *testing.T) {
		t.Parallel()
		sup, err := supervisor.New(&supervisor.Options{Dir: sandboxcheck.TempDir(t), MaxSessions: 1})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = sup.Close() })
		server := newServer(nil)
		withTools(t, server, sup, newOptions())
		one, two := connect(t, server, nil), connect(t, server, nil)
		one.run("print x")
		wantPart(t, two.run("print x"), "too many sessions: all belong to other clients")
		_ = one.Close()
		waitSessions(t, sup, 0)
		wantPart(t, two.run("print mine"), "mine")
	})

	t.Run("limits sessions", func(t *testing.T) {
		t.Parallel()
		o := newOptions()
		o.Limits.Turn = time.Second
		server, _ := newHost(t, o)
		wantPart(t, connect(t, server, nil).run("sleep"), "Interrupted", "limit")
	})

	t.Run("works in the directory of the options", func(t *testing.T) {
		t.Parallel()
		dir, err := filepath.EvalSymlinks(sandboxcheck.TempDir(t))
		if err != nil {
			t.Fatal(err)
		}
		o := newOptions()
		o.Dir = dir
		server, _ := newHost(t, o)
		wantPart(t, connect(t, server, nil).run("cwd"), dir)
	})
}

func TestAdd_Options(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*mcptools.Options)
		want   string
	}{
		"no language":        {func(o *mcptools.Options) { o.Languages = nil }, "no language"},
		"a nil language":     {func(o *mcptools.Options) { o.Languages = map[string]func(string) workers.Spec{"x": nil} }, `"x"`},
		"an unknown default": {func(o *mcptools.Options) { o.Default = "x" }, `"x"`},
		"a bad prefix":       {func(o *mcptools.Options) { o.Prefix = "my tools/" }, `"my tools/"`},
		"a long prefix":      {func(o *mcptools.Options) { o.Prefix = strings.Repeat("x", 41) }, "40"},
		"an unknown policy":  {func(o *mcptools.Options) { o.Stdin = "never" }, `"never"`},
		"a bad sandbox":      {func(o *mcptools.Options) { o.Sandbox = &sandbox.Policy{Level: "some"} }, `"some"`},
		"bad limits":         {func(o *mcptools.Options) { o.Limits.Memory = 1 }, "memory"},
		"no directory":       {func(o *mcptools.Options) { o.Dir = testexec.OwnPath() }, "not a directory"},
		"a short timeout":    {func(o *mcptools.Options) { o.IdleTimeout = time.Second }, "idle timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOptions()
			c.change(&o)
			_, err := mcptools.Add(newServer(nil), newSupervisor(t), o)
			if err == nil || !strings.HasPrefix(err.Error(), "mcptools: ") || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "mcpserver") {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	if _, err := mcptools.Add(nil, newSupervisor(t), newOptions()); err == nil {
		t.Error("a nil server is accepted")
	}
	if _, err := mcptools.Add(newServer(nil), nil, newOptions()); err == nil {
		t.Error("a nil supervisor is accepted")
	}
}

func TestAdd_LanguageSandbox(t *testing.T) {
	t.Parallel()
	o := newOptions()
	o.Languages = map[string]func(string) workers.Spec{"fake": func(dir string) workers.Spec {
		spec := fake(dir)
		spec.Sandbox = &sandbox.Policy{Level: sandbox.ReadOnly, Network: sandbox.NetworkNone}
		return spec
	}}
	server, _ := newHost(t, o)
	result := connect(t, server, nil).call("repl", map[string]any{"input": "print x"})
	if wantPart(t, textOf(result), "the language has a sandbox of its own"); !result.IsError {
		t.Error("the call succeeded")
	}
}

func TestAdd_Input(t *testing.T) {
	t.Parallel()

	for name, versions := range map[string][]string{"asked within the call": {"2025-06-18"}, "asked by the result": nil} {
		t.Run("that is secret comes from the user, "+name, func(t *testing.T) {
			t.Parallel()
			server := mcp.NewServer(&mcp.Implementation{Name: "host", Version: "1"}, &mcp.ServerOptions{SupportedProtocolVersions: versions})
			withTools(t, server, newSupervisor(t), newOptions())
			c := connect(t, server, &mcp.ClientOptions{ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"answer": "hunter2"}}, nil
			}})
			got := c.run("secret password: ")
			if wantPart(t, got, "7 bytes"); strings.Contains(got, "hunter2") {
				t.Errorf("got %q", got)
			}
		})
	}

	t.Run("of a client that cannot ask stays open", func(t *testing.T) {
		t.Parallel()
		server, _ := newHost(t, newOptions())
		c := connect(t, server, nil)
		wantPart(t, c.run("wait name? "), "[waiting for input: \"name? \"]")
		wantPart(t, c.run("Ada"), "Ada")
		wantPart(t, c.run("secret password: "), "this client cannot ask")
	})

	t.Run("is denied in words without flags", func(t *testing.T) {
		t.Parallel()
		o := newOptions()
		o.Stdin = mcptools.StdinDeny
		server, _ := newHost(t, o)
		got := connect(t, server, nil).run("wait name? ")
		if wantPart(t, got, "<eof>", "standard input is at its end: the policy of this server"); strings.Contains(got, "--") {
			t.Errorf("got %q", got)
		}
	})

	t.Run("leaves the forms of the server alone", func(t *testing.T) {
		t.Parallel()
		server := mcp.NewServer(&mcp.Implementation{Name: "host", Version: "1"}, &mcp.ServerOptions{SupportedProtocolVersions: []string{"2025-06-18"}})
		withTools(t, server, newSupervisor(t), newOptions())
		answers := make(chan any, 1)
		mcp.AddTool(server, &mcp.Tool{Name: "ask"}, func(ctx context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
			answer, err := r.Session.Elicit(ctx, &mcp.ElicitParams{Message: "how many?", RequestedSchema: map[string]any{
				"type": "object", "properties": map[string]any{"answer": map[string]any{"type": "number"}},
			}})
			if err == nil {
				answers <- answer.Content["answer"]
			}
			return &mcp.CallToolResult{}, nil, err
		})
		c := connect(t, server, &mcp.ClientOptions{ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"answer": 5}}, nil
		}})
		if result := c.call("ask", nil); result.IsError {
			t.Fatalf("got %s", textOf(result))
		}
		if got := <-answers; got != 5.0 {
			t.Errorf("got %#v", got)
		}
	})
}

// TestAdd_Goroutines is not parallel, because it counts goroutines.
func TestAdd_Goroutines(t *testing.T) {
	for name, connectOne := range map[string]func(t *testing.T, server *mcp.Server){
		"in memory": func(t *testing.T, server *mcp.Server) {
			c := connect(t, server, nil)
			c.run("print x")
			_ = c.Close()
		},
		"in memory, ordered": func(t *testing.T, server *mcp.Server) {
			r := newRawClient(t, server, mcptools.Ordered)
			r.sendCall("repl", "input", "print x")
			r.read()
			r.sendCall("repl", "input", "sleep") // never answered
			_ = r.conn.Close()
		},
		"with an open question": func(t *testing.T, server *mcp.Server) {
			asked, left := make(chan struct{}), make(chan struct{})
			c := connect(t, server, &mcp.ClientOptions{ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				close(asked)
				<-left
				return &mcp.ElicitResult{Action: "cancel"}, nil
			}})
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_, _ = c.CallTool(ctx, &mcp.CallToolParams{Name: "repl", Arguments: map[string]any{"input": "secret password: "}})
			}()
			<-asked
			cancel()
			close(left)
			<-ended
			_ = c.Close()
		},
		"over HTTP without MCP sessions": func(t *testing.T, server *mcp.Server) {
			web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{Stateless: true}))
			c := dialHTTP(t, web.URL, "")
			for range 5 {
				c.call("repl", map[string]any{"input": "print x", "session": "a"})
			}
			_ = c.Close()
			web.Close()
			http.DefaultTransport.(*http.Transport).CloseIdleConnections()
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, versions := range [][]string{nil, {"2025-06-18"}} {
				sup := newSupervisor(t)
				server := mcp.NewServer(&mcp.Implementation{Name: "host", Version: "1"}, &mcp.ServerOptions{SupportedProtocolVersions: versions})
				before := runtime.NumGoroutine()
				done := withTools(t, server, sup, newOptions())
				for range 3 {
					connectOne(t, server)
				}
				if !strings.Contains(name, "HTTP") {
					waitSessions(t, sup, 0)
				}
				done()
				if !wait.Within(time.Minute, func() bool { return runtime.NumGoroutine() <= before }) {
					stacks := make([]byte, 1<<20)
					t.Errorf("%d goroutines before, %d after:\n%s", before, runtime.NumGoroutine(), stacks[:runtime.Stack(stacks, true)])
				}
			}
		})
	}
}

func TestOrdered(t *testing.T) {
	t.Parallel()

	t.Run("starts calls in the order of their arrival", func(t *testing.T) {
		t.Parallel()
		server, _ := newHost(t, newOptions())
		r := newRawClient(t, server, mcptools.Ordered)
		turns := make(map[int]int)
		for range 100 {
			for range 3 {
				r.sendCall("repl", "input", "print x")
			}
			for range 3 { // the answers may come in another order
				id, result := r.readResult()
				turns[id] = turnOf(result)
			}
		}
		for id, turn := range turns {
			if id != turn+1 { // initialize was the first request
				t.Errorf("request %d was turn %d", id, turn)
			}
		}
	})

	t.Run("does not wait for the tools of the server", func(t *testing.T) {
		t.Parallel()
		release := make(chan struct{})
		server, sup := newServer(release), newSupervisor(t)
		withTools(t, server, sup, newOptions())
		r := newRawClient(t, server, mcptools.Ordered)
		own := r.send("tools/call", `{"name":"own","arguments":{}}`)
		r.sendCall("nosuch_repl", "input", "print x") // of another prefix
		ours := r.sendCall("repl", "input", "print ours")
		for {
			if answer := r.read(); answer.ID.Raw() == int64(ours) {
				break
			} else if answer.ID.Raw() == int64(own) {
				t.Fatal("the server's tool has ended")
			}
		}
		close(release)
		r.read()
	})

	t.Run("repeats what a client could not receive", func(t *testing.T) {
		t.Parallel()
		server, _ := newHost(t, newOptions())
		r := newRawClient(t, server, mcptools.Ordered)
		id := r.sendCall("repl", "input", "print lost\nsleep 100ms")
		r.send("notifications/cancelled", `{"requestId":`+string(rune('0'+id))+`}`)
		r.sendCall("repl", "input", "print next")
		var got string
		for !strings.Contains(got, "next") {
			got = r.readText()
		}
		if strings.Contains(got, "lost") && !strings.Contains(got, "cancelled") {
			t.Errorf("got %q", got)
		}
	})

	t.Run("bounds the queues of a client", func(t *testing.T) {
		t.Parallel()
		server, _ := newHost(t, newOptions())
		r := newRawClient(t, server, mcptools.Ordered)
		for i := range 100 {
			r.sendCall(strings.Repeat("x", i+1)+"_repl", "input", "print x")
			wantPart(t, r.readText(), "unknown tool")
		}
		r.sendCall("repl", "input", "print still")
		wantPart(t, r.readText(), "still")
	})

	t.Run("is refused for a transport of several streams", func(t *testing.T) {
		t.Parallel()
		_, err := newServer(nil).Connect(t.Context(), mcptools.Ordered(&mcp.StreamableServerTransport{SessionID: "x"}), nil)
		if err == nil || !strings.Contains(err.Error(), "no order") {
			t.Errorf("got %v", err)
		}
	})
}
