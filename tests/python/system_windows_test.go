package python_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/sessionkit"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/workers/python"
)

// Programs that run for a while, as an argument of subprocess.run and for a shell.
const (
	sleepingChild = `[__import__('sys').executable, '-c', 'import time; time.sleep(100)']`
	shortCommand  = "cmd /c exit"
	longCommand   = `python -c "import time; time.sleep(5)"`
)

// childThatSleeps waits for a child that prints "up".
const childThatSleeps = `import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; print("up", flush=True); time.sleep(100)'])`

// waitForDone waits for the threading.Event called done. Python for Windows
// cannot be interrupted in done.wait().
const waitForDone = "exec('import time\\nwhile not done.is_set(): time.sleep(0.01)')"

const (
	wineNeedsEnter   = "Wine hands CTRL_C to a reader of the console only after Enter"
	wineHangsAtStart = "Wine's CreateProcess does not return when CTRL_C reaches a program that is about to start"
)

// uninterruptible lists code that an interrupt cannot end on this system, with the reasons.
var uninterruptible = map[string]string{
	"a lock":          "Python for Windows waits for a lock without looking for CTRL_C",
	"a reading child": wineNeedsEnter,
	"a read":          wineNeedsEnter,
	"system":          wineHangsAtStart,
	"run":             wineHangsAtStart,
	"popen":           wineHangsAtStart,
}

// sendStrayInterrupt does nothing, because only the monitor can interrupt a worker.
func sendStrayInterrupt(int) error { return nil }

// CTRL_C does not reach a program in its own process group.
func TestInterrupt_UnreachedChild(t *testing.T) {
	r := openSession(t, python.Options{})
	for range 5 {
		turn := r.StartTurn(t, `import subprocess, sys
subprocess.run([sys.executable, '-c', 'import time; print("up", flush=True); time.sleep(100)'],
    creationflags=subprocess.CREATE_NEW_PROCESS_GROUP)`)
		r.WaitEvent(t, "up", sessionkit.IsText("up"))
		// subprocess.run gives the child a quarter of a second, then ends it. On a busy machine
		// this may take longer than Interrupt waits.
		if result, err := r.Interrupt(t.Context(), turn); result != session.InterruptIdle && result != session.InterruptPending {
			t.Fatalf("the interrupt led to %q, %v", result, err)
		}
		if res := r.WaitTurnEnd(t, turn); res.Outcome != "interrupted" {
			t.Fatalf("got %q, outcome %q", res.Transcript(), res.Outcome)
		}
		wantCleanTurn(t, r)
	}
}

// Windows delivers CTRL_C in a new thread of the worker, which may start long after the turn. Here a
// thread of the code acts like it, and the worker gets none. It has a child, so it is interrupted by CTRL_C.
func TestInterrupt_LateCtrlC(t *testing.T) {
	t.Parallel()
	r := openSession(t, python.Options{})
	r.RunCode(t, `import ctypes, signal, subprocess, sys, threading, time
ignored = ctypes.windll.kernel32.SetConsoleCtrlHandler(None, True)
child = subprocess.Popen([sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
_ = child.stdout.readline()
def strike():
    time.sleep(0.1)
    signal.raise_signal(signal.SIGINT)`).WantTranscript(t, "")
	for range 5 {
		turn := r.StartTurn(t, `try:
    print("up", flush=True)
    time.sleep(100)
except KeyboardInterrupt:
    threading.Thread(target=strike).start()
    raise`)
		r.WaitEvent(t, "up", sessionkit.IsText("up"))
		wantInterrupt(t, r, turn, session.InterruptIdle)
		if res := r.FinishTurn(t, turn); res.Outcome != "interrupted" {
			t.Fatalf("got %q, outcome %q", res.Transcript(), res.Outcome)
		}
		r.RunCode(t, "1").WantTranscript(t, "1\n")
		r.RunCode(t, "time.sleep(0.3); 2").WantTranscript(t, "2\n")
	}
	r.RunCode(t, "child.communicate()").WantTranscript(t, "(b'', None)\n")
}

