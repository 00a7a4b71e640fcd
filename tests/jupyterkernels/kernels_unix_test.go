//go:build unix

package jupyterkernels_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/internal/testkit/replbin"
	"github.com/turnstone-repl/turnstone/internal/testkit/sandboxcheck"
	"github.com/turnstone-repl/turnstone/internal/testkit/testmain"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers"
)

func TestMain(m *testing.M) {
	testmain.Run(m, testmain.Options{Monitor: supervisor.MonitorMain, BuildRepl: true})
}

// An interrupt while IRkernel waits for a line of input ends the kernel: it escapes R's handlers. A
// repeated interrupt may end the input request of a later turn. Children of R write to the terminal, and
// R itself to a socket.
var brokenByExit = []string{outputOrder, "an interrupt ends a sleep", "an interrupt ends a loop", "an interrupt ends an input request, and the next input is code", "a repeated interrupt counts once", "an interrupt of a finished turn is stale"}

const outputOrder = "output of the runtime and of children keeps its order"

// A testKernel describes a kernel under test, with sample code in its language.
type testKernel struct {
	name       string
	broken     []string // promises of a worker that the kernel itself cannot keep
	lateOutput bool     // output may come after the status idle, so any promise may be broken

	print, result  string // code and its text
	ask            string // asks with the prompt "name? " and prints the answer; "" if not possible
	childReads     string // lets a child read the terminal; "" if not possible
	loop           string // runs forever; "" if an interrupt ends the kernel
	fail, failText string // raises an error, and a part of its traceback
}

// An interrupt kills xeus-python, and may reach the shell of bash_kernel only in its next command.
// bash_kernel itself ends such a turn too early.
var brokenByInterrupt = []string{
	"an interrupt ends a sleep", "an interrupt ends a loop", "an interrupt ends an input request, and the next input is code",
	"a repeated interrupt counts once", "an interrupt of a finished turn is stale",
}

var testKernels = []testKernel{{
	name: "python3", print: "print('one'); 41 + 1", result: "one\n42\n",
	ask: "print('hello', input('name? '))", childReads: "import os; _ = os.system('read x')", loop: "while True: pass",
	fail: "1/0", failText: "ZeroDivisionError",
}, {
	name: "ir", broken: brokenByExit, print: "cat('one\\n'); 41 + 1", result: "one\n[1] 42\n",
	ask: "cat('hello', readline('name? '), '\\n')", childReads: "invisible(system('read x'))", loop: "repeat {}",
	fail: "stop('no')", failText: "no",
}, {
	name: "bash", broken: brokenByInterrupt, print: "echo one; echo $((41 + 1))", result: "one\n42\n", loop: "while :; do :; done",
	fail: "nothing-of-that-name", failText: "not found",
}, {
	name: "xpython", broken: append([]string{outputOrder}, brokenByInterrupt...),
	print: "print('one'); print(41 + 1)", result: "one\n42\n",
	ask: "print('hello', input('name? '))", childReads: "import os; _ = os.system('read x')",
	fail: "1/0", failText: "ZeroDivisionError",
}, {
	// Jupyter's own client sees the same, on a busy machine in a sixth of all turns. No output of
	// 96 turns was lost.
	name: "deno", lateOutput: true, print: "console.log('one'); console.log(String(41 + 1))", result: "one\n42\n",
	fail: "throw new TypeError('no')", failText: "TypeError: no",
}}

// kernelsDir returns the directory in which scripts/setup-dev installs Python's kernels and Deno's.
func kernelsDir(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Skip(err)
	}
	return filepath.Join(cache, "turnstone", "kernels")
}

// specDir returns the directory of the installed kernelspec, or skips the test.
func (k *testKernel) specDir(t *testing.T) string {
	t.Helper()
	for _, data := range []string{filepath.Join(kernelsDir(t), "share", "jupyter"), "/usr/local/share/jupyter", "/usr/share/jupyter"} {
		dir := filepath.Join(data, "kernels", k.name)
		if _, err := os.Stat(filepath.Join(dir, "kernel.json")); err == nil {
			return dir
		}
	}
	t.Skipf("the kernel %s is not installed; scripts/setup-dev installs it", k.name)
	return ""
}

func onEachKernel(t *testing.T, test func(t *testing.T, k testKernel)) {
	t.Parallel()
	for _, k := range testKernels {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			k.specDir(t)
			test(t, k)
		})
	}
}

