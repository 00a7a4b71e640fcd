package launch_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
	"github.com/turnstone-repl/turnstone/supervisor/internal/launch"
	"github.com/turnstone-repl/turnstone/supervisor/internal/monitorproto"
	"github.com/turnstone-repl/turnstone/supervisor/internal/pty"
)

// waitReader waits until a thread of the tree blocks in reading the terminal.
func waitReader(t testing.TB, w testWorker) pty.TerminalReader {
	t.Helper()
	var got []pty.TerminalReader
	wait.Until(t, "the terminal has a reader", func() bool {
		got = w.Readers()
		return len(got) > 0
	})
	return got[0]
}

// An inputStep writes one input for the next reader.
type inputStep struct {
	text string
	eof  bool
}

// writeAnswer writes each step for the waiting reader, and returns which readers wanted a secret.
func writeAnswer(t testing.TB, w testWorker, steps ...inputStep) (secrets []bool) {
	t.Helper()
	key := ""
	for _, s := range steps {
		var r pty.TerminalReader
		wait.Until(t, "the terminal has a new reader", func() bool {
			for _, r = range w.Readers() {
				if r.Key != key {
					return true
				}
			}
			return false
		})
		key = r.Key
		secrets = append(secrets, r.Secret)
		if err := w.Terminal().WriteInput([]byte(s.text), s.eof); err != nil {
			t.Fatal(err)
		}
	}
	return secrets
}

