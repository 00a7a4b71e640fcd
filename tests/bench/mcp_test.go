package bench

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/internal/testkit/replbin"
)

// BenchmarkToolsList measures the time from the start of "repl mcp" to its answer to tools/list,
// against a start of the same program that does nothing. The target is 50 ms, because it waits for
// no interpreter.
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
	cmd := exec.Command(binary, "mcp")
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
	ask(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`)
	if answer := ask(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`); !strings.Contains(answer, `"repl_output"`) {
		b.Fatalf("got %s", answer)
	}
	took := time.Since(began)
	_ = in.Close()
	if err := cmd.Wait(); err != nil {
		b.Fatal(err)
	}
	return took
}