func TestKernels(t *testing.T) {
	t.Run("pass the worker conformance checks", func(t *testing.T) {
		onEachKernel(t, func(t *testing.T, k testKernel) {
			if k.lateOutput {
				return
			}
			check := exec.CommandContext(t.Context(), replbin.Path(), "worker", "check", "--timeout", "60s", "--dialect", "jupyter:"+k.name, replbin.Path(), "kernel-worker", k.name)
			// Kernels with Jedi share a cache, and find no completions while another one writes to it.
			check.Env = append(os.Environ(), "JUPYTER_PATH="+filepath.Join(kernelsDir(t), "share", "jupyter"), "XDG_CACHE_HOME="+t.TempDir())
			out, err := check.Output()
			if len(out) == 0 {
				t.Fatal(err)
			}
			lines := bytes.Split(out, []byte("\n"))
			for i, line := range lines {
				if promise, broken := strings.CutPrefix(string(line), "failed   "); broken && !slices.Contains(k.broken, promise) {
					t.Errorf("%s: %s", promise, lines[i+1])
				}
			}
			t.Logf("%s", lines[max(0, len(lines)-2)])
		})
	})

	t.Run("run, fail, ask and interrupt", func(t *testing.T) {
		onEachKernel(t, func(t *testing.T, k testKernel) {
			r := k.openSession(t, nil)
			for range 3 {
				r.wantOutput(k)
			}
			if got, reply := r.runCode(k.fail); !strings.Contains(got, k.failText) && !k.lateOutput || reply.Outcome != timeline.OutcomeError {
				t.Errorf("got %q, %s; want an error with %q", got, reply.Outcome, k.failText)
			}
			if k.ask != "" {
				_, reply := r.runCode(k.ask)
				if got := r.answerRequest(reply, "Ada"); strings.TrimSpace(got) != "hello Ada" {
					t.Errorf("got %q", got)
				}
			}
			if k.loop != "" {
				turn, err := r.Submit(t.Context(), k.loop)
				if err != nil {
					t.Fatal(err)
				}
				ctx := t.Context()
				if _, err := r.Wait(ctx, turn, session.WaitAtMost(500*time.Millisecond)); err != nil {
					t.Fatal(err)
				}
				r.interruptUntilOver(turn)
				r.wantOutput(k)
			}
		})
	})

	t.Run("detect a child that reads the terminal", func(t *testing.T) {
		onEachKernel(t, func(t *testing.T, k testKernel) {
			r := k.openSession(t, nil)
			if k.childReads == "" { // children of this kernel do not have the worker's terminal
				return
			}
			_, reply := r.runCode(k.childReads)
			if reply.InputRequest != nil && reply.InputRequest.Reader == "" {
				t.Errorf("got %+v, want a program that reads the terminal", reply.InputRequest)
			}
			r.answerRequest(reply, "x")
		})
	})

	t.Run("run in a sandbox", func(t *testing.T) {
		sandboxcheck.RequireNamespaces(t)
		onEachKernel(t, func(t *testing.T, k testKernel) {
			r := k.openSession(t, &sandbox.Policy{Level: sandbox.Workspace, Network: sandbox.NetworkNone, NoNotice: true})
			r.wantOutput(k)
		})
	})
}

// A kernelSession is a session whose worker runs a real kernel.
type kernelSession struct {
	*testing.T
	*supervisor.Session
}

