package mcptools_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/turnstone-repl/turnstone/internal/testkit/fakeworker"
	"github.com/turnstone-repl/turnstone/internal/testkit/sandboxcheck"
	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
	"github.com/turnstone-repl/turnstone/internal/testkit/testmain"
	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
	"github.com/turnstone-repl/turnstone/mcptools"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/workers"
)

func TestMain(m *testing.M) {
	testmain.Run(m, testmain.Options{
		Monitor:  supervisor.MonitorMain,
		Programs: []testmain.Program{fakeworker.Program},
		RunAll:   sandboxcheck.RunTests,
	})
}

// fake is a worker without a language, whose commands fakeworker lists.
func fake(string) workers.Spec {
	spec := fakeworker.NewSpec(testexec.OwnPath(), nil)
	spec.Sandbox = nil // that of Options
	return spec
}

// newOptions returns options with the sandbox of this run of the tests.
func newOptions() mcptools.Options {
	policy := sandboxcheck.Sandbox()
	if policy == nil {
		policy = &sandbox.Policy{Level: sandbox.Full}
	}
	return mcptools.Options{Languages: map[string]func(string) workers.Spec{"fake": fake}, Sandbox: policy}
}

func newSupervisor(t *testing.T) *supervisor.Supervisor {
	t.Helper()
	sup, err := supervisor.New(&supervisor.Options{Dir: sandboxcheck.TempDir(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sup.Close() })
	return sup
}

// newServer returns an MCP server with a tool of its own, which waits until release is closed.
func newServer(release <-chan struct{}) *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "host", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "own"}, func(ctx context.Context, _ *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		if release != nil {
			select {
			case <-release:
			case <-ctx.Done():
			}
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "own result"}}}, nil, nil
	})
	return server
}

// newHost returns a server that has our tools as well.
func newHost(t *testing.T, o mcptools.Options) (*mcp.Server, *supervisor.Supervisor) {
	t.Helper()
	server, sup := newServer(nil), newSupervisor(t)
	withTools(t, server, sup, o)
	return server, sup
}

// withTools adds our tools to a server until the end of the test.
func withTools(t *testing.T, server *mcp.Server, sup *supervisor.Supervisor, o mcptools.Options) (done func()) {
	t.Helper()
	done, err := mcptools.Add(server, sup, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(done)
	return done
}

// A client is a client of the SDK.
type client struct {
	t *testing.T
	*mcp.ClientSession
}

// connect connects a client in memory; o may be nil.
func connect(t *testing.T, server *mcp.Server, o *mcp.ClientOptions) client {
	t.Helper()
	a, b := mcp.NewInMemoryTransports()
	if _, err := server.Connect(t.Context(), a, nil); err != nil {
		t.Fatal(err)
	}
	return dial(t, b, o)
}

func dial(t *testing.T, to mcp.Transport, o *mcp.ClientOptions) client {
	t.Helper()
	c, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, o).Connect(t.Context(), to, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return client{t, c}
}

// answering returns the options of a client whose user answers each question in the same way. asked
// is set if there was a question.
func answering(action, answer string, asked *bool) *mcp.ClientOptions {
	return &mcp.ClientOptions{ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		*asked = true
		return &mcp.ElicitResult{Action: action, Content: map[string]any{"answer": answer}}, nil
	}}
}