func TestWriteInput(t *testing.T) {
	t.Parallel()

	// Real programs read a terminal in different ways. Each gets its input, and the terminal
	// echoes none of it.
	t.Run("reaches every kind of reader", func(t *testing.T) {
		t.Parallel()
		const py, sh = "python3", "bash"
		line := inputStep{text: "hello\n"}
		end := inputStep{eof: true}
		long := strings.Repeat("x", 100_000)
		control := "a\x03b\x1a\x11\x13\x16c\x7fd\x15\x1c\n"
		for _, c := range []struct {
			name    string
			program string
			args    []string
			steps   []inputStep
			want    string
			secret  bool
		}{
			{"cat", "cat", nil, []inputStep{line, {text: "two\n"}, end}, "hello\ntwo\n", false},
			{"cat, text without a newline before the end", "cat", nil, []inputStep{{text: "abc", eof: true}}, "abc", false},
			{"cat, control characters", "cat", nil, []inputStep{{text: control}, end}, control, false},
			{"cat, a long line", "cat", nil, []inputStep{{text: long + "\n"}, end}, long + "\n", false},
			{"cat, many lines at once", "cat", nil, []inputStep{{text: strings.Repeat("line\n", 5000), eof: true}}, strings.Repeat("line\n", 5000), false},
			{"head", "head", []string{"-n1"}, []inputStep{line}, "hello\n", false},
			{"read", sh, []string{"-c", `read x; echo "<$x>"`}, []inputStep{line}, "<hello>\n", false},
			{"read at the end", sh, []string{"-c", `read x; echo "$?<$x>"`}, []inputStep{end}, "1<>\n", false},
			{"read, a long line", sh, []string{"-c", `read x; echo ${#x}`}, []inputStep{{text: long + "\n"}}, "100000\n", false},
			{"read, one character", sh, []string{"-c", `read -n1 x; echo "<$x>"`}, []inputStep{{text: "y"}}, "<y>\n", false},
			{"read, secret", sh, []string{"-c", `read -s x; echo "<$x>"`}, []inputStep{{text: "pw\n"}}, "<pw>\n", true},
			{"stty -echo, secret", sh, []string{"-c", `stty -echo; read x; stty echo; echo "<$x>"`}, []inputStep{{text: "pw\n"}}, "<pw>\n", true},
			{"getpass, on /dev/tty", py, []string{"-c", `import getpass; print("<%s>" % getpass.getpass(""))`}, []inputStep{{text: "pw\n"}}, "\n<pw>\n", true},
			{"input", py, []string{"-c", `print(repr(input()))`}, []inputStep{line}, "'hello'\n", false},
			{"input, a long line", py, []string{"-c", `print(len(input()))`}, []inputStep{{text: long + "\n"}}, "100000\n", false},
			{"input at the end, then again", py, []string{"-c", "try: input()\nexcept EOFError: print('end')\nprint(input())"}, []inputStep{end, line}, "end\nhello\n", false},
			{"read to the end", py, []string{"-c", `import sys; print(repr(sys.stdin.read()))`}, []inputStep{line, line, end}, "'hello\\nhello\\n'\n", false},
			{"os.read", py, []string{"-c", `import os; print(os.read(0, 100))`}, []inputStep{line}, "b'hello\\n'\n", false},
			{"os.read of more than there is", py, []string{"-c", `import os; print(len(os.read(0, 1000000)))`}, []inputStep{{text: strings.Repeat("y", 1023) + "\n"}}, "1024\n", false},
			{"getchar", py, []string{"-c", `import ctypes; c = ctypes.CDLL(None); print(c.getchar(), c.getchar())`}, []inputStep{{text: "a\n"}}, "97 10\n", false},
			{"cbreak mode", py, []string{"-c", `import tty, os; tty.setcbreak(0); print(os.read(0, 1))`}, []inputStep{{text: "k"}}, "b'k'\n", false},
			{"raw mode", py, []string{"-c", `import tty, os; tty.setraw(0); os.write(1, os.read(0, 1))`}, []inputStep{{text: "\x03"}}, "\x03", false},
			{"select", py, []string{"-c", `import select, os; select.select([0], [], []); print(os.read(0, 100))`}, []inputStep{line}, "b'hello\\n'\n", false},
			{"poll", py, []string{"-c", `import select, os; p = select.poll(); p.register(0, select.POLLIN); p.poll(); print(os.read(0, 100))`}, []inputStep{line}, "b'hello\\n'\n", false},
			{"epoll", py, []string{"-c", `import select, os; p = select.epoll(); p.register(0, select.EPOLLIN); p.poll(); print(os.read(0, 100))`}, []inputStep{line}, "b'hello\\n'\n", false},
			{"a shell and its children", sh, []string{"--norc", "--noediting", "-c", "cat; read x; echo $x"}, []inputStep{line, end, line}, "hello\nhello\n", false},
			{"node", "node", []string{"-e", `process.stdin.once("data", d => { console.log(JSON.stringify(String(d))); process.exit() })`}, []inputStep{line}, "\"hello\\n\"\n", false},
			{"less", "less", []string{"-X", "/etc/passwd"}, []inputStep{{text: "\n"}, {text: "q"}}, "*", false},
		} {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				env := append(os.Environ(), "TERM=dumb", "PYTHONUNBUFFERED=")
				w := startCommand(t, &launch.StartConfig{Path: findProgram(t, c.program), Args: c.args, Env: env})
				secrets := writeAnswer(t, w, c.steps...)
				got := w.waitAll(t)
				if c.want != "*" && got != c.want {
					t.Errorf("got %.200q, want %.200q", got, c.want)
				}
				if e := w.Exit(); e.String() != "exit status 0" {
					t.Errorf("got %s, want exit status 0", e)
				}
				if secrets[0] != c.secret {
					t.Errorf("got secret %t, want %t", secrets[0], c.secret)
				}
			})
		}
	})

	t.Run("fails in time if nothing reads", func(t *testing.T) {
		t.Parallel()
		w := startProgram(t, "sleep", "1000")
		if err := w.Terminal().WriteInput([]byte("short\n"), false); err != nil {
			t.Fatalf("got %v, want room for a short input", err)
		}
		if got := w.Terminal().UnreadInput(); got != 6 {
			t.Errorf("got %d bytes queued, want 6", got)
		}
		since := time.Now()
		err := w.Terminal().WriteInput(bytes.Repeat([]byte("x"), 10_000), true)
		if err == nil || !strings.Contains(err.Error(), "of 10000 bytes") {
			t.Errorf("got %v, want the number of bytes that were read", err)
		}
		if took := time.Since(since); took > treeEndTimeout {
			t.Errorf("got the error after %s, want it within %s", took, treeEndTimeout)
		}
		if err := w.Terminal().Restore(); err != nil {
			t.Fatal(err)
		}
		if got := w.Terminal().UnreadInput(); got != 0 {
			t.Errorf("got %d bytes queued after restore, want 0", got)
		}
	})
}

