// Package bench measures latencies that users notice. Each result is a ratio to a baseline of the
// same run, because machines differ in speed, but hardly in such ratios.
//
//	go test -bench . -benchtime 2000x ./tests/bench
package bench

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/turnstone-repl/turnstone/internal/testkit/testmain"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"
	"github.com/turnstone-repl/turnstone/workers/python"
)

func TestMain(m *testing.M) {
	testmain.Run(m, testmain.Options{Monitor: supervisor.MonitorMain, Serial: true})
}

// pythonPath is the Python that every variant of every benchmark uses.
func pythonPath(b *testing.B) string {
	spec := python.Spec(python.Options{})
	if spec.Err != nil {
		b.Skipf("needs Python 3.8 or newer on the PATH: %v", spec.Err)
	}
	return spec.Path
}

func openReady(b *testing.B) *supervisor.Session {
	b.Helper()
	return openWithFunctions(b, python.Spec(python.Options{Path: pythonPath(b)}))
}

// openWithFunctions opens a session and waits until it is ready.
func openWithFunctions(b *testing.B, spec workers.Spec, functions ...supervisor.Function) *supervisor.Session {
	b.Helper()
	sup, err := supervisor.New(&supervisor.Options{Dir: b.TempDir(), Functions: functions})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = sup.Close() })
	s, err := sup.Open(b.Context(), "bench", spec)
	if err != nil {
		b.Fatal(err)
	}
	if r := runCode(b, s, "1"); r.Outcome != "ok" {
		b.Fatalf("got %q: %s", r.Outcome, r.Text())
	}
	return s
}

func runCode(b *testing.B, s *supervisor.Session, code string) session.Reply {
	turn, err := s.Submit(b.Context(), code)
	if err != nil {
		b.Fatal(err)
	}
	r, err := s.Wait(b.Context(), turn, nil)
	if err != nil {
		b.Fatal(err)
	}
	return r
}

func medianDuration(d []time.Duration) time.Duration {
	d = slices.Clone(d)
	slices.Sort(d)
	return d[len(d)/2]
}

func durationPercentile(d []time.Duration, p float64) time.Duration {
	d = slices.Clone(d)
	slices.Sort(d)
	return d[int(float64(len(d)-1)*p)]
}

func microseconds(d time.Duration) float64 { return float64(d) / 1e3 }

// echoProcess is a plain frame echo: a Python that copies frames from one pipe to another. The
// frames are as large as in a turn of 1+1, and Go reads them through its poller.
type echoProcess struct {
	in  io.Writer
	out io.Reader
	buf []byte
}

const echoProgram = `
import os
r, w, read, write = 3, 4, os.read, os.write
while True:
    b = read(r, 65536)
    if not b: break
    write(w, b)
`

func newEchoProcess(b *testing.B) *echoProcess {
	b.Helper()
	childIn, in, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	out, childOut, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(pythonPath(b), "-c", echoProgram)
	cmd.ExtraFiles = []*os.File{childIn, childOut}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	_ = childIn.Close()
	_ = childOut.Close()
	b.Cleanup(func() {
		_ = in.Close()
		_ = out.Close()
		_ = cmd.Wait()
	})
	const payload = 60
	frame := make([]byte, 4+payload)
	binary.BigEndian.PutUint32(frame, payload)
	return &echoProcess{in: in, out: out, buf: frame}
}