// call calls a tool and returns its result.
func (c client) call(tool string, args map[string]any) *mcp.CallToolResult {
	c.t.Helper()
	result, err := c.CallTool(c.t.Context(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		c.t.Fatalf("%s: %v", tool, err)
	}
	return result
}

// run runs code in the default session and returns the text of the reply.
func (c client) run(code string) string {
	c.t.Helper()
	return textOf(c.call("repl", map[string]any{"input": code}))
}

// turnOf returns the number of the turn that a result is about. Sessions count their turns from 1.
func turnOf(r *mcp.CallToolResult) int {
	n, _ := r.Meta["turnstone/turn"].(float64)
	return int(n)
}

// runTurn runs code in a session, or in the default one, and returns the number of its turn.
func (c client) runTurn(name string) int {
	c.t.Helper()
	args := map[string]any{"input": "print x"}
	if name != "" {
		args["session"] = name
	}
	return turnOf(c.call("repl", args))
}

// textOf returns the text of a result, with images as "<image>" and without the notice about the
// sandbox of the test.
func textOf(r *mcp.CallToolResult) string {
	var parts []string
	for _, block := range r.Content {
		switch b := block.(type) {
		case *mcp.TextContent:
			parts = append(parts, b.Text)
		case *mcp.ImageContent:
			parts = append(parts, "<image>")
		default:
			parts = append(parts, fmt.Sprintf("<%T>", b))
		}
	}
	return strings.Join(parts, "\n")
}

func wantPart(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("got %q, which lacks %q", text, part)
		}
	}
}

// waitRunning waits until a session of the supervisor runs code.
func waitRunning(t *testing.T, sup *supervisor.Supervisor) {
	t.Helper()
	wait.Until(t, "code runs", func() bool {
		for _, s := range sup.Sessions() {
			if i, err := s.Info(t.Context()); err == nil && i.State == session.StateRunning {
				return true
			}
		}
		return false
	})
}

func waitSessions(t *testing.T, sup *supervisor.Supervisor, want int) {
	t.Helper()
	wait.Until(t, fmt.Sprintf("the supervisor has %d sessions", want), func() bool { return len(sup.Sessions()) == want })
}

// A rawClient sends messages without waiting for answers.
type rawClient struct {
	t    *testing.T
	conn mcp.Connection
	last int
}

// newRawClient returns an initialized client at the other end of a transport.
func newRawClient(t *testing.T, server *mcp.Server, wrap func(mcp.Transport) mcp.Transport) *rawClient {
	t.Helper()
	a, b := mcp.NewInMemoryTransports()
	if _, err := server.Connect(t.Context(), wrap(a), nil); err != nil {
		t.Fatal(err)
	}
	conn, err := b.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	r := &rawClient{t: t, conn: conn}
	r.send("initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}`)
	r.read()
	r.send("notifications/initialized", "{}")
	return r
}

// send sends a request, or a notification, and returns its id.
func (r *rawClient) send(method, params string) (id int) {
	r.t.Helper()
	text := fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":%s`, method, params)
	if !strings.HasPrefix(method, "notifications/") {
		r.last++
		id = r.last
		text += fmt.Sprintf(`,"id":%d`, id)
	}
	m, err := jsonrpc.DecodeMessage([]byte(text + "}"))
	if err == nil {
		err = r.conn.Write(r.t.Context(), m)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return id
}

// sendCall sends a call of a tool with one argument.
func (r *rawClient) sendCall(tool, name, value string) (id int) {
	r.t.Helper()
	args, err := json.Marshal(map[string]any{"name": tool, "arguments": map[string]any{name: value}})
	if err != nil {
		r.t.Fatal(err)
	}
	return r.send("tools/call", string(args))
}

// read returns the next message of the server.
func (r *rawClient) read() *jsonrpc.Response {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	for {
		m, err := r.conn.Read(ctx)
		if err != nil {
			r.t.Fatal(err)
		}
		if answer, ok := m.(*jsonrpc.Response); ok {
			return answer
		}
	}
}

// readResult returns the result in the next answer, and the id of its call. An error is a result
// with its text.
func (r *rawClient) readResult() (id int, result *mcp.CallToolResult) {
	r.t.Helper()
	answer := r.read()
	n, _ := answer.ID.Raw().(int64)
	if answer.Error != nil {
		return int(n), &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: answer.Error.Error()}}, IsError: true}
	}
	result = new(mcp.CallToolResult)
	if err := json.Unmarshal(answer.Result, result); err != nil {
		r.t.Fatal(err)
	}
	return int(n), result
}

// readText returns the text of the next answer.
func (r *rawClient) readText() string {
	r.t.Helper()
	_, result := r.readResult()
	return textOf(result)
}
