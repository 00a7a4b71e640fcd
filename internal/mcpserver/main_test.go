package mcpserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/internal/mcpserver"
	"github.com/turnstone-repl/turnstone/internal/mcpserver/backend"
	"github.com/turnstone-repl/turnstone/internal/testkit/fakeworker"
	"github.com/turnstone-repl/turnstone/internal/testkit/sandboxcheck"
	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
	"github.com/turnstone-repl/turnstone/internal/testkit/testmain"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/workers"
	"github.com/turnstone-repl/turnstone/workers/python"
)

// deadline is the generous bound of every wait for a real process.
const deadline = 60 * time.Second

// serveRole makes the test binary an MCP server on its standard streams, for the language in the
// variable.
const serveRole = "MCPSERVER_TEST_SERVE"

func TestMain(m *testing.M) {
	testmain.Run(m, testmain.Options{
		Monitor:  supervisor.MonitorMain,
		Programs: []testmain.Program{fakeworker.Program, {Variable: serveRole, Main: runServer}},
		RunAll:   sandboxcheck.RunTests,
	})
}

func runServer(lang string) (status int) {
	if err := serveStdio(lang); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func serveStdio(lang string) error {
	if lang == noopRole {
		return serveNoop()
	}
	dir, err := os.MkdirTemp("", "mcpserver-test-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	sup, err := supervisor.New(&supervisor.Options{Dir: dir})
	if err != nil {
		return err
	}
	defer sup.Close()
	specs := map[string]func(string) workers.Spec{
		"python": func(string) workers.Spec { return confinedPython("") },
		"fake":   func(string) workers.Spec { return fakeworker.NewSpec(testBinary(), nil) },
	}
	return mcpserver.Run(context.Background(), &mcpserver.Options{
		Supervisor: sup,
		Specs:      map[string]func(string) workers.Spec{lang: specs[lang]},
		In:         os.Stdin,
		Out:        os.Stdout,
	})
}

func testBinary() string { return testexec.OwnPath() }

// A setup configures the server of a test; the zero value has one fake language.
type setup struct {
	specs      map[string]func(string) workers.Spec
	main       string
	dir        string
	sup        supervisor.Options
	stdin      mcpserver.StdinPolicy
	callWait   time.Duration
	neverReads bool // the client never reads
	hasBrowser bool
	log        io.Writer
	sandbox    *sandbox.Policy // of specs
	backend    backend.Backend // nil: the sessions are the server's own

	prepare func(context.Context, func(workers.PreparationProgress)) (workers.PreparationResult, error) // prepares every session
	with    []string
}

// confinedPython returns a Python spec with its compiled code in a directory; see
// [python.Options].
func confinedPython(cache string) workers.Spec {
	spec := python.Spec(python.Options{CacheDir: cache})
	spec.Sandbox = sandboxcheck.Sandbox()
	return spec
}

func fakeSpec(o *fakeworker.Options) func(string) workers.Spec {
	return func(dir string) workers.Spec {
		spec := fakeworker.NewSpec(testBinary(), o)
		spec.Dir = dir
		return spec
	}
}

// newGate returns a line of code for the fake worker that waits until open is called.
func newGate(t *testing.T) (line string, open func()) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "open")
	return "until " + path + "\n", func() {
		t.Helper()
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// A client exchanges raw JSON-RPC lines with a server.
type client struct {
	t      *testing.T
	sup    *supervisor.Supervisor
	in     *io.PipeWriter // to the server
	ended  chan struct{}  // closed when Run has returned
	runErr error          // of Run, once ended
	stop   context.CancelFunc
	meta   map[string]any // sent with every request; needed in the stateless era
	caps   map[string]any // of the client; set before initialize
	name   string         // of the client; "" means "test"
	lastID int

	mu      sync.Mutex
	lines   []answer      // everything from the server
	changed chan struct{} // closed at the next line
}

// An answer is any message of the server.
type answer struct {
	Line    string          `json:"-"`
	At      time.Time       `json:"-"`
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
	Result  json.RawMessage `json:"result"`
	Error   *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// A toolResult is the result of tools/call.
type toolResult struct {
	Content []struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		Data     []byte `json:"data"`
		MIMEType string `json:"mimeType"`
	} `json:"content"`
	IsError    bool            `json:"isError"`
	Structured json.RawMessage `json:"structuredContent"`
	Meta       map[string]any  `json:"_meta"`
}

// text returns the text of a result, with images as "<image>".
func (r toolResult) text() string {
	var parts []string
	for _, c := range r.Content {
		if c.Type == "image" {
			parts = append(parts, "<image>")
		} else {
			parts = append(parts, c.Text)
		}
	}
	return strings.Join(parts, "\n")
}

// newClient starts a server, without initializing it.
func newClient(t *testing.T, s *setup) *client {
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
	inRead, inWrite := io.Pipe()
	outRead, outWrite := io.Pipe()
	ctx, stop := context.WithCancel(context.Background())
	c := &client{t: t, sup: sup, in: inWrite, ended: make(chan struct{}), stop: stop, changed: make(chan struct{})}
	if s.neverReads {
		t.Cleanup(func() { _ = outRead.Close() }) // after Run
	} else {
		go c.read(outRead)
	}
	var logger *slog.Logger
	if s.log != nil {
		logger = slog.New(slog.NewTextHandler(s.log, nil))
	}
	go func() {
		c.runErr = mcpserver.Run(ctx, &mcpserver.Options{Logger: logger, HasBrowser: s.hasBrowser, Supervisor: sup, Backend: s.backend, Specs: s.specsWithPreparation(), Sandbox: s.sandbox, CanConfine: true, Default: s.main, Dir: s.dir, Stdin: s.stdin, CallWait: s.callWait, With: s.with, In: inRead, Out: outWrite})
		_ = outWrite.Close()
		close(c.ended)
	}()
	t.Cleanup(func() {
		_ = inWrite.Close()
		c.waitEnd()
		stop()
		if left := sup.Sessions(); len(left) > 0 {
			t.Errorf("%d sessions are open after Run", len(left))
		}
		if err := sup.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// newInitializedClient is newClient followed by a handshake.
func newInitializedClient(t *testing.T, s *setup) *client {
	t.Helper()
	c := newClient(t, s)
	c.initialize("2025-06-18")
	return c
}

func (c *client) initialize(version string) answer {
	c.t.Helper()
	a := c.request("initialize", map[string]any{
		"protocolVersion": version, "capabilities": c.capabilities(), "clientInfo": c.clientInfo(),
	})
	c.sendLine(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return a
}

// useStateless makes the client use 2026-07-28: no handshake, and three fields in the _meta of
// every request.
func (c *client) useStateless() {
	c.meta = map[string]any{
		"io.modelcontextprotocol/protocolVersion":    "2026-07-28",
		"io.modelcontextprotocol/clientCapabilities": c.capabilities(),
		"io.modelcontextprotocol/clientInfo":         c.clientInfo(),
	}
}

func (c *client) capabilities() map[string]any {
	if c.caps == nil {
		return map[string]any{}
	}
	return c.caps
}

func (c *client) clientInfo() map[string]any {
	if c.name == "" {
		return map[string]any{"name": "test", "version": "1"}
	}
	return map[string]any{"name": c.name, "version": "1"}
}

func (c *client) waitEnd() {
	c.t.Helper()
	select {
	case <-c.ended:
	case <-time.After(deadline):
		c.t.Error("Run does not return")
	}
}

func (c *client) read(r io.Reader) {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		a := answer{Line: line, At: time.Now()}
		if err := json.Unmarshal([]byte(line), &a); err != nil && !strings.HasPrefix(line, "[") {
			c.t.Errorf("the server wrote invalid JSON: %q", line)
		}
		c.mu.Lock()
		c.lines = append(c.lines, a)
		close(c.changed)
		c.changed = make(chan struct{})
		c.mu.Unlock()
	}
}

// waitMessage waits for a message that satisfies ok.
func (c *client) waitMessage(what string, ok func(answer) bool) answer {
	c.t.Helper()
	timeout := time.After(deadline)
	for {
		c.mu.Lock()
		lines, changed := c.lines, c.changed
		c.mu.Unlock()
		for _, a := range lines {
			if ok(a) {
				return a
			}
		}
		select {
		case <-changed:
		case <-timeout:
			c.t.Fatalf("%s did not come; the server sent %d messages", what, len(lines))
		}
	}
}

// allMessages returns all messages of the server so far.
func (c *client) allMessages() []answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lines
}

func (c *client) sendLine(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, line+"\n"); err != nil && !errors.Is(err, io.ErrClosedPipe) {
		c.t.Fatal(err)
	}
}

// clearMessages forgets the messages so far, so that their ids can be used again.
func (c *client) clearMessages() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = nil
}

// send sends a request and returns its id.
func (c *client) send(method string, params map[string]any) string {
	c.t.Helper()
	c.lastID++
	id := fmt.Sprint(c.lastID)
	if c.meta != nil {
		meta := map[string]any{}
		for k, v := range c.meta {
			meta[k] = v
		}
		if own, ok := params["_meta"].(map[string]any); ok {
			for k, v := range own {
				meta[k] = v
			}
		}
		if params == nil {
			params = map[string]any{}
		}
		params["_meta"] = meta
	}
	text, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": c.lastID, "method": method, "params": params})
	if err != nil {
		c.t.Fatal(err)
	}
	c.sendLine(string(text))
	return id
}

// waitAnswer waits for the answer to a request.
func (c *client) waitAnswer(id string) answer {
	c.t.Helper()
	return c.waitMessage("the answer to "+id, func(a answer) bool { return string(a.ID) == id && a.Method == "" })
}

func (c *client) request(method string, params map[string]any) answer {
	c.t.Helper()
	return c.waitAnswer(c.send(method, params))
}

// startCall starts a call of a tool.
func (c *client) startCall(tool string, args map[string]any) string {
	c.t.Helper()
	return c.send("tools/call", map[string]any{"name": tool, "arguments": args})
}

func (c *client) waitResult(id string) toolResult {
	c.t.Helper()
	return c.decode(c.waitAnswer(id))
}

func (c *client) decode(a answer) toolResult {
	c.t.Helper()
	if a.Error != nil {
		c.t.Fatalf("got error %d: %s", a.Error.Code, a.Error.Message)
	}
	var r toolResult
	if err := json.Unmarshal(a.Result, &r); err != nil {
		c.t.Fatal(err)
	}
	if r.Structured != nil {
		c.t.Errorf("the result has structuredContent: %s", r.Structured)
	}
	return r
}

func (c *client) call(tool string, args map[string]any) toolResult {
	c.t.Helper()
	return c.waitResult(c.startCall(tool, args))
}

// runRepl calls repl and returns the text of the reply.
func (c *client) runRepl(input string) string {
	c.t.Helper()
	return c.call("repl", map[string]any{"input": input}).text()
}

func (c *client) cancel(id string) {
	c.t.Helper()
	c.sendLine(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `,"reason":"test"}}`)
}

// waitState waits until repl_sessions shows a session in a state.
func (c *client) waitState(state string) {
	c.t.Helper()
	c.waitPart("repl_sessions", nil, " "+state)
}

// waitPart calls a tool until its text contains a part.
func (c *client) waitPart(tool string, args map[string]any, part string) {
	c.t.Helper()
	timeout := time.After(deadline)
	for {
		text := c.call(tool, args).text()
		if strings.Contains(text, part) {
			return
		}
		select {
		case <-time.After(time.Millisecond):
		case <-timeout:
			c.t.Fatalf("%s %v: got %q, want it to contain %q", tool, args, text, part)
		}
	}
}

// mainSession returns the main session, for another client.
func (c *client) mainSession() *supervisor.Session {
	c.t.Helper()
	s, ok := c.sup.Session("main")
	if !ok {
		c.t.Fatal("no main session")
	}
	return s
}

// slowDone matches the start of a reply to a silent turn that took a second or more.
var slowDone = regexp.MustCompile(`^\[done after [0-9.]+ s,`)

// wantText compares a reply, except for the duration of a silent turn.
func wantText(t *testing.T, got, want string) {
	t.Helper()
	if got != want && slowDone.ReplaceAllString(got, "[done,") != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func wantPart(t *testing.T, got string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(got, part) {
			t.Errorf("got %q, want it to contain %q", got, part)
		}
	}
}

// specsWithPreparation returns the specs with the preparation of every session. No two sessions
// share it.
func (s *setup) specsWithPreparation() map[string]func(string) workers.Spec {
	if s.prepare == nil {
		return s.specs
	}
	var made atomic.Int64
	all := make(map[string]func(string) workers.Spec)
	for lang, plain := range s.specs {
		all[lang] = func(dir string) workers.Spec {
			spec := plain(dir)
			spec.Preparations = []workers.Preparation{{Key: strconv.FormatInt(made.Add(1), 10), Name: strings.Join(s.with, ", "), Run: s.prepare}}
			return spec
		}
	}
	return all
}
