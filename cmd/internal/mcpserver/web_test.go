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

	"github.com/turnstone-repl/turnstone/cmd/internal/mcpserver"
	"github.com/turnstone-repl/turnstone/cmd/internal/mcpwire"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/workers"
)

const webToken = "the-token-of-the-tests"

// A web is a server over HTTP.
type web struct {
	t      *testing.T
	sup    *supervisor.Supervisor
	url    string
	stop   context.CancelFunc
	ended  chan struct{} // closed when RunHTTP has returned
	runErr error         // of RunHTTP, once ended
}

// serveWeb starts a server that ends sessions after this idle time; 0 is the default.
func serveWeb(t *testing.T, s *setup, idle time.Duration) *web {
	t.Helper()
	if s == nil {
		s = &setup{}
	}
	if s.specs == nil {
		s.specs = map[string]func(string) workers.Spec{"fake": fake(nil)}
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
	w := &web{t: t, sup: sup, url: "http://" + listener.Addr().String() + mcpwire.Path, stop: stop, ended: make(chan struct{})}
	go func() {
		w.runErr = mcpserver.RunHTTP(ctx, &mcpserver.Options{Supervisor: sup, Specs: s.specs, Default: s.main},
			&mcpwire.HTTPOptions{Listener: listener, Token: webToken, Idle: idle})
		close(w.ended)
	}()
	t.Cleanup(func() {
		w.end()
		if left := sup.Sessions(); len(left) > 0 {
			t.Errorf("%d sessions are open after RunHTTP", len(left))
		}
		if err := sup.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// end ends the server and waits for that.
func (w *web) end() {
	w.t.Helper()
	w.stop()
	select {
	case <-w.ended:
	case <-time.After(deadline):
		w.t.Error("RunHTTP does not return")
	}
}

// A caller speaks raw HTTP with a server.
type caller struct {
	*web
	version string // of the protocol
	session string // Mcp-Session-Id; "" in the era without
	http    *http.Client
	lastID  int
}

func (w *web) caller(version string) *caller {
	c := &caller{web: w, version: version, http: &http.Client{Transport: &http.Transport{}}}
	w.t.Cleanup(c.http.CloseIdleConnections)
	return c
}

// modern returns a caller of the era in which each request stands for itself.
func (w *web) modern() *caller { return w.caller("2026-07-28") }

// greet returns a caller of the eras with MCP sessions, and has one.
func (w *web) greet(version string) *caller {
	w.t.Helper()
	c := w.caller(version)
	a := c.send("initialize", map[string]any{
		"protocolVersion": version, "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "test", "version": "1"},
	})
	if got := a.answer(); got.Error != nil {
		w.t.Fatal(got.Error.Message)
	}
	if c.session = a.header.Get("Mcp-Session-Id"); c.session == "" {
		w.t.Fatal("there is no Mcp-Session-Id")
	}
	c.notify("notifications/initialized", nil)
	return c
}

// webEras runs a test with a caller of each era.
func webEras(t *testing.T, test func(t *testing.T, c *caller)) {
	for _, version := range []string{"2025-03-26", "2025-06-18", "2025-11-25"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			test(t, serveWeb(t, nil, 0).greet(version))
		})
	}
	t.Run("2026-07-28", func(t *testing.T) {
		t.Parallel()
		test(t, serveWeb(t, nil, 0).modern())
	})
}

// request has everything that one needs, or what header says instead.
func (c *caller) request(ctx context.Context, method string, body []byte, header map[string]string) *http.Request {
	r, err := http.NewRequestWithContext(ctx, method, c.url, bytes.NewReader(body))
	if err != nil {
		panic(err) // the URL is ours
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

// do sends a request and returns the response when all of it is there.
func (c *caller) do(method, body string, header map[string]string) (status int, text string, got http.Header) {
	c.t.Helper()
	response, err := c.http.Do(c.request(c.t.Context(), method, []byte(body), header))
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

func (c *caller) notify(method string, params map[string]any) {
	c.t.Helper()
	body, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "method": method, "params": params})
	if status, text, _ := c.do("POST", string(body), nil); status != http.StatusAccepted {
		c.t.Fatalf("%s: got %d %s", method, status, text)
	}
}

// An asked is a request whose response is coming in.
type asked struct {
	c      *caller
	id     string
	hangUp context.CancelFunc // closes the stream

	mu      sync.Mutex
	status  int
	header  http.Header
	events  []answer      // all that came
	lastID  string        // of the last event
	alive   int           // comments that say that the stream is
	names   []string      // of the events that have one
	err     error         // of the connection
	over    bool          // the response is
	changed chan struct{} // closed at the next change
}

// send sends a request.
func (c *caller) send(method string, params map[string]any) *asked {
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
	return c.open("POST", body, header, fmt.Sprint(c.lastID))
}

// open sends a request whose response is a stream, and reads that as it comes.
func (c *caller) open(method string, body []byte, header map[string]string, id string) *asked {
	ctx, hangUp := context.WithCancel(context.Background())
	a := &asked{c: c, id: id, hangUp: hangUp, changed: make(chan struct{})}
	c.t.Cleanup(hangUp)
	go func() {
		response, err := c.http.Do(c.request(ctx, method, body, header))
		if err == nil {
			a.change(func() { a.status, a.header = response.StatusCode, response.Header })
			err = a.read(response.Body)
			_ = response.Body.Close()
		}
		a.change(func() { a.over, a.err = true, err })
	}()
	return a
}

func (a *asked) change(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f()
	close(a.changed)
	a.changed = make(chan struct{})
}

// read reads events. If the body is no event stream, it returns the body as one event.
func (a *asked) read(body io.Reader) error {
	lines := bufio.NewReader(body)
	for {
		line, err := lines.ReadString('\n')
		line = strings.TrimSpace(line)
		if id, ok := strings.CutPrefix(line, "id: "); ok {
			a.change(func() { a.lastID = id })
		}
		if strings.HasPrefix(line, ": keep-alive") {
			a.change(func() { a.alive++ })
		}
		if name, ok := strings.CutPrefix(line, "event: "); ok {
			a.change(func() { a.names = append(a.names, name) })
		}
		line = strings.TrimPrefix(line, "data: ")
		if strings.HasPrefix(line, "{") {
			m := answer{Line: line, At: time.Now()}
			if err := json.Unmarshal([]byte(line), &m); err != nil {
				a.c.t.Errorf("the server wrote what is not JSON: %q", line)
			}
			a.change(func() { a.events = append(a.events, m) })
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// until waits for something to be so.
func (a *asked) until(what string, ok func() bool) {
	a.c.t.Helper()
	timeout := time.After(deadline)
	for {
		a.mu.Lock()
		yes, changed := ok(), a.changed
		a.mu.Unlock()
		if yes {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			a.c.t.Fatalf("%s: %s did not come to be", a.id, what)
		}
	}
}

// all returns everything that came, once the response is over.
func (a *asked) all() []answer {
	a.c.t.Helper()
	a.until("the end of the response", func() bool { return a.over })
	return a.events
}

// answer returns the answer, once the response is over.
func (a *asked) answer() answer {
	a.c.t.Helper()
	all := a.all()
	if a.err != nil {
		a.c.t.Errorf("%s: the response was cut: %v", a.id, a.err)
	}
	for _, m := range all {
		if string(m.ID) == a.id && m.Method == "" {
			return m
		}
	}
	a.c.t.Fatalf("%s was not answered: status %d, %v", a.id, a.status, a.err)
	return answer{}
}

func (a *asked) result() toolResult {
	a.c.t.Helper()
	m := a.answer()
	if m.Error != nil {
		a.c.t.Fatalf("got error %d: %s", m.Error.Code, m.Error.Message)
	}
	var r toolResult
	if err := json.Unmarshal(m.Result, &r); err != nil {
		a.c.t.Fatal(err)
	}
	return r
}

// startCall begins a call of a tool. The session of a test is "main".
func (c *caller) startCall(tool string, args, meta map[string]any) *asked {
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

func (c *caller) call(tool string, args map[string]any) toolResult {
	c.t.Helper()
	return c.startCall(tool, args, nil).result()
}

// repl returns the text of one call of repl.
func (c *caller) repl(input string) string {
	c.t.Helper()
	return c.call("repl", map[string]any{"input": input}).text()
}

// untilState waits until a session is in a state that repl_sessions shows.
func (c *caller) untilState(state string) {
	c.t.Helper()
	eventually(c.t, "a session that is "+state, func() bool {
		return strings.Contains(c.call("repl_sessions", nil).text(), " "+state)
	})
}

// untilBegun waits until the main session has printed "begun". It moves no cursor.
func (c *caller) untilBegun() {
	c.t.Helper()
	eventually(c.t, "the first output", func() bool {
		return strings.Contains(c.call("repl_output", map[string]any{"grep": "^begun$"}).text(), ": begun")
	})
	c.untilState("running")
}

// comeBack asks for the rest of what a has not got. The server may not know yet
// that its connection is lost, and then refuses, as the SDK does.
func (c *caller) comeBack(a *asked) *asked {
	c.t.Helper()
	for {
		back := c.open("GET", nil, map[string]string{"Last-Event-ID": a.lastID}, a.id)
		back.until("a response", func() bool { return back.status != 0 || back.over })
		if back.status != http.StatusConflict {
			return back
		}
	}
}

// eventually waits for something to be so.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	timeout := time.After(deadline)
	for !ok() {
		select {
		case <-time.After(time.Millisecond):
		case <-timeout:
			t.Fatalf("%s did not come to be", what)
		}
	}
}

// cancel gives a call up, as its era does.
func (c *caller) cancel(a *asked) {
	c.t.Helper()
	if c.session == "" {
		a.hangUp()
		return
	}
	c.notify("notifications/cancelled", map[string]any{"requestId": json.RawMessage(a.id)})
}
