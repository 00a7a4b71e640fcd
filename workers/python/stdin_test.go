//go:build linux || darwin

package python_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/ipc"
)

func TestStdin(t *testing.T) {
	t.Parallel()

	t.Run("serves every way to read input", func(t *testing.T) {
		t.Parallel()
		// The expected turn, with input requests and lines in brackets: see script.
		cases := []struct {
			name, code string
			answers    []string
			want       string
		}{
			{"input", "x = input('n? '); print(repr(x))", []string{"Ada"}, `n? [wait line line "n? "][line "Ada"]'Ada'` + "\n"},
			{"an empty line", "x = input(); print(repr(x))", []string{"\n"}, `[wait line line ""][line ""]''` + "\n"},
			{"two lines", "print(input() + input())", []string{"a", "b"}, `[wait line line ""][line "a"][wait line line ""][line "b"]ab` + "\n"},
			{"end of file", "try: input('? ')\nexcept EOFError: print('EOF')", []string{""}, `? [wait line line "? "]EOF` + "\n"},
			{"end of file is not sticky", "try: input()\nexcept EOFError: print(input())", []string{"", "x"}, `[wait line line ""][wait line line ""][line "x"]x` + "\n"},
			{"read", "import sys; print(repr(sys.stdin.read()))", []string{"a", "b", ""}, `[wait line all ""][line "a"][wait line all ""][line "b"][wait line all ""]'a\nb\n'` + "\n"},
			{"readline", "import sys; print(repr(sys.stdin.readline()))", []string{"a"}, `[wait line line ""][line "a"]'a\n'` + "\n"},
			{"iteration", "import sys\nfor l in sys.stdin: print(repr(l))", []string{"a", ""}, `[wait line line ""][line "a"]'a\n'` + "\n" + `[wait line line ""]`},
			{"readlines", "import sys; print(sys.stdin.readlines())", []string{"a", ""}, `[wait line line ""][line "a"][wait line line ""]['a\n']` + "\n"},
			{"buffer.read(n)", "import sys; print(sys.stdin.buffer.read(3))", []string{"hello"}, `[wait line line ""][line "hello"]b'hel'` + "\n"},
			{"and its rest is gone", "print(input())", []string{"new"}, `[wait line line ""][line "new"]new` + "\n"},
			{"buffer.readinto", "import sys; b = bytearray(3); print(sys.stdin.buffer.readinto(b), b)", []string{"xy"}, `[wait line line ""][line "xy"]3 bytearray(b'xy\n')` + "\n"},
			{"raw.read", "import sys; print(sys.stdin.buffer.raw.read(10))", []string{"xy"}, `[wait line line ""][line "xy"]b'xy\n'` + "\n"},
			{"fileinput", "import fileinput\nfor l in fileinput.input(): print(repr(l))", []string{"a", ""}, `[wait line line ""][line "a"]'a\n'` + "\n" + `[wait line line ""]`},
			{"a thread", "import threading\nt = threading.Thread(target=lambda: print(input('t? '))); t.start(); t.join()", []string{"x"}, `t? [wait line line "t? "][line "x"]x` + "\n"},
			{"StringIO", "import io, sys\nsys.stdin = io.StringIO('s\\n')\nprint(input())\nsys.stdin = sys.__stdin__", nil, "s\n"},
			{"getpass", "import getpass; print(getpass.getpass('pw: '))", []string{"secret"}, `pw: [wait secret line "pw: "][line secret]` + "\nsecret\n"},
			{"undecodable bytes", "print(ascii(input()))", []string{"\xff"}, `[wait line line ""][line "�"]'\udcff'` + "\n"},
			{"an object as prompt", "class P:\n    def __str__(self): return 'p> '\nprint(input(P()))", []string{"x"}, `p> [wait line line "p> "][line "x"]x` + "\n"},
			{"after close", "import sys; sys.stdin.close(); print(input())", []string{"x"}, `[wait line line ""][line "x"]x` + "\n"},
		}
		eachPython(t, func(t *testing.T, s workerSetup) {
			w := startWorker(t, s)
			for _, c := range cases {
				r := w.RunCode(c.code, c.answers...)
				if got := r.Transcript(); got != c.want || r.Idle == nil || r.Idle.Outcome != ipc.OutcomeOK {
					t.Errorf("%s: got %q\nwant %q (%+v)", c.name, got, c.want, r.Idle)
				}
			}
		})
	})

	t.Run("marks the input requests of debuggers", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			w := startWorker(t, s)
			r := w.RunCode("import pdb\nx = 5\npdb.set_trace()\ny = 6", "p x", "c")
			if got := r.Transcript(); !strings.Contains(got, `[wait debugger line "(Pdb) "][line "p x"]5`) || r.Idle.Outcome != ipc.OutcomeOK {
				t.Errorf("pdb: got %q", got)
			}
			r = w.RunCode("import pdb; pdb.set_trace()", "w", "n", "c")
			if got := r.Transcript(); !strings.Contains(got, "<module>()") || strings.Contains(got, ".py(") {
				t.Errorf("pdb shows the worker's own frames: %q", got)
			}
			w.RunCode("def f():\n    return 1")
			w.RunCode("import pdb; pdb.set_trace()", "b f", "c")
			if r = w.RunCode("f()", "cl 1", "c"); !strings.Contains(r.Transcript(), "-> return 1") {
				t.Errorf("pdb forgets a breakpoint between cells: %q", r.Transcript())
			}
			r = w.RunCode("breakpoint()", "c")
			if !strings.Contains(r.Transcript(), `[wait debugger line "(Pdb) "]`) {
				t.Errorf("breakpoint: got %q", r.Transcript())
			}
			r = w.RunCode("import code\ncode.interact(banner='', exitmsg='', local={})", "if 1:", "  print('in')", "\n", "")
			if got := r.Transcript(); !strings.Contains(got, `[wait continue line "... "]`) || !strings.Contains(got, "in\n") {
				t.Errorf("code.interact: got %q", got)
			}
			r = w.RunCode("import cmd\nclass C(cmd.Cmd):\n    def do_q(self, a): return True\nC().cmdloop()", "q")
			if !strings.Contains(r.Transcript(), `[wait line line "(Cmd) "]`) {
				t.Errorf("cmd: got %q", r.Transcript())
			}
			w.OnInputRequest = func(m ipc.StdinWait) bool {
				if m.Prompt == "help> " {
					w.AnswerRequest(m, "quit")
					return true
				}
				return false
			}
			if r := w.RunCode("help()"); !strings.Contains(r.Transcript(), `[wait line line "help> "]`) {
				t.Errorf("help: got %q", r.Transcript())
			}
			w.OnInputRequest = nil
			if r := w.RunCode("help(len)"); !strings.Contains(r.OutputText(), "Return the number of items in a container") {
				t.Errorf("help(len): got %q", r.Transcript())
			}
		})
	})

	// The worker makes no request for code that reads the terminal itself, which reads the text typed
	// there.
	t.Run("makes no request for code that reads the terminal itself", func(t *testing.T) {
		t.Parallel()
		cases := []struct{ name, code, typed, want string }{
			{"os.read", "import os; print(os.read(0, 100))", "ab\n", "b'ab\\n'\n"},
			{"open(0)", "print(repr(open(0, closefd=False).readline()))", "ab\n", "'ab\\n'\n"},
			{"/dev/tty", "print(repr(open('/dev/tty').readline()))", "ab\n", "'ab\\n'\n"},
			{"a child", "import subprocess; subprocess.run(['head', '-n', '1']); None", "ab\n", "ab\n"},
			{"a shell", "import os; os.system('read x; echo got $x'); None", "ab\n", "got ab\n"},
			{"a child's end of file", "import subprocess; subprocess.run(['cat']); print('after')", "ab\n\x04", "after\n"},
			{"C", "import ctypes; print(ctypes.CDLL(None).getchar(), ctypes.CDLL(None).getchar())", "a\n", "97 10\n"},
			{"a forked child", "import os, sys\nif os.fork() == 0:\n    print(input()); os._exit(0)\nos.wait(); None", "ab\n", "ab\n"},
			{"input finds what was typed", "import select, sys\nselect.select([0], [], [])\nprint(input())", "ab\n", "ab\n"},
			{"redirected", "import os\nr, w = os.pipe(); os.write(w, b'pipe\\n'); old = os.dup(0); os.dup2(r, 0)\nprint(input())\nos.dup2(old, 0); os.close(old)", "", "pipe\n"},
		}
		eachPython(t, func(t *testing.T, s workerSetup) {
			w := startWorker(t, s)
			for _, c := range cases {
				w.StartTurn(c.code)
				typed, ends := strings.CutSuffix(c.typed, "\x04")
				if _, err := w.Terminal.WriteString(typed); err != nil {
					t.Fatal(err)
				}
				if ends { // with EXTPROC it is an end of file when nothing else is there
					w.WaitOutput(typed)
					if _, err := w.Terminal.WriteString("\x04"); err != nil {
						t.Fatal(err)
					}
				}
				r := w.FinishTurn()
				if got := r.OutputText(); got != c.want || r.Idle.Outcome != ipc.OutcomeOK {
					t.Errorf("%s: got %q, want %q (%+v)", c.name, r.Transcript(), c.want, r.Idle)
				}
			}
			w.RunCode("print(input())", "managed").WantOutput(t, "managed\n")
		})
	})

	t.Run("drops the answer to a request that is over", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		var old ipc.StdinWait
		w.OnInputRequest = func(m ipc.StdinWait) bool {
			old = m
			w.sendInterrupt(1, 1)
			return true
		}
		if r := w.RunCode("input('a? ')"); r.Idle.Outcome != ipc.OutcomeInterrupted {
			t.Fatalf("got %q %+v", r.Transcript(), r.Idle)
		}
		w.OnInputRequest = nil
		w.AnswerRequest(old, "too late")
		w.StartTurn("x = input('b? ')")
		w.AnswerRequest(old, "too late")
		if r := w.FinishTurn("in time"); r.Idle.Outcome != ipc.OutcomeOK {
			t.Fatalf("got %q %+v", r.Transcript(), r.Idle)
		}
		w.RunCode("x").WantOutput(t, "'in time'\n")
	})
}