func (k *testKernel) openSession(t *testing.T, policy *sandbox.Policy) kernelSession {
	t.Helper()
	sup, err := supervisor.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sup.Close() })
	s, err := sup.Open(t.Context(), "main", workers.Spec{
		Name: "jupyter:" + k.name, Path: replbin.Path(), Args: []string{"kernel-worker", k.specDir(t), workers.FilesDir},
		Files: map[string][]byte{"kernel": nil}, Dir: t.TempDir(), Sandbox: policy,
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Wait(t.Context(), 0, nil); err != nil {
		t.Fatal(err)
	}
	return kernelSession{t, s}
}

func (s kernelSession) runCode(code string) (string, session.Reply) {
	s.Helper()
	turn, err := s.Submit(s.Context(), code)
	if err != nil {
		s.Fatal(err)
	}
	reply, err := s.Wait(s.Context(), turn, nil)
	if err != nil {
		s.Fatal(err)
	}
	return outputText(reply.Events...), reply
}

// wantOutput runs the code that prints, and waits for its output if that may come after the turn.
func (s kernelSession) wantOutput(k testKernel) {
	s.Helper()
	got, reply := s.runCode(k.print)
	if k.lateOutput && !strings.HasSuffix(got, k.result) {
		ctx, cancel := context.WithTimeout(s.Context(), 3*time.Minute)
		defer cancel()
		for e := range s.Events(ctx, reply.Next) {
			if got += outputText(e); strings.HasSuffix(got, k.result) {
				break
			}
		}
	}
	if got != k.result && (!k.lateOutput || !strings.HasSuffix(got, k.result)) || reply.Outcome != timeline.OutcomeOK {
		s.Errorf("got %q, %s; want %q", got, reply.Outcome, k.result)
	}
}

func outputText(events ...timeline.Event) string {
	var b strings.Builder
	for _, e := range events {
		switch body := e.Body.(type) {
		case timeline.Text:
			b.Write(body.Data)
		case timeline.Display: // IRkernel sends values as displays
			b.WriteString(string(body.Data["text/plain"]) + "\n")
		}
	}
	return b.String()
}

// answerRequest answers the input request in reply, and returns the output that follows.
func (s kernelSession) answerRequest(reply session.Reply, line string) string {
	s.Helper()
	if reply.InputRequest == nil {
		s.Fatalf("got no input request: %q, %s", outputText(reply.Events...), reply.Outcome)
	}
	turn, err := s.Answer(s.Context(), reply.InputRequest.ID, session.Input{Data: []byte(line + "\n")})
	if err != nil {
		s.Fatal(err)
	}
	after, err := s.Wait(s.Context(), turn, &session.WaitOptions{After: reply.Next})
	if err != nil || after.Outcome != timeline.OutcomeOK {
		s.Fatalf("got %q, %s, %v", outputText(after.Events...), after.Outcome, err)
	}
	return outputText(after.Events...)
}

func TestIPykernelInterrupt(t *testing.T) {
	t.Parallel()

	// An ipykernel that is interrupted between two internal steps drops the request without a reply, so
	// the turn must end without one. Python itself swallows an interrupt in a finalizer, so another one may
	// be needed.
	t.Run("ends the turn at any moment", func(t *testing.T) {
		t.Parallel()
		k := testKernels[0]
		k.specDir(t)
		r := k.openSession(t, nil)
		for range 40 {
			turn, err := r.Submit(t.Context(), "while True: pass")
			if err != nil {
				t.Fatal(err)
			}
			reply := r.interruptUntilOver(turn)
			if reply.Outcome != timeline.OutcomeInterrupted {
				t.Fatalf("%q, %s", outputText(reply.Events...), reply.Outcome)
			}
		}
	})

	// Ipykernel gets another request after an interrupt, and must not answer it before the turn is over. Its
	// main thread is woken, too, and must go on with its wait. An interrupt alone does not wake ipykernel's
	// event loop, so the asynchronous code does.
	t.Run("waits for code that handles the interrupt", func(t *testing.T) {
		t.Parallel()
		for name, code := range map[string]string{
			"in a sleep":     "import time\nprint('started', flush=True)\ntry: time.sleep(3600)\nexcept KeyboardInterrupt:\n    time.sleep(0.5)\n    print('done')",
			"in a coroutine": "import asyncio\nprint('started', flush=True)\ntry:\n    while True: await asyncio.sleep(0.02)\nexcept BaseException:\n    await asyncio.sleep(0.5)\n    print('done')",
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				k := testKernels[0]
				k.specDir(t)
				r := k.openSession(t, nil)
				if reply := r.interruptStarted(code); reply.Outcome != timeline.OutcomeOK || outputText(reply.Events...) != "started\ndone\n" {
					t.Errorf("got %q, %s", outputText(reply.Events...), reply.Outcome)
				}
			})
		}
	})
}

// interruptStarted runs code that prints "started", interrupts it then, once, and waits for its end.
func (s kernelSession) interruptStarted(code string) session.Reply {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 5*time.Minute)
	defer cancel()
	turn, err := s.Submit(ctx, code)
	var reply session.Reply
	for started := false; !started && err == nil; {
		reply, err = s.Wait(ctx, turn, session.WaitAtMost(100*time.Millisecond))
		started = strings.Contains(outputText(reply.Events...), "started")
	}
	if err == nil {
		_, err = s.Interrupt(ctx, turn)
	}
	if err == nil {
		reply, err = s.Wait(ctx, turn, nil)
	}
	if err != nil {
		s.Fatal(err)
	}
	return reply
}

// interruptUntilOver interrupts a turn repeatedly until it is over, as a user would.
func (s kernelSession) interruptUntilOver(turn uint64) session.Reply {
	s.Helper()
	for range 20 {
		if _, err := s.Interrupt(s.Context(), turn); err != nil {
			s.Fatal(err)
		}
		reply, err := s.Wait(s.Context(), turn, session.WaitAtMost(15*time.Second))
		if err != nil {
			s.Fatal(err)
		}
		if reply.Outcome != "" {
			return reply
		}
	}
	s.Fatal("20 interrupts did not end the turn")
	return session.Reply{}
}
