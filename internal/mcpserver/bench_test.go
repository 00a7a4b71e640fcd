package mcpserver_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/workers"
	"github.com/turnstone-repl/turnstone/workers/python"
)

// noopRole is the value of serveRole for a bare SDK server.
const noopRole = "noop"

// serveNoop serves the cheapest possible tool of the same SDK.
func serveNoop() error {
	s := mcp.NewServer(&mcp.Implementation{Name: "noop", Version: "1"}, nil)
	type args struct {
		Input string `json:"input"`
	}
	mcp.AddTool(s, &mcp.Tool{Name: "repl"}, func(context.Context, *mcp.CallToolRequest, args) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "2"}}}, nil, nil
	})
	return s.Run(context.Background(), &mcp.StdioTransport{})
}

// The difference of the first two results is the cost of a call beyond the SDK. The rest of the
// third is the turn.
func BenchmarkStdio_NoopTool(b *testing.B) {
	benchmarkStdio(b, noopRole, `{"name":"repl","arguments":{"input":"1+1"}}`)
}

func BenchmarkStdio_PollOfAnIdleSession(b *testing.B) {
	benchmarkStdio(b, "fake", `{"name":"repl","arguments":{"input":""}}`)
}

func BenchmarkStdio_OnePlusOneInPython(b *testing.B) {
	pythonSpec(b)
	benchmarkStdio(b, "python", `{"name":"repl","arguments":{"input":"1+1"}}`)
}

// A client waits twice when it starts: for the list of tools, which needs no interpreter, and for
// the first result. The latter should take little longer than BenchmarkStart_Session.
func BenchmarkStart_ToolsList(b *testing.B) {
	benchmarkStart(b, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
}

func BenchmarkStart_FirstResult(b *testing.B) {
	benchmarkStart(b, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"repl","arguments":{"input":"1+1"}}}`)
}

func BenchmarkStart_Session(b *testing.B) {
	spec := pythonSpec(b)
	sup, err := supervisor.New(&supervisor.Options{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer sup.Close()
	for b.Loop() {
		s, err := sup.Open(b.Context(), "main", spec)
		if err != nil {
			b.Fatal(err)
		}
		turn, err := s.Submit(b.Context(), "1+1")
		if err != nil {
			b.Fatal(err)
		}
		if _, err := s.Wait(b.Context(), turn, nil); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := s.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

func pythonSpec(b *testing.B) workers.Spec {
	spec := python.Spec(python.Options{})
	if spec.Err != nil {
		b.Skipf("no Python here: %v", spec.Err)
	}
	return spec
}

// benchmarkStart starts a server, initializes it and sends one request.
func benchmarkStart(b *testing.B, request string) {
	pythonSpec(b)
	for b.Loop() {
		p := newStdioPeer(b, "python")
		p.initialize()
		p.sendLine(request)
		b.StopTimer()
		p.closeAndWait()
		b.StartTimer()
	}
}

// A stdioPeer is a server in a separate process.
type stdioPeer struct {
	b   *testing.B
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func newStdioPeer(b *testing.B, role string) *stdioPeer {
	cmd := exec.Command(testBinary())
	cmd.Env = append(os.Environ(), serveRole+"="+role)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	return &stdioPeer{b, cmd, in, bufio.NewReader(out)}
}

func (p *stdioPeer) sendLine(line string) {
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		p.b.Fatal(err)
	}
	if _, err := p.out.ReadString('\n'); err != nil {
		p.b.Fatal(err)
	}
}

func (p *stdioPeer) initialize() {
	p.sendLine(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`)
	if _, err := io.WriteString(p.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"); err != nil {
		p.b.Fatal(err)
	}
}

func (p *stdioPeer) closeAndWait() {
	_ = p.in.Close()
	if err := p.cmd.Wait(); err != nil {
		p.b.Error(err)
	}
}

func benchmarkStdio(b *testing.B, role, params string) {
	p := newStdioPeer(b, role)
	defer p.closeAndWait()
	p.initialize()
	call := func(n int) {
		p.sendLine(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%s}`, n, params))
	}
	call(1) // the interpreter has started
	n := 1
	for b.Loop() {
		n++
		call(n)
	}
}