func (e *echoProcess) roundTrip(b *testing.B) {
	if _, err := e.in.Write(e.buf); err != nil {
		b.Fatal(err)
	}
	if _, err := io.ReadFull(e.out, e.buf); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkTurn compares a whole turn through the Go API with the plain echo. The target is 3 for
// 1+1.
func BenchmarkTurn(b *testing.B) {
	for name, code := range map[string]string{"empty": "", "1+1": "1+1", "print": "print('x')"} {
		b.Run(name, func(b *testing.B) {
			s, e := openReady(b), newEchoProcess(b)
			var turns, echoes []time.Duration
			for i := range 50 { // warm both
				_ = i
				e.roundTrip(b)
				runCode(b, s, code)
			}
			for b.Loop() {
				// They alternate in bursts, so that neither always follows the other's sleep.
				for range 20 {
					start := time.Now()
					e.roundTrip(b)
					echoes = append(echoes, time.Since(start))
				}
				for range 20 {
					start := time.Now()
					runCode(b, s, code)
					turns = append(turns, time.Since(start))
				}
			}
			b.ReportMetric(microseconds(medianDuration(turns)), "us/turn")
			b.ReportMetric(microseconds(durationPercentile(turns, 0.99)), "us/turn-p99")
			b.ReportMetric(microseconds(medianDuration(echoes)), "us/echo")
			b.ReportMetric(float64(medianDuration(turns))/float64(medianDuration(echoes)), "x-echo")
		})
	}
}

// BenchmarkReady measures the time from Open to idle, monitor included, against an interpreter that
// does nothing. The target is 2.
func BenchmarkReady(b *testing.B) {
	path := pythonPath(b)
	sup, err := supervisor.New(&supervisor.Options{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer sup.Close()
	var ready, bare []time.Duration
	for i := 0; b.Loop(); i++ {
		start := time.Now()
		if err := exec.Command(path, "-c", "pass").Run(); err != nil {
			b.Fatal(err)
		}
		bare = append(bare, time.Since(start))

		start = time.Now()
		s, err := sup.Open(b.Context(), fmt.Sprintf("s%d", i), python.Spec(python.Options{Path: path}))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := s.Wait(b.Context(), 0, nil); err != nil {
			b.Fatal(err)
		}
		ready = append(ready, time.Since(start))
		if err := s.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(microseconds(medianDuration(ready))/1e3, "ms/ready")
	b.ReportMetric(microseconds(medianDuration(bare))/1e3, "ms/python-c-pass")
	b.ReportMetric(float64(medianDuration(ready))/float64(medianDuration(bare)), "x-python")
}

// BenchmarkInterrupt measures the time from Interrupt to idle. The target is a median below 5 ms.
func BenchmarkInterrupt(b *testing.B) {
	for name, code := range map[string]string{
		"sleep": "import time; print('up', flush=True); time.sleep(1e6)",
		"loop":  "print('up', flush=True)\nwhile True: pass",
		"input": "input('up')",
	} {
		b.Run(name, func(b *testing.B) {
			s := openReady(b)
			var took []time.Duration
			for b.Loop() {
				after := s.Log().LastSeq()
				if _, err := s.Submit(b.Context(), code); err != nil {
					b.Fatal(err)
				}
				for e := range s.Events(b.Context(), after) {
					if _, ok := e.Body.(timeline.Text); ok {
						break
					}
				}
				start := time.Now()
				if r, err := s.Interrupt(b.Context(), 0); r != session.InterruptIdle || err != nil {
					b.Fatal(r, err)
				}
				took = append(took, time.Since(start))
			}
			b.ReportMetric(microseconds(medianDuration(took))/1e3, "ms/interrupt")
			b.ReportMetric(microseconds(durationPercentile(took, 0.99))/1e3, "ms/interrupt-p99")
		})
	}
}

const outputBytes = 100 << 20

// BenchmarkOutput sends 100 MB through a session. Lines are compared with cat of the same bytes
// through a plain PTY, and bulk output with a pipe. The target is 0.5 of either speed, at constant
// memory.
func BenchmarkOutput(b *testing.B) {
	b.Run("lines", func(b *testing.B) {
		line := strings.Repeat("x", 99) + "\n"
		benchmarkOutput(b, fmt.Sprintf("import os\nfor _ in range(%d): os.write(1, b'%s' * 40)", outputBytes/4000, strings.ReplaceAll(line, "\n", `\n`)),
			func() time.Duration { return timeCatPTY(b, line) }, "x-cat-pty")
	})
	b.Run("print", func(b *testing.B) {
		benchmarkOutput(b, fmt.Sprintf("for i in range(%d): print(i)", 1_000_000),
			func() time.Duration { return timePythonPTY(b, "for i in range(1000000): print(i)") }, "x-python-pty")
	})
	b.Run("bulk", func(b *testing.B) {
		benchmarkOutput(b, fmt.Sprintf("for _ in range(100): print('x' * %d)", 1<<20-1),
			func() time.Duration { return timePipe(b) }, "x-pipe")
	})
}

// benchmarkOutput reports the time of the baseline divided by the time of the session: 1 is as fast
// as the baseline.
func benchmarkOutput(b *testing.B, code string, floor func() time.Duration, unit string) {
	s := openReady(b)
	var ours, bare []time.Duration
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for b.Loop() {
		bare = append(bare, floor())
		start := time.Now()
		if r := runCode(b, s, code); r.Outcome != "ok" {
			b.Fatal(r.Text())
		}
		ours = append(ours, time.Since(start))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(medianDuration(bare))/float64(medianDuration(ours)), unit)
	b.ReportMetric(microseconds(medianDuration(ours))/1e3, "ms/ours")
	b.ReportMetric(microseconds(medianDuration(bare))/1e3, "ms/floor")
	b.ReportMetric(float64(int64(after.HeapAlloc)-int64(before.HeapAlloc))/(1<<20), "MB-heap-grown")
}

// timeCatPTY times cat of outputBytes of lines through a plain PTY, read by one goroutine.
func timeCatPTY(b *testing.B, line string) time.Duration {
	f, err := os.CreateTemp(b.TempDir(), "lines")
	if err != nil {
		b.Fatal(err)
	}
	chunk := []byte(strings.Repeat(line, 1000))
	for n := 0; n < outputBytes; n += len(chunk) {
		if _, err := f.Write(chunk); err != nil {
			b.Fatal(err)
		}
	}
	_ = f.Close()
	return timePTY(b, exec.Command("cat", f.Name()))
}

func timePythonPTY(b *testing.B, code string) time.Duration {
	return timePTY(b, exec.Command(pythonPath(b), "-c", code))
}

func timePTY(b *testing.B, cmd *exec.Cmd) time.Duration {
	start := time.Now()
	master, err := pty.Start(cmd)
	if err != nil {
		b.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, master) // ends with EIO
	_ = cmd.Wait()
	_ = master.Close()
	return time.Since(start)
}

// timePipe times outputBytes from a Python through a pipe.
func timePipe(b *testing.B) time.Duration {
	start := time.Now()
	cmd := exec.Command(pythonPath(b), "-c", fmt.Sprintf("for _ in range(100): print('x' * %d)", 1<<20-1))
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, out)
	_ = cmd.Wait()
	return time.Since(start)
}

// BenchmarkIdle holds sessions open and reports the cost of an idle session.
func BenchmarkIdle(b *testing.B) {
	path := pythonPath(b)
	sup, err := supervisor.New(&supervisor.Options{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer sup.Close()
	const sessions = 16
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	ctx := context.Background()
	for i := range sessions {
		s, err := sup.Open(ctx, fmt.Sprintf("s%d", i), python.Spec(python.Options{Path: path}))
		if err != nil {
			b.Fatal(err)
		}
		runCode(b, s, "1+1")
	}
	runtime.GC()
	runtime.GC() // the second one frees what pools hold
	runtime.ReadMemStats(&after)
	heap := int64(after.HeapAlloc+after.StackInuse) - int64(before.HeapAlloc+before.StackInuse)
	for b.Loop() {
	}
	b.ReportMetric(float64(heap)/sessions/1024, "KB/session")
}
