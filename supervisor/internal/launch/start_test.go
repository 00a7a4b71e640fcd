//go:build linux || darwin

package launch_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/turnstone-repl/turnstone/supervisor/internal/launch"
	"github.com/turnstone-repl/turnstone/supervisor/internal/monitorproto"
)

func TestStart(t *testing.T) {
	t.Parallel()

	t.Run("a failed step is named, with advice", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		write := func(name, text string, mode fs.FileMode) string {
			path := filepath.Join(dir, name)
			if err := os.WriteFile(path, []byte(text), mode); err != nil {
				t.Fatal(err)
			}
			return path
		}
		plain := write("plain", "x", 0o644)
		garbage := write("garbage", "\x01\x02\x03 no program\n", 0o755)
		script := write("script", "#!/no/such/interpreter\n", 0o755)
		missing := filepath.Join(dir, "missing")
		huge := "HUGE=" + strings.Repeat("x", 4<<20)
		for _, c := range []struct {
			name    string
			command launch.StartConfig
			step    string
			path    string
			cause   error
			advice  string
		}{
			{"missing directory", launch.StartConfig{Path: "/bin/sh", Dir: missing}, "chdir", missing, fs.ErrNotExist, "create the directory"},
			{"directory that is a file", launch.StartConfig{Path: "/bin/sh", Dir: plain}, "chdir", plain, syscall.ENOTDIR, "create the directory"},
			{"missing program", launch.StartConfig{Path: missing}, "exec", missing, fs.ErrNotExist, "install it"},
			{"file without the right to execute", launch.StartConfig{Path: plain}, "exec", plain, fs.ErrPermission, "make it executable"},
			{"directory as program", launch.StartConfig{Path: dir}, "exec", dir, fs.ErrPermission, "correct the path"},
			{"script whose interpreter is missing", launch.StartConfig{Path: script}, "exec", script, fs.ErrNotExist, "interpreter that its first line names"},
			{"file in no known format", launch.StartConfig{Path: garbage}, "exec", garbage, syscall.ENOEXEC, "#! line"},
			{"environment beyond the system's limit", launch.StartConfig{Path: "/bin/sh", Env: []string{huge}}, "exec", "/bin/sh", syscall.E2BIG, "shorten"},
		} {
			t.Run(c.name, func(t *testing.T) {
				p, err := launch.Start(&c.command)
				if err == nil {
					p.Close()
					t.Fatal("got a process, want an error")
				}
				e, ok := errors.AsType[*monitorproto.StartError](err)
				if !ok || e.Step != c.step || e.Path != c.path || !errors.Is(err, c.cause) {
					t.Errorf("got %#v, want step %q, path %q, cause %v", err, c.step, c.path, c.cause)
				}
				for _, want := range []string{"launch: start: " + c.step, c.path, c.advice} {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("got %q, want %q in it", err, want)
					}
				}
			})
		}
	})

	t.Run("reports the status of a worker that ends at once", func(t *testing.T) {
		t.Parallel()
		w := startProgram(t, "true")
		waitClosed(t, "exit", w.Exited())
		if got := w.Exit().String(); got != "exit status 0" {
			t.Errorf("got %q, want exit status 0", got)
		}
	})
}

func TestExit(t *testing.T) {
	t.Parallel()

	t.Run("names the status or the signal", func(t *testing.T) {
		t.Parallel()
		for script, want := range map[string]string{
			"exit 0":        "exit status 0",
			"exit 3":        "exit status 3",
			"exit 255":      "exit status 255",
			"kill -9 $$":    "killed by SIGKILL",
			"kill -TERM $$": "killed by SIGTERM",
			"kill -SEGV $$": "killed by SIGSEGV",
		} {
			w := startBash(t, script)
			waitClosed(t, "exit", w.Exited())
			if got := w.Exit().String(); got != want {
				t.Errorf("%s: got %q, want %q", script, got, want)
			}
			if w.Exit().PeakRSS < 100<<10 {
				t.Errorf("%s: got a peak of %d bytes, want a shell's", script, w.Exit().PeakRSS)
			}
		}
	})

	t.Run("reports the CPU time", func(t *testing.T) {
		t.Parallel()
		w := startPython(t, "import time\nwhile time.process_time() < 0.2: pass")
		waitClosed(t, "exit", w.Exited())
		if e := w.Exit(); e.UserCPU+e.SystemCPU < 200e6 {
			t.Errorf("got %s user and %s system, want 200ms together", e.UserCPU, e.SystemCPU)
		}
	})
}

