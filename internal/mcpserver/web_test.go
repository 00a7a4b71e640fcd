package mcpserver_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/internal/mcpserver"
	"github.com/turnstone-repl/turnstone/internal/mcptransport"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/workers"
)

const webToken = "the-token-of-the-tests"

// A webServer is a server over HTTP.
type webServer struct {
	t      *testing.T
	sup    *supervisor.Supervisor
	url    string
	stop   context.CancelFunc
	ended  chan struct{} // closed when RunHTTP has returned
	runErr error         // of RunHTTP, once ended
}

// newWebServer starts a server with an idle timeout; 0 is the default.
func newWebServer(t *testing.T, s *setup, idle time.Duration) *webServer {
	t.Helper()
	if s == nil {
		s = &setup{}
	}
	if s.specs == nil {
		s.specs = map[string]func(string) workers.Spec{"fake": fakeSpec(nil)}
	}
	s.sup.Dir = t.TempDir()
	sup, err := supervisor.New(&s.sup)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	w := &webServer{t: t, sup: sup, url: "http://" + listener.Addr().String() + mcptransport.Path, stop: stop, ended: make(chan struct{})}
	go func() {
		w.runErr = mcpserver.RunHTTP(ctx, &mcpserver.Options{Supervisor: sup, Specs: s.specs, Default: s.main, HasBrowser: s.hasBrowser},
			&mcptransport.HTTPOptions{Listener: listener, Token: webToken, IdleTimeout: idle})
		close(w.ended)
	}()
	t.Cleanup(func() {
		w.stopAndWait()
		if left := sup.Sessions(); len(left) > 0 {
			t.Errorf("%d sessions are open after RunHTTP", len(left))
		}
		if err := sup.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// stopAndWait stops the server and waits for its end.
func (w *webServer) stopAndWait() {
	w.t.Helper()
	w.stop()
	select {
	case <-w.ended:
	case <-time.After(deadline):
		w.t.Error("RunHTTP does not return")
	}
}

// A webClient exchanges raw HTTP with a server.
type webClient struct {
	*webServer
	version string // of the protocol
	session string // Mcp-Session-Id; "" in the stateless era
	http    *http.Client
	lastID  int
}

func (w *webServer) newWebClient(version string) *webClient {
	c := &webClient{webServer: w, version: version, http: &http.Client{Transport: &http.Transport{}}}
	w.t.Cleanup(c.http.CloseIdleConnections)
	return c
}

// newStatelessClient returns a client of the stateless era.
func (w *webServer) newStatelessClient() *webClient { return w.newWebClient("2026-07-28") }

// newSessionClient returns a client with an MCP session.
func (w *webServer) newSessionClient(version string) *webClient {
	w.t.Helper()
	c := w.newWebClient(version)
	a := c.send("initialize", map[string]any{
		"protocolVersion": version, "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "test", "version": "1"},
	})
	if got := a.waitAnswer(); got.Error != nil {
		w.t.Fatal(got.Error.Message)
	}
	if c.session = a.header.Get("Mcp-Session-Id"); c.session == "" {
		w.t.Fatal("no Mcp-Session-Id")
	}
	c.notify("notifications/initialized", nil)
	return c
}

// runEachHTTPVersion runs a test with a client of each protocol version.
func runEachHTTPVersion(t *testing.T, test func(t *testing.T, c *webClient)) {
	for _, version := range []string{"2025-03-26", "2025-06-18", "2025-11-25"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			test(t, newWebServer(t, nil, 0).newSessionClient(version))
		})
	}
	t.Run("2026-07-28", func(t *testing.T) {
		t.Parallel()
		test(t, newWebServer(t, nil, 0).newStatelessClient())
	})
}

// newRequest returns a complete request, in which header replaces fields.
func (c *webClient) newRequest(ctx context.Context, method string, body []byte, header map[string]string) *http.Request {
	r, err := http.NewRequestWithContext(ctx, method, c.url, bytes.NewReader(body))
	if err != nil {
		panic(err) // the URL is constant
	}
	r.Header.Set("Authorization", "Bearer "+webToken)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("MCP-Protocol-Version", c.version)
	if c.session != "" {
		r.Header.Set("Mcp-Session-Id", c.session)
	}
	for name, value := range header {
		if name == "Host" {
			r.Host = value
		} else {
			r.Header.Set(name, value)
		}
	}
	return r
}

// do sends a request and returns the complete response.
func (c *webClient) do(method, body string, header map[string]string) (status int, text string, got http.Header) {
	c.t.Helper()
	response, err := c.http.Do(c.newRequest(c.t.Context(), method, []byte(body), header))
	if err != nil {
		c.t.Fatal(err)
	}
	defer response.Body.Close()
	all, err := io.ReadAll(response.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return response.StatusCode, string(all), response.Header
}

func (c *webClient) notify(method string, params map[string]any) {
	c.t.Helper()
	body, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "method": method, "params": params})
	if status, text, _ := c.do("POST", string(body), nil); status != http.StatusAccepted {
		c.t.Fatalf("%s: got %d %s", method, status, text)
	}
}

