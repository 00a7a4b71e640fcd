package bench

import (
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/internal/jsonrpc2"
	"github.com/turnstone-repl/turnstone/internal/testkit/replbin"
)

// BenchmarkToolsList measures the time from the start of "repl mcp" to its answer to tools/list,
// compared with the same program when it does nothing. The target is 50 ms, because tools/list
// waits for no interpreter.
func BenchmarkToolsList(b *testing.B) {
	binary := filepath.Join(b.TempDir(), "repl")
	if err := replbin.Build(binary); err != nil {
		b.Fatal(err)
	}
	var listed, nothing []time.Duration
	for b.Loop() {
		began := time.Now()
		if err := exec.Command(binary, "version").Run(); err != nil {
			b.Fatal(err)
		}
		nothing = append(nothing, time.Since(began))
		listed = append(listed, toolsList(b, binary))
	}
	b.ReportMetric(microseconds(medianDuration(listed))/1e3, "ms/list")
	b.ReportMetric(microseconds(durationPercentile(listed, 0.95))/1e3, "ms/list-95%")
	b.ReportMetric(float64(medianDuration(listed))/float64(medianDuration(nothing)), "x-nothing")
	b.ReportMetric(0, "ns/op") // two programs
}

// toolsList starts a server, requests its tools, and ends it.
func toolsList(b *testing.B, binary string) time.Duration {
	began := time.Now()
	server := startMCPServer(b, binary, "mcp")
	if answer := server.request(b, "tools/list", "{}"); !strings.Contains(answer, `"repl_output"`) {
		b.Fatalf("got %s", answer)
	}
	took := time.Since(began)
	server.stop(b)
	return took
}

// BenchmarkCall_AgainstMCPRepl measures a call of 1+1 in Python through "repl mcp", alternating
// with the same call through mcp-repl, the MCP server of Posit. TURNSTONE_MCP_REPL is its program;
// "pip install posit-mcp-repl" installs it as mcp-repl. Neither has a sandbox.
func BenchmarkCall_AgainstMCPRepl(b *testing.B) {
	peer := os.Getenv("TURNSTONE_MCP_REPL")
	if peer == "" {
		b.Skip("TURNSTONE_MCP_REPL does not name the program mcp-repl")
	}
	binary := filepath.Join(b.TempDir(), "repl")
	if err := replbin.Build(binary); err != nil {
		b.Fatal(err)
	}
	ours := startMCPServer(b, binary, "mcp", "--sandbox", "full")
	theirs := startMCPServer(b, peer, "--interpreter", "python", "--sandbox", "danger-full-access")
	call := func(server *pipedServer) time.Duration {
		began := time.Now()
		if answer := server.request(b, "tools/call", `{"name":"repl","arguments":{"input":"1+1"}}`); !strings.Contains(answer, `"text":"2`) {
			b.Fatalf("got %s", answer)
		}
		return time.Since(began)
	}
	call(ours) // starts the interpreter
	call(theirs)
	var ourTimes, theirTimes []time.Duration
	for b.Loop() {
		ourTimes = append(ourTimes, call(ours))
		theirTimes = append(theirTimes, call(theirs))
	}
	ours.stop(b)
	theirs.stop(b)
	b.ReportMetric(microseconds(medianDuration(ourTimes))/1e3, "ms/call")
	b.ReportMetric(microseconds(medianDuration(theirTimes))/1e3, "ms/mcp-repl-call")
	b.ReportMetric(float64(medianDuration(theirTimes))/float64(medianDuration(ourTimes)), "x-faster")
	b.ReportMetric(0, "ns/op") // two programs
}

// A pipedServer is a server on standard streams, such as an MCP server.
type pipedServer struct {
	cmd   *exec.Cmd
	conn  *jsonrpc2.Conn
	ended chan struct{} // closed when the server's output has ended
}

// startMCPServer starts a server and initializes it.
func startMCPServer(b *testing.B, program string, args ...string) *pipedServer {
	server := startPipedServer(b, program, args...)
	server.request(b, "initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}`)
	if err := server.conn.Notify("notifications/initialized", nil); err != nil {
		b.Fatal(err)
	}
	return server
}

// startPipedServer starts a server.
func startPipedServer(b *testing.B, program string, args ...string) *pipedServer {
	cmd := exec.Command(program, args...)
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
	stream := struct {
		io.Reader
		io.WriteCloser
	}{out, in}
	server := &pipedServer{cmd, jsonrpc2.New(stream, &jsonrpc2.Options{MaxLine: 1 << 20, StallTimeout: time.Minute}), make(chan struct{})}
	go func() {
		defer close(server.ended)
		_ = server.conn.Read() // calls return the error
	}()
	return server
}

// request sends a request with params as JSON, and returns the result as JSON.
func (s *pipedServer) request(b *testing.B, method, params string) string {
	result, err := s.conn.Call(b.Context(), method, json.RawMessage(params))
	if err != nil {
		b.Fatal(err)
	}
	return string(result.Result)
}

// stop closes the input of the server, and waits until it has ended.
func (s *pipedServer) stop(b *testing.B) {
	_ = s.conn.FinishWriting()
	<-s.ended
	if err := s.cmd.Wait(); err != nil {
		b.Fatal(err)
	}
}
