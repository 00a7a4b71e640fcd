package python_test

import (
	"strings"
	"syscall"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/sessionkit"
	"github.com/turnstone-repl/turnstone/workers/python"
)

// Programs that run for a while, as an argument of subprocess.run and for a shell.
const (
	sleepingChild = "['sleep', '100']"
	shortCommand  = "sleep 0.1"
	longCommand   = "sleep 5"
)

// childThatSleeps prints "up" and waits for a child.
const childThatSleeps = "import subprocess; print('up', flush=True); subprocess.run(['sleep', '100'])"

// waitForDone waits for the threading.Event called done.
const waitForDone = "done.wait()"

// uninterruptible lists code that an interrupt cannot end on this system, with the reasons.
var uninterruptible map[string]string

// sendStrayInterrupt interrupts a worker from outside.
func sendStrayInterrupt(pid int) error { return syscall.Kill(pid, syscall.SIGINT) }

// A turn that has stopped the terminal's output is interrupted like any other, and its error is shown.
func TestInterrupt_StoppedTerminal(t *testing.T) {
	t.Parallel()
	for name, code := range map[string]string{
		"while it sleeps": "import termios, time\nprint('on', flush=True)\ntermios.tcflow(0, termios.TCOOFF)\ntime.sleep(600)",
		"while it prints": "import termios\nprint('on', flush=True)\ntermios.tcflow(0, termios.TCOOFF)\nwhile True: print('x' * 1000)",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := openSession(t, python.Options{})
			turn := r.StartTurn(t, code)
			r.WaitEvent(t, "the code runs", sessionkit.IsText("on"))
			r.InterruptTurn(t, turn)
			if res := r.WaitTurnEnd(t, turn); !strings.Contains(res.OutputText(), "KeyboardInterrupt") {
				t.Errorf("got %.200q", res.OutputText())
			}
			if got := r.RunCode(t, "print('after')").OutputText(); got != "after\n" {
				t.Errorf("then got %q", got)
			}
		})
	}
}

// Without free descriptors, no module can be imported and poll accepts no file.
func TestNoFileDescriptors(t *testing.T) {
	t.Parallel()
	eachPython(t, func(t *testing.T, o python.Options) {
		r := openSession(t, o)
		r.RunCode(t, "import resource, time; resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0)); old = 41")
		if got := r.RunCode(t, "answer = input('? '); print(old + 1, answer)", "ada").OutputText(); !strings.Contains(got, "42 ada\n") {
			t.Errorf("got %q", got)
		}
		turn := r.StartTurn(t, "print('on', flush=True); time.sleep(600)")
		r.WaitEvent(t, "the code runs", sessionkit.IsText("on"))
		r.InterruptTurn(t, turn)
		r.WaitTurnEnd(t, turn)
		if got := r.RunCode(t, "print(old)").OutputText(); got != "41\n" {
			t.Errorf("got %q", got)
		}
	})
}

// seesReaders says that the system shows who reads the terminal.
const seesReaders = true