func TestRestore(t *testing.T) {
	t.Parallel()

	t.Run("resets modes, foreground group and unread input", func(t *testing.T) {
		t.Parallel()
		w := startPython(t, `
import os, signal, subprocess, sys, termios, tty
def say(s): os.write(1, s + b"\n")
before = termios.tcgetattr(0)
tty.setraw(0)
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
child = subprocess.Popen(["sleep", "1000"], preexec_fn=lambda: (os.setpgid(0, 0), os.tcsetpgrp(0, os.getpgrp())))
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])
say(b"left")
signal.sigwait([signal.SIGHUP])
say(b"modes " + (b"same" if termios.tcgetattr(0) == before else b"other"))
say(b"group " + (b"ours" if os.tcgetpgrp(0) == os.getpgrp() else b"other"))
say(b"read " + os.read(0, 100).strip())`)
		w.waitLine(t, "left")
		if err := w.Terminal().WriteInput([]byte("stale\n"), false); err != nil {
			t.Fatal(err)
		}
		if err := w.Terminal().Restore(); err != nil {
			t.Fatal(err)
		}
		if err := w.Signal(monitorproto.Hangup, monitorproto.Worker); err != nil {
			t.Fatal(err)
		}
		if got := w.waitLine(t, "modes "); got != "same" {
			t.Errorf("got %s modes, want the same", got)
		}
		if got := w.waitLine(t, "group "); got != "ours" {
			t.Errorf("got %s group in the foreground, want ours", got)
		}
		writeAnswer(t, w, inputStep{text: "fresh\n"})
		if got := w.waitLine(t, "read "); got != "fresh" {
			t.Errorf("got %q, want fresh", got)
		}
	})

	t.Run("keeps output that was not read yet", func(t *testing.T) {
		t.Parallel()
		p, err := launch.Start(&launch.StartConfig{Path: findProgram(t, "bash"), Args: []string{"-c", "echo kept; read x"}})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		wait.Until(t, "the terminal has a reader", func() bool { return len(p.Readers()) > 0 })
		if err := p.Terminal().WriteInput([]byte(strings.Repeat("x", 100)), false); err != nil {
			t.Fatal(err)
		}
		if err := p.Terminal().Restore(); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 100)
		if n, err := p.Terminal().TryRead(b); string(b[:n]) != "kept\n" || err != nil {
			t.Errorf("got %q, %v, want kept", b[:n], err)
		}
		if n, err := p.Terminal().TryRead(b); n != 0 || err != nil {
			t.Errorf("got %d bytes, %v, want nothing", n, err)
		}
	})
}

func TestTryReadDuringAwait(t *testing.T) {
	t.Parallel()
	w := startProgram(t, "sleep", "1000") // startProgram collects its output
	if n, err := w.Terminal().TryRead(make([]byte, 10)); n != 0 || err != nil {
		t.Errorf("got %d bytes, %v, want nothing", n, err)
	}
}

func TestResize(t *testing.T) {
	t.Parallel()
	w := startBash(t, "trap 'stty size; exit' WINCH; echo ready; while :; do sleep 0.01; done")
	w.waitLine(t, "ready")
	if err := w.Terminal().Resize(pty.TerminalSize{Rows: 11, Cols: 22}); err != nil {
		t.Fatal(err)
	}
	w.waitLine(t, "11 22")
}

// orphan reads only after its adoption, because a search at that moment may miss it.
const orphan = `
import os, time
if os.fork() == 0:
  parent = os.getpid()
  if os.fork() == 0:
    os.setsid()
    while os.getppid() == parent: time.sleep(0.001)
    os.read(0, 1)
  os._exit(0)
time.sleep(1000)`

