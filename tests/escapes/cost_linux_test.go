package escapes

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/timeline"
)

// timingCode measures the shortest time of each call in several rounds, in microseconds.
const timingCode = `
import os, time
def read(): os.close(os.open('cost/there', os.O_RDONLY))
def write(): os.close(os.open('cost/there', os.O_WRONLY))
def create():
    os.close(os.open('cost/new', os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)); os.unlink('cost/new')
def rename(): os.rename('cost/there', 'cost/other'); os.rename('cost/other', 'cost/there')
def chmod(): os.chmod('cost/there', 0o644)
def took(call):
    best = 1e9
    for _ in range(400):
        begin = time.perf_counter()
        for _ in range(10): call()
        best = min(best, time.perf_counter() - begin)
    return best / 10 * 1e6
os.makedirs('cost', exist_ok=True); open('cost/there', 'w').close()
`

// BenchmarkCalls measures the cost of the calls that the monitor makes, and of the same calls
// without a sandbox in the same run:
//
//	go test -run ^$ -bench Calls -benchtime 1x ./tests/escapes
func BenchmarkCalls(b *testing.B) {
	m := newMachine(b)
	r := openSession(b, m, newSandbox(m))
	r.RunCode(b, timingCode)
	for _, call := range []string{"read", "write", "create", "rename", "chmod"} {
		b.Run(call, func(b *testing.B) {
			for b.Loop() {
				inside := parseMicroseconds(b, r.RunCode(b, "print(took("+call+"))").OutputText(timeline.Stdout, timeline.Stderr))
				cmd := exec.Command(interpreter, "-c", timingCode+"print(took("+call+"))")
				cmd.Dir = m.work
				out, err := cmd.CombinedOutput()
				if err != nil {
					b.Fatalf("%v: %s", err, out)
				}
				outside := parseMicroseconds(b, string(out))
				b.ReportMetric(inside, "µs-inside")
				b.ReportMetric(outside, "µs-outside")
				b.ReportMetric(inside/outside, "ratio")
			}
		})
	}
}

func parseMicroseconds(b *testing.B, text string) float64 {
	b.Helper()
	took, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil {
		b.Fatal(err)
	}
	return took
}
