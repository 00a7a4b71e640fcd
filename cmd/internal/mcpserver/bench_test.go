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
	"github.com/turnstone-repl/turnstone/workers/python"
)

// noopRole is the value of serveRole for a server of the SDK alone.
const noopRole = "noop"

// serveNoop is the least that a tool of the same SDK costs.
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

// What a call costs beyond the SDK is the second less the first; the rest of the
// third is the turn.
func BenchmarkStdio_NoopTool(b *testing.B) {
	benchmarkStdio(b, noopRole, `{"name":"repl","arguments":{"input":"1+1"}}`)
}

func BenchmarkStdio_PollOfAnIdleSession(b *testing.B) {
	benchmarkStdio(b, "fake", `{"name":"repl","arguments":{"input":""}}`)
}

func BenchmarkStdio_OnePlusOneInPython(b *testing.B) {
	if spec := python.Spec(python.Options{}); spec.Err != nil {
		b.Skipf("no Python here: %v", spec.Err)
	}
	benchmarkStdio(b, "python", `{"name":"repl","arguments":{"input":"1+1"}}`)
}

func benchmarkStdio(b *testing.B, role, params string) {
	cmd := exec.Command(self())
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
	defer func() {
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			b.Error(err)
		}
	}()
	lines := bufio.NewReader(out)
	ask := func(line string) string {
		if _, err := io.WriteString(in, line+"\n"); err != nil {
			b.Fatal(err)
		}
		answer, err := lines.ReadString('\n')
		if err != nil {
			b.Fatal(err)
		}
		return answer
	}
	ask(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`)
	if _, err := io.WriteString(in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"); err != nil {
		b.Fatal(err)
	}
	call := func(n int) string {
		return ask(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%s}`, n, params))
	}
	call(1) // the interpreter has started
	n := 1
	for b.Loop() {
		n++
		call(n)
	}
}