func TestReaders(t *testing.T) {
	t.Parallel()

	t.Run("finds every thread that waits for the terminal", func(t *testing.T) {
		t.Parallel()
		for name, script := range map[string]string{
			"the worker":                "import os; os.read(0, 1)",
			"a child":                   "import subprocess; subprocess.run(['head', '-n1'])",
			"a grandchild":              "import os; os.system('sh -c \"head -n1; :\"; :')",
			"a thread":                  "import os, threading; threading.Thread(target=os.read, args=(0, 1)).start()",
			"an orphan in its session":  orphan,
			"another descriptor":        "import os; os.dup2(0, 77); os.read(77, 1)",
			"the terminal by name":      "import os; f = os.open(os.ttyname(0), os.O_RDONLY); os.read(f, 1)",
			"/dev/tty":                  "import os; f = os.open('/dev/tty', os.O_RDONLY); os.read(f, 1)",
			"readv":                     "import os; os.readv(0, [bytearray(1)])",
			"select among others":       "import os, select; r, w = os.pipe(); select.select([r, 0], [], [])",
			"poll among others":         "import os, select; r, w = os.pipe(); p = select.poll(); p.register(r); p.register(0, select.POLLIN); p.poll()",
			"epoll among others":        "import os, select; r, w = os.pipe(); p = select.epoll(); p.register(r); p.register(0, select.EPOLLIN); p.poll()",
			"asyncio":                   "import asyncio\nl = asyncio.new_event_loop(); l.add_reader(0, print); l.run_forever()",
			"a worker with no name set": "import ctypes, os; ctypes.CDLL(None).prctl(15, b') x (', 0, 0, 0); os.read(0, 1)",
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w := startPython(t, script)
				r := waitReader(t, w)
				if r.PID == 0 || r.TID == 0 || r.Command == "" || r.Key == "" || r.Secret {
					t.Errorf("got %+v, want all fields and no secret", r)
				}
				if again := w.Readers(); len(again) != 1 || again[0] != r {
					t.Errorf("got %+v, want the same blocked call again: %+v", again, r)
				}
			})
		}
	})

	t.Run("finds none if nothing waits for the terminal", func(t *testing.T) {
		t.Parallel()
		for name, script := range map[string]string{
			"sleep":                           "time.sleep(1000)",
			"a child's sleep":                 "subprocess.run(['sleep', '1000'])",
			"a busy loop":                     "while True: pass",
			"a lock":                          "threading.Event().wait()",
			"a socket":                        "socket.socketpair()[0].recv(1)",
			"a pipe":                          "r, w = os.pipe(); os.read(r, 1)",
			"a piped child":                   "subprocess.Popen(['cat'], stdin=subprocess.PIPE).wait()",
			"select without the terminal":     "r, w = os.pipe(); select.select([r], [], [])",
			"select without waiting":          "while True: select.select([0], [], [], 0); time.sleep(.01)",
			"a read that does not wait":       "import fcntl, tty; tty.setcbreak(0); os.set_blocking(0, False); time.sleep(1000)",
			"poll for something else":         "p = select.poll(); p.register(0, select.POLLPRI); p.poll()",
			"another terminal":                "pid, m = pty.fork(); os.read(0, 1) if pid == 0 else time.sleep(1000)",
			"/dev/tty of another terminal":    "pid, m = pty.fork(); os.read(os.open('/dev/tty', os.O_RDONLY), 1) if pid == 0 else time.sleep(1000)",
			"a full terminal":                 "os.write(1, b'x' * 100); time.sleep(1000)",
			"a worker that waits for a frame": "os.read(int(os.environ['REPL_IPC'].split(',')[0]), 1)",
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w := startPython(t, "import os, pty, select, socket, subprocess, threading, time\nos.write(1, b'ready\\n')\n"+script)
				w.waitLine(t, "ready")
				enough := time.Now().Add(150 * time.Millisecond) // long enough for a child to get there
				wait.Until(t, "the worker reads nothing", func() bool {
					if got := w.Readers(); len(got) > 0 {
						t.Fatalf("got %+v, want none", got)
					}
					return time.Now().After(enough)
				})
			})
		}
	})

	t.Run("tells threads that poll", func(t *testing.T) {
		t.Parallel()
		const raw = "import termios, tty; tty.setraw(0)\n"
		for name, script := range map[string]string{
			"select":            "select.select([0], [], [], 1000)",
			"poll":              "p = select.poll(); p.register(0, select.POLLIN); p.poll(1000000)",
			"epoll":             "p = select.epoll(); p.register(0, select.EPOLLIN); p.poll(1000)",
			"/dev/tty":          "f = os.open('/dev/tty', os.O_RDWR); select.select([f], [], [], 1000)",
			"raw, select":       raw + "select.select([0], [], [], 1000)",
			"raw, a timed read": raw + "m = termios.tcgetattr(0); m[6][termios.VMIN], m[6][termios.VTIME] = 0, 255; termios.tcsetattr(0, termios.TCSANOW, m); os.read(0, 1)",
			"a thread":          "import threading; threading.Thread(target=select.select, args=([0], [], [], 1000)).start(); time.sleep(1000)",
			"a child":           "import subprocess; subprocess.run(['bash', '-c', 'read -t 1000'])",
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w := startPython(t, "import os, select, time\n"+script)
				r := waitReader(t, w)
				if !r.Polls || r.Raw != strings.HasPrefix(name, "raw") || r.Key == "" {
					t.Errorf("got %+v, want a thread that polls", r)
				}
				if again, state := w.RefreshReader(r); state != pty.Polling || again.Key != r.Key {
					t.Errorf("got %+v, %d, want the same thread, which still polls", again, state)
				}
				if err := w.Terminal().WriteInput([]byte("x\n"), false); err != nil {
					t.Fatal(err)
				}
				wait.Until(t, "the thread no longer polls", func() bool { _, state := w.RefreshReader(r); return state == pty.PollEnded })
			})
		}
	})

	t.Run("finds none in the background", func(t *testing.T) {
		t.Parallel()
		pid := filepath.Join(t.TempDir(), "pid")
		w := startPython(t, `import os, select, subprocess, sys, time
p = subprocess.Popen([sys.executable, "-c", "import select; print('ready', flush=True); select.select([0], [], [], 1000)"], preexec_fn=os.setpgrp)
open("`+pid+`", "w").write(str(p.pid))
os.read(3, 1)
os.tcsetpgrp(0, p.pid)
time.sleep(1000)
`)
		w.waitLine(t, "ready")
		wait.Until(t, "the child polls", func() bool {
			child, _ := os.ReadFile(pid)
			call, err := os.ReadFile("/proc/" + string(child) + "/syscall")
			return err == nil && !strings.HasPrefix(string(call), "running")
		})
		for range 20 {
			if got := w.Readers(); len(got) > 0 {
				t.Fatalf("got %+v, want none in the background", got)
			}
		}
		if _, err := w.Channel().Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if r := waitReader(t, w); !r.Polls {
			t.Errorf("got %+v, want the child once it is in the foreground", r)
		}
	})

	t.Run("finds none while input is queued", func(t *testing.T) {
		t.Parallel()
		// A poll that wants nine bytes leaves two of them in the terminal.
		w := startPython(t, `import os, select, termios
modes = termios.tcgetattr(0)
modes[3] &= ~termios.ICANON
modes[6][termios.VMIN] = 9
termios.tcsetattr(0, termios.TCSANOW, modes)
p = select.poll()
p.register(0, select.POLLIN)
p.poll()
os.write(1, os.read(0, 100) + b'\n')
`)
		waitReader(t, w)
		if err := w.Terminal().WriteInput([]byte("x\n"), false); err != nil {
			t.Fatal(err)
		}
		if got := w.Readers(); len(got) > 0 {
			t.Errorf("got %+v, want none", got)
		}
		if err := w.Terminal().WriteInput([]byte("the rest"), false); err != nil {
			t.Fatal(err)
		}
		w.waitLine(t, "x")
		w.waitLine(t, "the rest")
	})

	// A program that is stopped during its read gets no input until it is continued.
	t.Run("a stopped reader counts once it is continued", func(t *testing.T) {
		t.Parallel()
		const start = "import os, signal, subprocess, time\n"
		for name, script := range map[string]string{
			"a reader stopped by a signal":       "p = subprocess.Popen('cat'); os.read(3, 1); os.kill(p.pid, signal.SIGSTOP)",
			"a reader stopped in the background": "p = subprocess.Popen('cat', preexec_fn=os.setpgrp)",
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w := startPython(t, start+script+`
os.waitpid(p.pid, os.WUNTRACED)
os.write(1, b'stopped\n')
os.read(3, 1)
os.tcsetpgrp(0, os.getpgid(p.pid))
os.killpg(os.getpgid(p.pid), signal.SIGCONT)
time.sleep(1000)
`)
				goOn := func() {
					t.Helper()
					if _, err := w.Channel().Write([]byte("x")); err != nil {
						t.Fatal(err)
					}
				}
				if strings.Contains(script, "SIGSTOP") {
					waitReader(t, w)
					goOn()
				}
				w.waitLine(t, "stopped")
				if got := w.Readers(); len(got) > 0 {
					t.Errorf("got %+v, want none", got)
				}
				goOn()
				if r := waitReader(t, w); r.Command != "cat" {
					t.Errorf("got %+v, want cat after it was continued", r)
				}
			})
		}
	})

	t.Run("a repeated call has another key", func(t *testing.T) {
		t.Parallel()
		w := startProgram(t, "cat")
		first := waitReader(t, w)
		writeAnswer(t, w, inputStep{text: "a\n"})
		w.waitLine(t, "a")
		var second pty.TerminalReader
		wait.Until(t, "the second wait begins", func() bool {
			r := w.Readers()
			if len(r) == 0 {
				return false
			}
			second = r[0]
			return true
		})
		if first.Key == second.Key || first.TID != second.TID {
			t.Errorf("got %+v, then %+v, want the same thread and another key", first, second)
		}
	})
}