// The launcher of an environment starts the interpreter as its child. Both are in the job, and the
// interpreter is the worker.
func TestEnd_VenvInterpreter(t *testing.T) {
	found, _, err := python.Find(python.FindOptions{})
	if err != nil {
		t.Fatal(err)
	}
	venv := t.TempDir()
	if out, err := exec.Command(found.Path, "-m", "venv", "--without-pip", venv).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	r := openSession(t, python.Options{Path: venv})
	res := r.RunCode(t, "import sys, os; print(sys.prefix); print(os.getpid())")
	if !strings.Contains(strings.ToLower(res.OutputText()), strings.ToLower(venv)) {
		t.Errorf("got %q, want the prefix %q", res.OutputText(), venv)
	}
	if res := r.RunCodeThatMayExit(t, "sys.exit(7)"); res.WorkerExit == nil || res.WorkerExit.ExitCode != 7 {
		t.Errorf("got %+v, want exit status 7", res.WorkerExit)
	}
}

func TestConsole(t *testing.T) {
	t.Run("output of children belongs to their turn", func(t *testing.T) {
		r := openSession(t, python.Options{})
		for range 30 {
			res := r.RunCode(t, `import os, subprocess
print("first")
_ = os.system("echo second")
_ = subprocess.run("echo third", shell=True)
_ = os.write(1, b"fourth\r\n")`)
			for _, want := range []string{"first\n", "second", "third", "fourth"} {
				if !strings.Contains(res.OutputText(), want) {
					t.Fatalf("got %q, want %q in it", res.OutputText(), want)
				}
			}
		}
	})

	t.Run("redirected output goes to its target", func(t *testing.T) {
		r := openSession(t, python.Options{})
		file := t.TempDir() + `\out`
		res := r.RunCode(t, "import os, sys\nsaved = os.dup(1)\nfd = os.open(r'"+file+
			"', os.O_CREAT | os.O_WRONLY)\n_ = os.dup2(fd, 1); print('to the file', flush=True); _ = os.dup2(saved, 1); os.close(fd); print('shown')")
		if res.OutputText() != "shown\n" {
			t.Errorf("got %q, want the output that was not redirected, as a frame", res.OutputText())
		}
		if got, err := os.ReadFile(file); err != nil || strings.TrimSpace(string(got)) != "to the file" {
			t.Errorf("got %q, %v in the file", got, err)
		}
	})

	t.Run("the terminal is a console", func(t *testing.T) {
		r := openSession(t, python.Options{})
		r.RunCode(t, "import sys, os; print(sys.stdin.isatty(), sys.stdout.isatty(), sys.stderr.isatty(), sys.stdout.encoding, tuple(os.get_terminal_size()))").
			WantTranscript(t, "True True True utf-8 (1000, 40)\n")
	})

	// A console breaks lines at its edge. This invisible console is wide, and programs find the
	// intended width in COLUMNS.
	t.Run("does not break long lines of a child", func(t *testing.T) {
		r := openSession(t, python.Options{})
		r.RunCode(t, "import os, shutil, subprocess, sys; shutil.get_terminal_size()").WantTranscript(t, "os.terminal_size(columns=120, lines=40)\n")
		const child = `_ = subprocess.run([sys.executable, '-c', 'print("0123456789" * 90)'])`
		if res := r.RunCode(t, child); !strings.Contains(res.OutputText(), strings.Repeat("0123456789", 90)) {
			t.Errorf("a long line came as %q", res.Transcript())
		}
	})
}

// Windows reports exceptions of machine code to faulthandler before any handler has run.
func TestCrash(t *testing.T) {
	r := openSession(t, python.Options{})
	const handled = `import ctypes
for i in range(3):
    try: ctypes.string_at(8)
    except OSError: print('handled')`
	r.RunCode(t, handled).WantTranscript(t, "handled\nhandled\nhandled\n")
	if res := r.RunCodeThatMayExit(t, handled+"\nimport os; os._exit(1)"); strings.Contains(res.OutputText(), "exception") || res.WorkerExit == nil {
		t.Errorf("exceptions that were handled are shown as the cause of an end: %q", res.Transcript())
	}
	for code, want := range map[string]string{
		"def dies(): import os; os.abort()\ndies()":                                          "Fatal Python error: Aborted",
		"def dies(): import faulthandler; faulthandler._raise_exception(0xC0000005)\ndies()": "Windows fatal exception: access violation",
	} {
		res := r.RunCodeThatMayExit(t, code)
		if text := res.OutputText(); res.Outcome != "ended" || !strings.Contains(text, want) || !strings.Contains(text, "in dies") {
			t.Errorf("%q: got %q, want %q in it, and the stack", code, res.Transcript(), want)
		}
	}
}

// seesReaders says that the system shows who reads the terminal.
const seesReaders = false
