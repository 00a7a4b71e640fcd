package launch_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/supervisor/internal/launch"
	"github.com/turnstone-repl/turnstone/supervisor/internal/monitorproto"
)

// BenchmarkStart measures a start until its worker exists, which a caller waits for.
func BenchmarkStart(b *testing.B) {
	c := &launch.StartConfig{Path: findProgram(b, "sleep"), Args: []string{"1000"}, Env: os.Environ()}
	for b.Loop() {
		p, err := launch.Start(c)
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		p.Close()
		b.StartTimer()
	}
}

func BenchmarkClose(b *testing.B) {
	c := &launch.StartConfig{Path: findProgram(b, "sleep"), Args: []string{"1000"}, Env: os.Environ()}
	for b.Loop() {
		b.StopTimer()
		p, err := launch.Start(c)
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		p.Close()
	}
}

func BenchmarkReaders(b *testing.B) {
	for name, script := range map[string]string{
		"waiting":  "import os; os.read(0, 1)",
		"sleeping": "import time; print('ready', flush=True); time.sleep(1000)",
		"child":    "import subprocess; subprocess.run(['cat'])",
		"threads":  "import threading, time\nfor i in range(10): threading.Thread(target=time.sleep, args=(1000,)).start()\nprint('ready', flush=True)",
	} {
		b.Run(name, func(b *testing.B) {
			w := startProgram(b, "python3", "-c", script)
			if strings.Contains(script, "ready") {
				w.waitLine(b, "ready")
			} else {
				waitReader(b, w)
			}
			for b.Loop() {
				w.Readers()
			}
		})
	}
}

func BenchmarkRestore_NothingChanged(b *testing.B) {
	w := startProgram(b, "sleep", "1000")
	for b.Loop() {
		if err := w.Terminal().Restore(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSignal measures the time from the call until a signal handler's answer is read.
func BenchmarkSignal(b *testing.B) {
	w := startProgram(b, "python3", "-c", "import os, signal\nsignal.signal(signal.SIGINT, lambda *a: os.write(4, b'x'))\nos.write(4, b'r')\nwhile True: signal.pause()")
	c := w.Channel()
	buf := make([]byte, 1)
	if _, err := c.Read(buf); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := w.Signal(monitorproto.Interrupt, monitorproto.Group); err != nil {
			b.Fatal(err)
		}
		if _, err := c.Read(buf); err != nil {
			b.Fatal(err)
		}
	}
}

// TestMonitorMemory checks that a monitor stays within its memory budget.
func TestMonitorMemory(t *testing.T) {
	t.Parallel()
	w := startProgram(t, "sleep", "1000")
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", monitorPID(t, w)))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		var kB int
		// Only anonymous pages count: those of the program's file are shared, and their number varies.
		if n, _ := fmt.Sscanf(line, "RssAnon: %d kB", &kB); n == 1 {
			t.Logf("the monitor has %d kB of anonymous memory", kB)
			if kB > 2<<10 && !raceEnabled {
				t.Errorf("got %d kB, want 2 MB at most", kB)
			}
		}
	}
}

func monitorPID(t *testing.T, w testWorker) int { return parentPID(t, w.PID()) }