func TestMemoryBytes(t *testing.T) {
	t.Parallel()
	w := startPython(t, "import os; x = b'x' * (64 << 20); pid = os.fork(); y = b'y' * (32 << 20) if pid == 0 else b''; os.write(1, b'ready\\n') if pid == 0 else None; os.read(0, 1)")
	w.waitLine(t, "ready")
	if got := w.MemoryBytes() >> 20; got < 150 || got > 400 {
		t.Errorf("got %d MiB, want two processes of 64 MiB and more", got)
	}
}

func TestHasNoOtherReader(t *testing.T) {
	t.Parallel()

	t.Run("is false while there are children or orphans", func(t *testing.T) {
		t.Parallel()
		p, err := launch.Start(&launch.StartConfig{Path: findProgram(t, "bash"), Args: []string{"-c",
			`read x; sleep 1000 & read x; kill $!; wait; read x; (setsid sleep 1000 &); read x`}})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		for i, want := range []bool{true, false, true, false} {
			wait.Until(t, "the terminal has a reader", func() bool { return len(p.Readers()) > 0 })
			wait.Until(t, fmt.Sprintf("no other program reads: %t", want), func() bool { return p.HasNoOtherReader() == want })
			if err := p.Terminal().WriteInput([]byte("\n"), false); err != nil {
				t.Fatal(i, err)
			}
		}
	})

	t.Run("is false while another thread waits for the terminal", func(t *testing.T) {
		t.Parallel()
		w := startProgram(t, "python3", "-u", "-c", `
import os, select, subprocess, threading
def step(work):
    threading.Thread(target=work, daemon=True).start()
    os.read(3, 1)
os.read(3, 1)
lock = threading.Lock()
lock.acquire()
step(lock.acquire)                                     # a second thread, elsewhere
child, started = [], threading.Event()
def spawn():
    child.append(subprocess.Popen(["sleep", "1000"], stdin=subprocess.DEVNULL))
    started.set()
    lock.acquire()
step(spawn)                                            # a child of another thread
started.wait()
child[0].kill()
child[0].wait()
step(lock.acquire)                                     # and it is gone
step(lambda: select.select([0], [], []))               # a thread that waits for the terminal
`)
		for i, want := range []bool{true, true, false, true, false} {
			wait.Until(t, fmt.Sprintf("no other program reads in step %d: %t", i, want), func() bool { return w.HasNoOtherReader() == want })
			if readers := w.Readers(); (i == 4) != (len(readers) > 0) {
				t.Errorf("step %d: got readers %+v", i, readers)
			}
			if _, err := w.Channel().Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
		}
	})
}