func TestStdinThreads(t *testing.T) {
	t.Parallel()

	t.Run("a waiting thread asks again in the next turn", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			w := startWorker(t, s)
			var asked []ipc.StdinWait
			seen := filepath.Join(t.TempDir(), "seen")
			w.OnInputRequest = func(m ipc.StdinWait) bool {
				asked = append(asked, m)
				if err := os.WriteFile(seen, nil, 0o600); err != nil {
					t.Error(err)
				}
				return true
			}
			w.RunCode(fmt.Sprintf("import os, threading, time\ngot = []\nt = threading.Thread(target=lambda: got.append(input('bg? '))); t.start()\nwhile not os.path.exists(%q): time.sleep(0.001)", seen))
			if len(asked) != 1 || asked[0].Turn != w.Turn {
				t.Fatalf("got %+v, want one wait of turn %d", asked, w.Turn)
			}
			w.StartTurn("t.join(); got")
			for len(asked) < 2 {
				if m, ok := w.NextEvent().(ipc.StdinWait); ok {
					asked = append(asked, m)
				}
			}
			if asked[1].Turn != w.Turn || asked[1].Wait == asked[0].Wait || asked[1].Prompt != "bg? " {
				t.Fatalf("got %+v", asked)
			}
			w.AnswerRequest(asked[1], "late")
			if r := w.FinishTurn(); r.OutputText() != "['late']\n" {
				t.Fatalf("got %q", r.Transcript())
			}
			w.OnInputRequest = nil
			w.RunCode("input()", "main").WantOutput(t, "'main'\n")
		})
	})

	// A thread checks for its answer, then waits for bytes. Another thread may read them in between. The
	// test forces this moment, which happened by chance on busy machines.
	t.Run("sees an answer that another thread has read", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			r := startWorker(t, s).RunCode(`
import gc, sys, threading
channel = next(o for o in gc.get_objects() if type(o).__module__ == 'turnstone_worker.channel' and type(o).__name__ == 'Channel')
wait = channel.ask({'type': 'stdin_wait', 'turn': channel.turn, 'prompt': '? ', 'kind': 'line', 'want': 'line'})
looks = 0
def read():
    while wait not in channel.answers: channel.poll()
def ready():
    global looks
    looks += 1
    if looks == 2:
        reader = threading.Thread(target=read)
        reader.start()
        reader.join()
        return False # as before it has read
    return wait in channel.answers
channel.wait(ready)
print(channel.answers.pop(wait)['input'])
`, "late")
			if r.Idle.Outcome != ipc.OutcomeOK || !strings.HasSuffix(r.OutputText(), "b'late\\n'\n") {
				t.Fatalf("got %q %+v", r.Transcript(), r.Idle)
			}
		})
	})

	// On Windows polling starts a read. While a thread waits for input, it would be a second read, after
	// which the thread waited forever.
	t.Run("nothing polls for input while a thread reads", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			r := startWorker(t, s).RunCode(`
import gc, sys, threading
channel = next(o for o in gc.get_objects() if type(o).__module__ == 'turnstone_worker.channel' and type(o).__name__ == 'Channel')
looks, leads, done = [], threading.Event(), threading.Event()
class Inbox:
    def ready(self, patience): looks.append(patience)
def lead():
    with channel.reading:
        leads.set()
        done.wait()
reader = threading.Thread(target=lead)
reader.start()
leads.wait()
inbox, channel.inbox = channel.inbox, Inbox()
found = channel.readable()
done.set()
reader.join()
channel.inbox = inbox
print(found, looks)
`)
			if r.Idle.Outcome != ipc.OutcomeOK || r.OutputText() != "False []\n" {
				t.Fatalf("got %q %+v", r.Transcript(), r.Idle)
			}
		})
	})

	t.Run("answers the main thread and another thread", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			w := startWorker(t, s)
			w.OnInputRequest = func(m ipc.StdinWait) bool {
				w.AnswerRequest(m, "for "+m.Prompt)
				return true
			}
			for range 20 {
				r := w.RunCode(`import threading, getpass
got = []
ts = [threading.Thread(target=lambda i=i: got.append(getpass.getpass('t%d' % i))) for i in range(3)]
for t in ts: t.start()
got.append(input('m'))
for t in ts: t.join()
print(sorted(got))`)
				if !strings.HasSuffix(r.OutputText(), "['for m', 'for t0', 'for t1', 'for t2']\n") {
					t.Fatalf("got %q", r.Transcript())
				}
			}
		})
	})
}
