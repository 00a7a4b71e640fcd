//go:build linux

package tools

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

// A webServer is a server at an address of the loopback, which can go away and come back there.
type webServer struct {
	t       *testing.T
	address string
	handler http.Handler

	mu      sync.Mutex
	running *http.Server
	headers []string // Authorization of each request

	forgotten forgotten // the answer to a request of an unknown session; the zero value for the SDK's
}

type forgotten struct {
	status int
	body   string
}

// atAddress returns a server of these tools, reached in the older way if sse.
func atAddress(t *testing.T, sse, older bool) *webServer {
	t.Helper()
	w := &webServer{t: t}
	w.renew(sse, older)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.address = listener.Addr().String()
	w.serve(listener)
	t.Cleanup(w.stop)
	return w
}

// renew makes a server that knows nothing of the sessions before.
func (w *webServer) renew(sse, older bool) {
	server := politeServer(older)
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
	if w.forgotten.status != 0 {
		out = &forgetful{out, w.forgotten, false}
	}
	handler.ServeHTTP(out, r)
}

// forgetful is a response that is another one if its status is 404.
type forgetful struct {
	http.ResponseWriter
	answer forgotten
	wrote  bool
}

func (f *forgetful) WriteHeader(status int) {
	if f.wrote = status == http.StatusNotFound; f.wrote {
		f.Header().Set("Content-Type", "application/json")
		status = f.answer.status
	}
	f.ResponseWriter.WriteHeader(status)
	if f.wrote {
		_, _ = f.ResponseWriter.Write([]byte(f.answer.body))
	}
}

func (f *forgetful) Write(text []byte) (int, error) {
	if f.wrote {
		return len(text), nil
	}
	return f.ResponseWriter.Write(text)
}

func (f *forgetful) Unwrap() http.ResponseWriter { return f.ResponseWriter }

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

// back serves again at the same address.
func (w *webServer) back() {
	w.t.Helper()
	listener, err := net.Listen("tcp", w.address)
	if err != nil {
		w.t.Fatal(err)
	}
	w.serve(listener)
}

func (w *webServer) config(name, token string, sse bool) Config {
	return Config{Name: name, Group: name, URL: "http://" + w.address + "/mcp", SSE: sse, Headers: map[string]string{"Authorization": token}}
}

func TestHTTP_AServerAtAnAddressIsLikeAnyOther(t *testing.T) {
	t.Parallel()
	for name, way := range map[string]struct{ sse, older bool }{"streamable": {false, false}, "streamable_older": {false, true}, "sse": {true, true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := atAddress(t, way.sse, way.older)
			s := New(Options{Allow: []string{"*"}, Servers: []Config{w.config("web", "Bearer t0", way.sse), w.config("barred", "Bearer x", way.sse)}})
			t.Cleanup(s.Close)
			r := openWith(t, s)
			says(t, r, "from turnstone.tools import web; print([web.hello() for _ in range(3)])", `['"hello"', '"hello"', '"hello"']`)
			says(t, r, "from turnstone.tools import barred", "ConnectionError: the server barred did not start: ", "Unauthorized")

			turn := submit(t, r, "print(web.ask())")
			answers(t, r, asks(t, r, turn), session.FormAnswer{Action: session.FormAccept, Content: map[string]any{"name": "Ada"}})
			if res := r.Ended(t, turn); !strings.Contains(res.Text(), `"name":"Ada"`) {
				t.Errorf("the form: %s", res.Text())
			}

			s.servers[0].mu.Lock()
			before := s.servers[0].calls
			s.servers[0].mu.Unlock()
			turn = submit(t, r, "web.hang()")
			for calls := before; calls == before; { // until it waits
				s.servers[0].mu.Lock()
				calls = s.servers[0].calls
				s.servers[0].mu.Unlock()
			}
			w.stop()
			if res := r.Ended(t, turn); !strings.Contains(res.Text(), "Error") || !strings.Contains(res.Text(), "web") {
				t.Errorf("the server went away: %s", res.Text())
			}
			says(t, r, "web.hello()", "ConnectionError", "web")
			w.renew(way.sse, way.older) // the sessions of before are unknown now
			w.back()
			says(t, r, "import time, turnstone\nfor _ in range(100):\n    try: print(web.hello()); break\n    except ConnectionError as e: time.sleep(.1)\nelse: print(e)", `"hello"`)

			w.renew(way.sse, way.older) // it has lost its sessions, and its connections stand
			says(t, r, "for _ in range(100):\n    try: print('again', web.hello()); break\n    except ConnectionError as e: time.sleep(.1)\nelse: print(e)", `again "hello"`)
			for _, h := range w.headers {
				if h != "Bearer t0" && h != "Bearer x" {
					t.Errorf("a request came without its header: %q", h)
				}
			}
		})
	}
}

// A server that was started anew, or has ended an idle session, refuses the next call before it begins,
// most of them with an error for it.
func TestHTTP_ASessionThatTheServerForgot(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]forgotten{
		"of the Python SDK":           {404, `{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Session not found"}}`},
		"of the TypeScript SDK":       {404, `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}`},
		"of the TypeScript reference": {400, `{"jsonrpc":"2.0","id":7,"error":{"code":-32000,"message":"Bad Request: No valid session ID provided"}}`},
		"of others":                   {404, `gone`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := atAddress(t, false, true)
			w.forgotten = answer
			s := New(Options{Allow: []string{"*"}, Servers: []Config{w.config("web", "Bearer t0", false)}})
			t.Cleanup(s.Close)
			r := openWith(t, s)
			says(t, r, "from turnstone.tools import web; web.hello()", `"hello"`)
			for range 2 {
				w.renew(false, true)
				says(t, r, "print([web.hello() for _ in range(2)])", `['"hello"', '"hello"']`)
			}
		})
	}
}

// Headers are for the configured address, also where that leads elsewhere.
func TestHTTP_ARedirectElsewhereGetsNoHeaders(t *testing.T) {
	t.Parallel()
	other := atAddress(t, false, true)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	lure := &http.Server{Handler: http.RedirectHandler("http://"+other.address+"/mcp", http.StatusTemporaryRedirect)}
	go func() { _ = lure.Serve(listener) }()
	t.Cleanup(func() { _ = lure.Close() })
	c := other.config("web", "Bearer t0", false)
	c.URL = "http://" + listener.Addr().String() + "/mcp"
	s := New(Options{Servers: []Config{c}})
	t.Cleanup(s.Close)
	says(t, openWith(t, s), "from turnstone.tools import web", "ConnectionError: the server web did not start: ")
	other.mu.Lock()
	defer other.mu.Unlock()
	for _, h := range other.headers {
		if h != "" {
			t.Errorf("it was sent on: %q", h)
		}
	}
}