// A webRequest is a request with its response, as far as it has arrived.
type webRequest struct {
	c      *webClient
	id     string
	hangUp context.CancelFunc // closes the stream

	mu         sync.Mutex
	status     int
	header     http.Header
	events     []answer      // everything that came
	lastID     string        // of the last event
	keepAlives int           // keep-alive comments
	names      []string      // of events with a name
	err        error         // of the connection
	over       bool          // the response has ended
	changed    chan struct{} // closed at the next change
}

// send sends a request.
func (c *webClient) send(method string, params map[string]any) *webRequest {
	c.t.Helper()
	if params == nil {
		params = map[string]any{}
	}
	c.lastID++
	header := map[string]string{}
	if c.version >= "2026-07-28" {
		meta, _ := params["_meta"].(map[string]any)
		if meta == nil {
			meta = map[string]any{}
		}
		meta["io.modelcontextprotocol/protocolVersion"] = c.version
		meta["io.modelcontextprotocol/clientCapabilities"] = map[string]any{}
		meta["io.modelcontextprotocol/clientInfo"] = map[string]any{"name": "test", "version": "1"}
		params["_meta"] = meta
		header["Mcp-Method"] = method
		if name, ok := params["name"].(string); ok {
			header["Mcp-Name"] = name
		}
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": c.lastID, "method": method, "params": params})
	if err != nil {
		c.t.Fatal(err)
	}
	return c.openStream("POST", body, header, fmt.Sprint(c.lastID))
}

// openStream sends a request and reads its response as a stream.
func (c *webClient) openStream(method string, body []byte, header map[string]string, id string) *webRequest {
	ctx, hangUp := context.WithCancel(context.Background())
	a := &webRequest{c: c, id: id, hangUp: hangUp, changed: make(chan struct{})}
	c.t.Cleanup(hangUp)
	go func() {
		response, err := c.http.Do(c.newRequest(ctx, method, body, header))
		if err == nil {
			a.update(func() { a.status, a.header = response.StatusCode, response.Header })
			err = a.read(response.Body)
			_ = response.Body.Close()
		}
		a.update(func() { a.over, a.err = true, err })
	}()
	return a
}

func (w *webRequest) update(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
	close(w.changed)
	w.changed = make(chan struct{})
}

// read reads events. If the body is not an event stream, it counts as one event.
func (w *webRequest) read(body io.Reader) error {
	lines := bufio.NewReader(body)
	for {
		line, err := lines.ReadString('\n')
		line = strings.TrimSpace(line)
		if id, ok := strings.CutPrefix(line, "id: "); ok {
			w.update(func() { w.lastID = id })
		}
		if strings.HasPrefix(line, ": keep-alive") {
			w.update(func() { w.keepAlives++ })
		}
		if name, ok := strings.CutPrefix(line, "event: "); ok {
			w.update(func() { w.names = append(w.names, name) })
		}
		line = strings.TrimPrefix(line, "data: ")
		if strings.HasPrefix(line, "{") {
			m := answer{Line: line, At: time.Now()}
			if err := json.Unmarshal([]byte(line), &m); err != nil {
				w.c.t.Errorf("the server wrote invalid JSON: %q", line)
			}
			w.update(func() { w.events = append(w.events, m) })
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// waitFor waits until ok returns true.
func (w *webRequest) waitFor(what string, ok func() bool) {
	w.c.t.Helper()
	timeout := time.After(deadline)
	for {
		w.mu.Lock()
		yes, changed := ok(), w.changed
		w.mu.Unlock()
		if yes {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			w.c.t.Fatalf("%s: %s did not happen", w.id, what)
		}
	}
}

// waitEvents returns everything that came, once the response is over.
func (w *webRequest) waitEvents() []answer {
	w.c.t.Helper()
	w.waitFor("the end of the response", func() bool { return w.over })
	return w.events
}

// waitAnswer returns the answer, once the response is over.
func (w *webRequest) waitAnswer() answer {
	w.c.t.Helper()
	all := w.waitEvents()
	if w.err != nil {
		w.c.t.Errorf("%s: the response was cut: %v", w.id, w.err)
	}
	for _, m := range all {
		if string(m.ID) == w.id && m.Method == "" {
			return m
		}
	}
	w.c.t.Fatalf("%s was not answered: status %d, %v", w.id, w.status, w.err)
	return answer{}
}

func (w *webRequest) waitResult() toolResult {
	w.c.t.Helper()
	m := w.waitAnswer()
	if m.Error != nil {
		w.c.t.Fatalf("got error %d: %s", m.Error.Code, m.Error.Message)
	}
	var r toolResult
	if err := json.Unmarshal(m.Result, &r); err != nil {
		w.c.t.Fatal(err)
	}
	return r
}

// startCall starts a call of a tool. The session of a test is "main".
func (c *webClient) startCall(tool string, args, meta map[string]any) *webRequest {
	c.t.Helper()
	if args == nil {
		args = map[string]any{}
	}
	if c.session == "" && args["session"] == nil && tool != "repl_sessions" {
		args["session"] = "main"
	}
	params := map[string]any{"name": tool, "arguments": args}
	if meta != nil {
		params["_meta"] = meta
	}
	return c.send("tools/call", params)
}

func (c *webClient) call(tool string, args map[string]any) toolResult {
	c.t.Helper()
	return c.startCall(tool, args, nil).waitResult()
}

// runRepl calls repl and returns the text of the reply.
func (c *webClient) runRepl(input string) string {
	c.t.Helper()
	return c.call("repl", map[string]any{"input": input}).text()
}

// waitState waits until repl_sessions shows a session in a state.
func (c *webClient) waitState(state string) {
	c.t.Helper()
	waitUntil(c.t, "a session that is "+state, func() bool {
		return strings.Contains(c.call("repl_sessions", nil).text(), " "+state)
	})
}

// waitFirstOutput waits until the main session has printed "begun". It does not move the cursor.
func (c *webClient) waitFirstOutput() {
	c.t.Helper()
	waitUntil(c.t, "the first output", func() bool {
		return strings.Contains(c.call("repl_output", map[string]any{"grep": "^begun$"}).text(), ": begun")
	})
	c.waitState("running")
}

// reconnect requests the rest of a response. While the server has not noticed the lost
// connection, it refuses, as the SDK does; then reconnect tries again.
func (c *webClient) reconnect(a *webRequest) *webRequest {
	c.t.Helper()
	for {
		back := c.openStream("GET", nil, map[string]string{"Last-Event-ID": a.lastID}, a.id)
		back.waitFor("a response", func() bool { return back.status != 0 || back.over })
		if back.status != http.StatusConflict {
			return back
		}
	}
}

// waitUntil waits until ok returns true.
func waitUntil(t *testing.T, what string, ok func() bool) {
	t.Helper()
	timeout := time.After(deadline)
	for !ok() {
		select {
		case <-time.After(time.Millisecond):
		case <-timeout:
			t.Fatalf("%s did not happen", what)
		}
	}
}

// cancel cancels a call, in the way of its protocol era.
func (c *webClient) cancel(a *webRequest) {
	c.t.Helper()
	if c.session == "" {
		a.hangUp()
		return
	}
	c.notify("notifications/cancelled", map[string]any{"requestId": json.RawMessage(a.id)})
}