func TestOutputBeforeExit(t *testing.T) {
	t.Parallel()
	w := startBash(t, "for i in {1..20000}; do echo line $i; done")
	text := w.waitAll(t)
	if want := 20000; strings.Count(text, "\n") != want || !strings.HasSuffix(text, "line 20000\n") {
		t.Errorf("got %d lines ending in %q, want %d", strings.Count(text, "\n"), text[max(0, len(text)-20):], want)
	}
}

func TestSignal(t *testing.T) {
	t.Parallel()

	t.Run("returns ErrEnded after the end", func(t *testing.T) {
		t.Parallel()
		w := startBash(t, "exit 0")
		waitClosed(t, "exit", w.Exited())
		for _, to := range []monitorproto.Target{monitorproto.Worker, monitorproto.Group, monitorproto.Foreground} {
			if err := w.Signal(monitorproto.Kill, to); !errors.Is(err, monitorproto.ErrEnded) {
				t.Errorf("%s: got %v, want ErrEnded", to, err)
			}
		}
	})

	// A frame that is sent after the last signal is read after it.
	t.Run("is pending before anything sent later is read", func(t *testing.T) {
		t.Parallel()
		w := startPython(t, `
import os, signal
got = []
signal.signal(signal.SIGINT, lambda *a: got.append(1))
os.write(1, b"ready\n")
while os.read(3, 1):
    n = len(got)
    del got[:n]
    os.write(4, b"%d" % n)`)
		w.waitLine(t, "ready")
		for range 200 {
			if err := w.Signal(monitorproto.Interrupt, monitorproto.Group); err != nil {
				t.Fatal(err)
			}
			if sent := w.SignalsSent(); sent != nil {
				waitClosed(t, "answer", sent)
			}
			got := make([]byte, 1)
			if _, err := w.Channel().Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(w.Channel(), got); err != nil || got[0] != '1' {
				t.Fatalf("the worker received %q signals, %v", got, err)
			}
		}
	})

	t.Run("delivers each signal to the worker", func(t *testing.T) {
		t.Parallel()
		w := startBash(t, "trap 'echo got INT' INT; trap 'echo got HUP' HUP; trap 'echo got TERM' TERM; echo ready; while :; do read -t 1000 </dev/null; sleep 0.01; done")
		w.waitLine(t, "ready")
		for s, want := range map[monitorproto.Signal]string{monitorproto.Interrupt: "got INT", monitorproto.Hangup: "got HUP", monitorproto.Terminate: "got TERM"} {
			if err := w.Signal(s, monitorproto.Worker); err != nil {
				t.Fatal(err)
			}
			w.waitLine(t, want)
		}
		if err := w.Signal(monitorproto.Kill, monitorproto.Worker); err != nil {
			t.Fatal(err)
		}
		waitClosed(t, "exit", w.Exited())
		if got := w.Exit().String(); got != "killed by SIGKILL" {
			t.Errorf("got %q, want killed by SIGKILL", got)
		}
	})

	t.Run("a signal to the group reaches the children", func(t *testing.T) {
		t.Parallel()
		w := startPython(t, `
import os, signal
child = os.fork() == 0
signal.signal(signal.SIGINT, lambda *a: os.write(1, b"child\n" if child else b"worker\n"))
os.write(1, b"child ready\n" if child else b"worker ready\n")
while 1: signal.pause()`)
		w.waitLine(t, "child ready")
		w.waitLine(t, "worker ready")
		if err := w.Signal(monitorproto.Interrupt, monitorproto.Group); err != nil {
			t.Fatal(err)
		}
		w.waitLine(t, "worker\n")
		w.waitLine(t, "child\n")
	})

	t.Run("a signal to the foreground spares the worker", func(t *testing.T) {
		t.Parallel()
		w := startPython(t, `
import os, signal, sys, time
signal.signal(signal.SIGINT, lambda *a: os.write(1, b"worker\n"))
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
sys.stdin.readline()
pid = os.fork()
if pid == 0:
    os.setpgid(0, 0)
    signal.signal(signal.SIGINT, lambda *a: os.write(1, b"front\n"))
    os.tcsetpgrp(0, os.getpgrp())
    os.write(1, b"ready\n")
    while 1: time.sleep(1)
while 1: signal.pause()`)
		// No other group is in the foreground, so this signal reaches no process.
		if err := w.Signal(monitorproto.Interrupt, monitorproto.Foreground); err != nil {
			t.Fatal(err)
		}
		if err := w.Terminal().WriteInput([]byte("go\n"), false); err != nil {
			t.Fatal(err)
		}
		w.waitLine(t, "ready")
		if err := w.Signal(monitorproto.Interrupt, monitorproto.Foreground); err != nil {
			t.Fatal(err)
		}
		w.waitLine(t, "front")
		if text, _ := w.snapshot(); strings.Contains(text, "worker") {
			t.Errorf("got %q, want no signal for the worker", text)
		}
	})
}

