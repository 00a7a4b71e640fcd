//go:build linux

package mcpclient

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/turnstone-repl/turnstone/session"
)

// A webServer is an MCP server on the loopback interface that can stop and restart at the same
// address.
type webServer struct {
	t       *testing.T
	address string
	handler http.Handler

	mu      sync.Mutex
	running *http.Server
	headers []string // Authorization of each request

	sessionLoss sessionLossAnswer // the answer to a request with an unknown session; zero for the SDK's answer
}

type sessionLossAnswer struct {
	status int
	body   string
}

// newWebServer returns a server with the polite tools. It uses the older SSE transport if sse.
func newWebServer(t *testing.T, sse, older bool) *webServer {
	t.Helper()
	w := &webServer{t: t}
	w.replaceServer(sse, older)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.address = listener.Addr().String()
	w.serve(listener)
	t.Cleanup(w.stop)
	return w
}

// replaceServer replaces the server with one that knows none of the earlier sessions.
func (w *webServer) replaceServer(sse, older bool) {
	server := newPoliteServer(older)
	server.AddTool(&mcp.Tool{Name: "hang", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	get := func(*http.Request) *mcp.Server { return server }
	w.mu.Lock()
	defer w.mu.Unlock()
	if sse {
		w.handler = mcp.NewSSEHandler(get, nil)
	} else {
		w.handler = mcp.NewStreamableHTTPHandler(get, nil)
	}
}

func (w *webServer) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	w.headers = append(w.headers, r.Header.Get("Authorization"))
	handler := w.handler
	w.mu.Unlock()
	if r.Header.Get("Authorization") != "Bearer t0" {
		http.Error(out, "who are you?", http.StatusUnauthorized)
		return
	}
	if w.sessionLoss.status != 0 {
		out = &sessionLossWriter{out, w.sessionLoss, false}
	}
	handler.ServeHTTP(out, r)
}

// sessionLossWriter is a response writer that replaces a 404 with another answer.
type sessionLossWriter struct {
	http.ResponseWriter
	answer sessionLossAnswer
	wrote  bool
}

func (w *sessionLossWriter) WriteHeader(status int) {
	if w.wrote = status == http.StatusNotFound; w.wrote {
		w.Header().Set("Content-Type", "application/json")
		status = w.answer.status
	}
	w.ResponseWriter.WriteHeader(status)
	if w.wrote {
		_, _ = w.ResponseWriter.Write([]byte(w.answer.body))
	}
}

func (w *sessionLossWriter) Write(text []byte) (int, error) {
	if w.wrote {
		return len(text), nil
	}
	return w.ResponseWriter.Write(text)
}

func (w *sessionLossWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *webServer) serve(listener net.Listener) {
	one := &http.Server{Handler: w}
	w.mu.Lock()
	w.running = one
	w.mu.Unlock()
	go func() { _ = one.Serve(listener) }()
}

func (w *webServer) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	_ = w.running.Close()
}

// restart listens again at the same address.
func (w *webServer) restart() {
	w.t.Helper()
	listener, err := net.Listen("tcp", w.address)
	if err != nil {
		w.t.Fatal(err)
	}
	w.serve(listener)
}

func (w *webServer) serverConfig(name, token string, sse bool) ServerConfig {
	return ServerConfig{Name: name, Group: name, URL: "http://" + w.address + "/mcp", SSE: sse, Headers: map[string]string{"Authorization": token}}
}

