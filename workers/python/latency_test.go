//go:build linux

package python_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/internal/testkit/rawworker"
	"github.com/turnstone-repl/turnstone/ipc"
	"github.com/turnstone-repl/turnstone/workers/python"
)

// BenchmarkTurn measures the cost of the worker itself: one turn of 1+1, with its channel and terminal
// read by blocking system calls.
func BenchmarkTurn(b *testing.B) {
	for _, code := range []string{"", "1+1", "print('x')", "1/0"} {
		b.Run(code, func(b *testing.B) {
			w := startBareWorker(b)
			frames := make([][]byte, b.N)
			for i := range frames {
				frames[i], _ = ipc.AppendFrame(nil, ipc.TurnStart{Turn: uint64(i + 1), Input: []byte(code), NoExit: true})
			}
			took := make([]time.Duration, 0, b.N)
			b.ResetTimer()
			for _, frame := range frames {
				begin := time.Now()
				w.runTurn(frame)
				took = append(took, time.Since(begin))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "µs-median")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "µs-p99")
		})
	}
}

// BenchmarkStart compares the time to idle(0), with and without the cache, with
// python3 -c pass.
func BenchmarkStart(b *testing.B) {
	spec := newPythonSpec(b)
	b.Run("pass", func(b *testing.B) {
		for b.Loop() {
			if err := exec.Command(spec.Path, "-c", "pass").Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, c := range []struct{ name, dir string }{{"uncached", "-"}, {"cached", filepath.Join(b.TempDir(), "cache")}} {
		b.Run(c.name, func(b *testing.B) {
			if c.name == "cached" {
				w := startWorker(b, workerSetup{options: python.Options{CacheDir: c.dir}})
				for range 20 { // the worker writes its cache while idle
					w.RunCode("1")
				}
			}
			for b.Loop() {
				w := launchBareWorker(b, c.dir)
				for !w.readFrame() { // worker_ready, then idle(0)
				}
				b.StopTimer()
				w.closeAll()
				b.StartTimer()
			}
		})
	}
}

// A bareWorker is a worker process whose channel and terminal are read as plain descriptors.
type bareWorker struct {
	tb       testing.TB
	cmd      *exec.Cmd
	master   *os.File
	in, out  *os.File
	terminal int
	buf      []byte
	mark     uint64 // of the last idle
}

func startBareWorker(b *testing.B) *bareWorker {
	d := launchBareWorker(b, "-")
	b.Cleanup(d.closeAll)
	for !d.readFrame() {
	}
	d.drainTerminal()
	return d
}

func launchBareWorker(b *testing.B, cache string) *bareWorker {
	spec := python.Spec(python.Options{CacheDir: cache})
	if err := spec.Validate(); err != nil {
		b.Fatal(err)
	}
	cmd, master, in, out := rawworker.SpawnProcess(b, spec, rawworker.WorkerOptions{Base: cleanEnv()})
	return &bareWorker{tb: b, cmd: cmd, master: master, in: in, out: out, terminal: int(master.Fd()), buf: make([]byte, 1<<20)}
}

func (w *bareWorker) runTurn(frame []byte) {
	w.in.Write(frame)
	for !w.readFrame() {
	}
	w.drainTerminal()
}

// readFrame reads one frame and reports whether it is idle.
func (w *bareWorker) readFrame() bool {
	w.readFull(w.buf[:4])
	n := binary.BigEndian.Uint32(w.buf)
	w.readFull(w.buf[:n])
	m, err := ipc.Decode(w.buf[:n], ipc.FromWorker)
	if err != nil {
		w.tb.Fatal(err)
	}
	idle, ok := m.(ipc.Idle)
	w.mark = idle.Mark
	return ok
}

func (w *bareWorker) readFull(buf []byte) {
	for len(buf) > 0 {
		n, err := unix.Read(int(w.out.Fd()), buf)
		if err != nil || n == 0 {
			w.tb.Fatal("the channel ended: ", err)
		}
		buf = buf[n:]
	}
}

// drainTerminal reads the terminal up to the marker of the last idle.
func (w *bareWorker) drainTerminal() {
	marker := fmt.Appendf(nil, "\x1b_%s;#%d\x1b\\", rawworker.Nonce, w.mark)
	for tail := []byte(nil); !bytes.HasSuffix(tail, marker); {
		n, err := unix.Read(w.terminal, w.buf)
		if err != nil || n == 0 {
			w.tb.Fatal("the terminal ended: ", err)
		}
		tail = append(tail, w.buf[:n]...)
	}
}

func (w *bareWorker) closeAll() {
	w.in.Close()
	w.cmd.Process.Kill()
	w.cmd.Wait()
	w.out.Close()
	w.master.Close()
}
