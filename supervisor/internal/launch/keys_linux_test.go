package launch_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
	"github.com/turnstone-repl/turnstone/supervisor/internal/launch"
	"github.com/turnstone-repl/turnstone/supervisor/internal/monitorproto"
)

// startInteractive starts a script at an interactive terminal.
func startInteractive(t *testing.T, script string) testWorker {
	t.Helper()
	return startCommand(t, &launch.StartConfig{Path: findProgram(t, "python3"), Args: []string{"-c", script}, Env: os.Environ(), Interactive: true})
}

// waitRawMode waits until a program reads single keys, or no longer does.
func waitRawMode(t *testing.T, w testWorker, want bool) {
	t.Helper()
	wait.Until(t, fmt.Sprintf("the screen is raw: %t", want), func() bool { return w.Terminal().IsRawMode() == want })
}

func TestIsRawMode(t *testing.T) {
	t.Parallel()

	t.Run("is true while a program reads single keys", func(t *testing.T) {
		t.Parallel()
		w := startInteractive(t, `
import os, termios, tty
before = termios.tcgetattr(0)
for change in tty.setraw, tty.setcbreak:
    change(0)
    os.read(0, 1)
    termios.tcsetattr(0, termios.TCSANOW, before)
    os.read(0, 2)
quiet = termios.tcgetattr(0)
quiet[3] &= ~termios.ECHO
termios.tcsetattr(0, termios.TCSANOW, quiet)
os.write(1, b"secret\n")
os.read(0, 2)`)
		for range 2 {
			waitRawMode(t, w, true)
			if err := w.Terminal().TypeKeys([]byte("k")); err != nil {
				t.Fatal(err)
			}
			waitRawMode(t, w, false)
			writeAnswer(t, w, inputStep{text: "x\n"})
		}
		w.waitLine(t, "secret")
		if w.Terminal().IsRawMode() {
			t.Error("got raw mode for a line that is not echoed")
		}
	})

	t.Run("is false after Restore", func(t *testing.T) {
		t.Parallel()
		w := startInteractive(t, "import os, time, tty; tty.setraw(0); time.sleep(1000)")
		waitRawMode(t, w, true)
		if err := w.Terminal().Restore(); err != nil {
			t.Fatal(err)
		}
		waitRawMode(t, w, false)
	})
}

// An interactive terminal ends its lines as any terminal does, since programs that draw rely on it.
func TestInteractiveNewlines(t *testing.T) {
	t.Parallel()
	for interactive, want := range map[bool]string{true: "a\r\nb\r\n", false: "a\nb\n"} {
		w := startCommand(t, &launch.StartConfig{Path: findProgram(t, "bash"), Args: []string{"-c", "echo a; echo b"}, Interactive: interactive})
		if got := w.waitAll(t); got != want {
			t.Errorf("interactive %t: got %q, want %q", interactive, got, want)
		}
	}
}

func TestTypeKeys(t *testing.T) {
	t.Parallel()
	const typed = "a\r\x03\x1c\x1a\x00\xffq"
	for name, test := range map[string]struct{ change, want string }{
		"raw":                      {"tty.setraw(0)", `b'a\r\x03\x1c\x1a\x00\xffq'`},
		"each key":                 {"m = termios.tcgetattr(0); m[3] &= ~termios.ICANON; termios.tcsetattr(0, 0, m)", `b'a\n\x1a\x00\xffq' [2, 3]`},
		"a custom signal key":      {"m = termios.tcgetattr(0); m[3] &= ~termios.ICANON; m[6][termios.VINTR] = b'\\x1a'; termios.tcsetattr(0, 0, m)", `b'a\n\x03\x00\xffq' [2, 3]`},
		"the kernel does the work": {"m = termios.tcgetattr(0); m[3] &= ~(termios.ICANON | 0o200000 | termios.ECHO); m[3] |= termios.NOFLSH; termios.tcsetattr(0, 0, m)", `b'a\n\x1a\x00\xffq' [2, 3]`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := startInteractive(t, `
import os, signal, termios, tty
struck = []
for s in signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP:
    signal.signal(s, lambda n, _: struck.append(n))
`+test.change+`
got = b""
while not got.endswith(b"q"):
    got += os.read(0, 100)
print("got", got, sorted(struck) or "", "\r", flush=True)`)
			waitRawMode(t, w, true)
			for i := range len(typed) { // one at a time: signals of one kind do not queue
				if err := w.Terminal().TypeKeys([]byte(typed[i : i+1])); err != nil {
					t.Fatal(err)
				}
			}
			if got := w.waitLine(t, "got "); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestHasForegroundJob(t *testing.T) {
	t.Parallel()
	w := startInteractive(t, `
import os, signal, subprocess, sys
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
job = "import signal; signal.signal(signal.SIGINT, signal.SIG_DFL); print('job', flush=True); signal.pause()"
child = subprocess.Popen([sys.executable, "-c", job], preexec_fn=lambda: (os.setpgid(0, 0), os.tcsetpgrp(0, os.getpid())))
status = child.wait()
os.tcsetpgrp(0, os.getpgrp())
print("over", status, flush=True)
os.read(0, 1)`)
	w.waitLine(t, "job") // before that, it could miss the signal
	if !w.Terminal().HasForegroundJob() {
		t.Error("got no job in the foreground")
	}
	if err := w.Signal(monitorproto.Interrupt, monitorproto.Foreground); err != nil {
		t.Fatal(err)
	}
	if got := w.waitLine(t, "over "); got != "-2" {
		t.Errorf("got status %s of the job, want that of SIGINT", got)
	}
	waitReader(t, w)
	if w.Terminal().HasForegroundJob() {
		t.Error("got a job, but the shell's own group is in the foreground")
	}
}