func TestHTTPServer(t *testing.T) {
	t.Parallel()

	t.Run("works like a local one", func(t *testing.T) {
		t.Parallel()
		for name, way := range map[string]struct{ sse, older bool }{"streamable": {false, false}, "streamable_older": {false, true}, "sse": {true, true}} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w := newWebServer(t, way.sse, way.older)
				s := NewServerSet(Options{Allow: []string{"*"}, Servers: []ServerConfig{w.serverConfig("web", "Bearer t0", way.sse), w.serverConfig("barred", "Bearer x", way.sse)}})
				t.Cleanup(s.Close)
				r := newSessionWith(t, s)
				wantOutput(t, r, "from turnstone.tools import web; print([web.hello() for _ in range(3)])", `['"hello"', '"hello"', '"hello"']`)
				wantOutput(t, r, "from turnstone.tools import barred", "ConnectionError: the server barred did not start: ", "Unauthorized")

				turn := submitCode(t, r, "print(web.ask())")
				sendFormAnswer(t, r, waitForm(t, r, turn), session.FormAnswer{Action: session.FormAccept, Content: map[string]any{"name": "Ada"}})
				if res := r.WaitTurnEnd(t, turn); !strings.Contains(res.OutputText(), `"name":"Ada"`) {
					t.Errorf("the form: %s", res.OutputText())
				}

				s.servers[0].mu.Lock()
				before := s.servers[0].callCount
				s.servers[0].mu.Unlock()
				turn = submitCode(t, r, "web.hang()")
				for calls := before; calls == before; { // waits until the call is open
					s.servers[0].mu.Lock()
					calls = s.servers[0].callCount
					s.servers[0].mu.Unlock()
				}
				w.stop()
				if res := r.WaitTurnEnd(t, turn); !strings.Contains(res.OutputText(), "Error") || !strings.Contains(res.OutputText(), "web") {
					t.Errorf("after the server stopped: %s", res.OutputText())
				}
				wantOutput(t, r, "web.hello()", "ConnectionError", "web")
				w.replaceServer(way.sse, way.older) // earlier sessions are unknown now
				w.restart()
				wantOutput(t, r, "import time, turnstone\nfor _ in range(100):\n    try: print(web.hello()); break\n    except ConnectionError as e: time.sleep(.1)\nelse: print(e)", `"hello"`)

				w.replaceServer(way.sse, way.older) // sessions are lost, connections remain
				wantOutput(t, r, "for _ in range(100):\n    try: print('again', web.hello()); break\n    except ConnectionError as e: time.sleep(.1)\nelse: print(e)", `again "hello"`)
				for _, h := range w.headers {
					if h != "Bearer t0" && h != "Bearer x" {
						t.Errorf("a request lacks its header: %q", h)
					}
				}
			})
		}
	})

	// A server that was restarted, or has ended an idle session, refuses the next call before
	// executing it, usually with an error for that call.
	t.Run("is called again after it has lost the session", func(t *testing.T) {
		t.Parallel()
		for name, answer := range map[string]sessionLossAnswer{
			"Python SDK":                  {404, `{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Session not found"}}`},
			"TypeScript SDK":              {404, `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}`},
			"TypeScript reference server": {400, `{"jsonrpc":"2.0","id":7,"error":{"code":-32000,"message":"Bad Request: No valid session ID provided"}}`},
			"other server":                {404, `gone`},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w := newWebServer(t, false, true)
				w.sessionLoss = answer
				s := NewServerSet(Options{Allow: []string{"*"}, Servers: []ServerConfig{w.serverConfig("web", "Bearer t0", false)}})
				t.Cleanup(s.Close)
				r := newSessionWith(t, s)
				wantOutput(t, r, "from turnstone.tools import web; web.hello()", `"hello"`)
				for range 2 {
					w.replaceServer(false, true)
					wantOutput(t, r, "print([web.hello() for _ in range(2)])", `['"hello"', '"hello"']`)
				}
			})
		}
	})

	// Headers are only for the configured address, even if it redirects elsewhere.
	t.Run("a redirect elsewhere gets no headers", func(t *testing.T) {
		t.Parallel()
		other := newWebServer(t, false, true)
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		lure := &http.Server{Handler: http.RedirectHandler("http://"+other.address+"/mcp", http.StatusTemporaryRedirect)}
		go func() { _ = lure.Serve(listener) }()
		t.Cleanup(func() { _ = lure.Close() })
		c := other.serverConfig("web", "Bearer t0", false)
		c.URL = "http://" + listener.Addr().String() + "/mcp"
		s := NewServerSet(Options{Servers: []ServerConfig{c}})
		t.Cleanup(s.Close)
		wantOutput(t, newSessionWith(t, s), "from turnstone.tools import web", "ConnectionError: the server web did not start: ")
		other.mu.Lock()
		defer other.mu.Unlock()
		for _, h := range other.headers {
			if h != "" {
				t.Errorf("the header was forwarded: %q", h)
			}
		}
	})
}
