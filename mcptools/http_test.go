package mcptools_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// serveHTTP serves an MCP server over HTTP. A bearer token, if there is one, names its user.
func serveHTTP(t *testing.T, server *mcp.Server, o *mcp.StreamableHTTPOptions) (url string) {
	t.Helper()
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, o)
	verify := auth.RequireBearerToken(func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		return &auth.TokenInfo{UserID: token, Expiration: time.Now().Add(time.Hour)}, nil
	}, nil)(handler)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			verify.ServeHTTP(w, r)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	return web.URL
}

// A userTransport sends the name of a user with each request.
type userTransport string

func (u userTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if u != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+string(u))
	}
	return http.DefaultTransport.RoundTrip(r)
}

// dialHTTP connects a client of a user; "" is a client without authentication.
func dialHTTP(t *testing.T, url, user string) client {
	t.Helper()
	return dial(t, newHTTPTransport(url, user), nil)
}

func newHTTPTransport(url, user string) mcp.Transport {
	return &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: &http.Client{Transport: userTransport(user)}}
}

// requiresSession reports whether a tool requires the argument session.
func requiresSession(t *testing.T, c client, name string) bool {
	t.Helper()
	for tool, err := range c.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		if tool.Name == name {
			schema, _ := tool.InputSchema.(map[string]any)
			required, _ := schema["required"].([]any)
			for _, one := range required {
				if one == "session" {
					return true
				}
			}
		}
	}
	return false
}

func TestAdd_HTTP(t *testing.T) {
	t.Parallel()

	t.Run("with MCP sessions gives each its own sessions", func(t *testing.T) {
		t.Parallel()
		server, sup := newHost(t, newOptions())
		url := serveHTTP(t, server, nil)
		one, two := dialHTTP(t, url, ""), dialHTTP(t, url, "")
		if got := [3]int{one.runTurn(""), two.runTurn(""), one.runTurn("")}; got != [3]int{1, 1, 2} {
			t.Errorf("the turns of two clients are %v", got)
		}
		if requiresSession(t, one, "repl") {
			t.Error("calls must name their session")
		}
		_ = one.Close()
		waitSessions(t, sup, 1)
		wantPart(t, two.run("print still"), "still")
	})

	t.Run("ends the sessions of a client that has left", func(t *testing.T) {
		t.Parallel()
		server, sup := newHost(t, newOptions())
		c := dialHTTP(t, serveHTTP(t, server, &mcp.StreamableHTTPOptions{SessionTimeout: 200 * time.Millisecond}), "")
		c.run("print x") // and nothing more
		waitSessions(t, sup, 0)
	})

	for name, versions := range map[string][]string{"newest": nil, "2025-06-18": {"2025-06-18"}} {
		t.Run("without MCP sessions shares sessions by name, version "+name, func(t *testing.T) {
			t.Parallel()
			server := mcp.NewServer(&mcp.Implementation{Name: "host", Version: "1"}, &mcp.ServerOptions{SupportedProtocolVersions: versions})
			sup := newSupervisor(t)
			done := withTools(t, server, sup, newOptions())
			url := serveHTTP(t, server, &mcp.StreamableHTTPOptions{Stateless: true})
			one, two := dialHTTP(t, url, ""), dialHTTP(t, url, "")
			if !requiresSession(t, one, "repl") || !requiresSession(t, one, "repl_reset") {
				t.Error("the definitions do not say that calls must name their session")
			}
			result := one.call("repl", map[string]any{"input": "print x"})
			if wantPart(t, textOf(result), `session is required`, `pass "new"`); !result.IsError {
				t.Error("a call without a session is no error")
			}
			made := textOf(one.call("repl", map[string]any{"input": "print made", "session": "new"}))
			_, name, _ := strings.Cut(made, `session "`)
			name, _, ok := strings.Cut(name, `"`)
			if !ok {
				t.Fatalf("got %q, which has no name", made)
			}
			if turn := two.runTurn(name); turn != 2 {
				t.Errorf("the other client has turn %d", turn)
			}
			wantPart(t, textOf(two.call("repl_sessions", nil)), name, "[sessions end after 1h without a call]")
			done()
			waitSessions(t, sup, 0)
		})
	}

	t.Run("without MCP sessions keeps users apart", func(t *testing.T) {
		t.Parallel()
		server, sup := newHost(t, newOptions())
		url := serveHTTP(t, server, &mcp.StreamableHTTPOptions{Stateless: true})
		ada, eve, nobody := dialHTTP(t, url, "ada"), dialHTTP(t, url, "eve"), dialHTTP(t, url, "")
		ada.runTurn("work")
		for _, other := range []client{eve, nobody} {
			if got := textOf(other.call("repl_sessions", nil)); strings.Contains(got, "work") {
				t.Errorf("another user sees %s", got)
			}
			wantPart(t, textOf(other.call("repl_output", map[string]any{"session": "work"})), `unknown session "work"`)
			if turn := other.runTurn("work"); turn != 1 {
				t.Errorf("another user has turn %d", turn)
			}
		}
		if n := len(sup.Sessions()); n != 3 {
			t.Errorf("%d sessions", n)
		}
		if turn := dialHTTP(t, url, "ada").runTurn("work"); turn != 2 {
			t.Errorf("the same user has turn %d", turn)
		}
	})

	t.Run("trusts no key of a call that a client invents", func(t *testing.T) {
		t.Parallel()
		server, _ := newHost(t, newOptions())
		handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Header.Set("Turnstone-Call", "1")
			handler.ServeHTTP(w, r)
		}))
		t.Cleanup(web.Close)
		wantPart(t, dialHTTP(t, web.URL, "").run("print own"), "own")
	})

	for name, o := range map[string]*mcp.StreamableHTTPOptions{"with": nil, "without": {Stateless: true}} {
		t.Run(name+" MCP sessions asks the user for secrets", func(t *testing.T) {
			t.Parallel()
			server, _ := newHost(t, newOptions())
			asked := false
			c := dial(t, newHTTPTransport(serveHTTP(t, server, o), ""), answering("accept", "hunter2", &asked))
			got := textOf(c.call("repl", map[string]any{"input": "secret password: ", "session": "a"}))
			if wantPart(t, got, "7 bytes"); !asked {
				t.Error("the user was not asked")
			}
		})
	}

	t.Run("interrupts a cancelled call", func(t *testing.T) {
		t.Parallel()
		server, sup := newHost(t, newOptions())
		c := dialHTTP(t, serveHTTP(t, server, nil), "")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = c.CallTool(ctx, &mcp.CallToolParams{Name: "repl", Arguments: map[string]any{"input": "sleep"}})
		}()
		waitRunning(t, sup)
		cancel()
		<-ended
		var got string
		for !strings.Contains(got, "the previous call was cancelled") {
			got = textOf(c.call("repl_output", nil))
		}
	})
}
