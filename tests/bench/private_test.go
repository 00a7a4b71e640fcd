package bench

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/internal/testkit/replbin"
)

// BenchmarkPrivateDaemon measures "repl serve --stdio" from its start to its first answer, and to
// the result of the first turn. Each is compared with the start of the interpreter alone. The target
// is 50 ms more than that.
func BenchmarkPrivateDaemon(b *testing.B) {
	python := pythonPath(b)
	binary := filepath.Join(b.TempDir(), "repl")
	if err := replbin.Build(binary); err != nil {
		b.Fatal(err)
	}
	var answers, turns, ends, interpreters []time.Duration
	for b.Loop() {
		began := time.Now()
		if err := exec.Command(python, "-c", "print(1)").Run(); err != nil {
			b.Fatal(err)
		}
		interpreters = append(interpreters, time.Since(began))

		began = time.Now()
		d := startPipedServer(b, binary, "serve", "--stdio")
		d.request(b, "server/ping", "{}")
		answers = append(answers, time.Since(began))
		d.request(b, "session/create", `{"name":"main","runtime":"`+python+`"}`)
		if reply := d.request(b, "turn/start", `{"session":"main","input":"1","wait_ms":60000}`); !strings.Contains(reply, `"outcome":"ok"`) {
			b.Fatalf("got %s", reply)
		}
		turns = append(turns, time.Since(began))
		began = time.Now()
		d.stop(b)
		ends = append(ends, time.Since(began))
	}
	turn, interpreter := medianDuration(turns), medianDuration(interpreters)
	b.ReportMetric(microseconds(medianDuration(answers))/1e3, "ms/answer")
	b.ReportMetric(microseconds(turn)/1e3, "ms/turn")
	b.ReportMetric(microseconds(interpreter)/1e3, "ms/python")
	b.ReportMetric(microseconds(turn-interpreter)/1e3, "ms/turn-over-python")
	b.ReportMetric(microseconds(medianDuration(ends))/1e3, "ms/end")
	b.ReportMetric(0, "ns/op") // two programs
}