func TestChannel(t *testing.T) {
	t.Parallel()

	t.Run("carries data in both directions", func(t *testing.T) {
		t.Parallel()
		w := startPython(t, `
import os
i, o, nonce = os.environ["REPL_IPC"].split(",")
os.write(int(o), nonce.encode() + os.read(int(i), 100))`)
		if _, err := w.Channel().Write([]byte(" hello")); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 100)
		n, err := w.Channel().Read(b)
		if got, want := string(b[:n]), w.Nonce()+" hello"; err != nil || got != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
		if len(w.Nonce()) != 16 {
			t.Errorf("got nonce %q, want 16 digits", w.Nonce())
		}
	})

	t.Run("TryWrite writes what fits and returns", func(t *testing.T) {
		t.Parallel()
		w := startProgram(t, "sleep", "1000")
		ch := w.Channel().(*launch.Channel)
		b := make([]byte, 100<<10)
		first, err := ch.TryWrite(b)
		if err != nil || first == 0 || first == len(b) {
			t.Fatalf("got %d, %v, want a part of %d", first, err, len(b))
		}
		if n, err := ch.TryWrite(b); n != 0 || err != nil {
			t.Errorf("got %d, %v, want 0 in a full pipe", n, err)
		}
	})

	t.Run("reads end of file after the worker has ended", func(t *testing.T) {
		t.Parallel()
		w := startBash(t, "exit 0")
		if n, err := w.Channel().Read(make([]byte, 1)); n != 0 || err == nil {
			t.Errorf("got %d, %v, want end of file", n, err)
		}
	})
}

func TestCloseDuringRead(t *testing.T) {
	t.Parallel()
	p, err := launch.Start(&launch.StartConfig{Path: findProgram(t, "sleep"), Args: []string{"1000"}})
	if err != nil {
		t.Fatal(err)
	}
	out := collectOutput(terminalReader{p})
	read := make(chan struct{})
	go func() {
		p.Channel().Read(make([]byte, 1))
		close(read)
	}()
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	waitClosed(t, "end of the channel's read", read)
	waitClosed(t, "end of the terminal's read", out.ended)
	if _, open := <-p.Notices(); open {
		t.Error("got a notice, want a closed channel")
	}
	if err := p.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
}
