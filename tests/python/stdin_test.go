//go:build linux

package python_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/sessionkit"
	"github.com/turnstone-repl/turnstone/internal/testkit/testmain"
	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/timeline"
	"github.com/turnstone-repl/turnstone/workers/python"
)

// An inputCase is one way in which code may read its input.
type inputCase struct {
	name, code string
	answers    []string
	want       string   // the whole turn in the form of script, or
	wantParts  []string // parts of it
	mayPoll    bool     // the code polls its input while it waits for something else, so one request may be spurious
	requires   string   // a module or program that it needs
}

// In these cases the runtime itself reads, so the worker requests input.
func runtimeInputCases() []inputCase {
	return []inputCase{
		{name: "input", code: "print('got', input('n? '))", answers: []string{"Ada"},
			want: `n? [wait "n? "][line "Ada"]got Ada` + "\n"},
		{name: "input of an empty line", code: "print(repr(input()))", answers: []string{""},
			want: `[wait ""][line ""]''` + "\n"},
		{name: "end of file", code: "try: input('? ')\nexcept EOFError: print('EOF')", answers: []string{sessionkit.EndOfFile},
			want: `? [wait "? "]EOF` + "\n"},
		{name: "sys.stdin.read", code: "import sys; print(repr(sys.stdin.read()))", answers: []string{"a", "b", sessionkit.EndOfFile},
			want: `[wait ""][line "a"][wait ""][line "b"][wait ""]'a\nb\n'` + "\n"},
		{name: "sys.stdin.readline", code: "import sys; print(repr(sys.stdin.readline()))", answers: []string{"a"},
			want: `[wait ""][line "a"]'a\n'` + "\n"},
		{name: "sys.stdin.readlines", code: "import sys; print(sys.stdin.readlines())", answers: []string{"a\nb", sessionkit.EndOfFile},
			want: `[wait ""][line "a"][line "b"][wait ""]['a\n', 'b\n']` + "\n"},
		{name: "iteration", code: "import sys\nfor l in sys.stdin: print(repr(l))", answers: []string{"a", "b", sessionkit.EndOfFile},
			want: `[wait ""][line "a"]'a\n'` + "\n" + `[wait ""][line "b"]'b\n'` + "\n" + `[wait ""]`},
		{name: "buffer.read", code: "import sys; print(sys.stdin.buffer.read(5))", answers: []string{"hello world"},
			want: `[wait ""][line "hello world"]b'hello'` + "\n"},
		{name: "buffer.readinto", code: "import sys; b = bytearray(3); print(sys.stdin.buffer.readinto(b), b)", answers: []string{"xy"},
			want: `[wait ""][line "xy"]3 bytearray(b'xy\n')` + "\n"},
		{name: "raw.read", code: "import sys; print(sys.stdin.buffer.raw.read(10))", answers: []string{"xy"},
			want: `[wait ""][line "xy"]b'xy\n'` + "\n"},
		{name: "fileinput", code: "import fileinput\nfor l in fileinput.input('-'): print(repr(l))", answers: []string{"a", sessionkit.EndOfFile},
			want: `[wait ""][line "a"]'a\n'` + "\n" + `[wait ""]`},
		{name: "pdb", code: "import pdb\nx = 5\npdb.set_trace()\ny = 6", answers: []string{"p x + 37", "c"},
			wantParts: []string{`(Pdb) [debugger wait "(Pdb) "][line "p x + 37"]42` + "\n", `[line "c"]`}},
		{name: "breakpoint", code: "z = 5\nbreakpoint()\nw = 6", answers: []string{"p z + 37", "c"},
			wantParts: []string{`(Pdb) [debugger wait "(Pdb) "][line "p z + 37"]42` + "\n", `[line "c"]`}},
		{name: "code.interact", code: "import code\ncode.interact(banner='', exitmsg='', local={})", answers: []string{"6 * 7", "if 1:", "  print('in')", "", sessionkit.EndOfFile},
			wantParts: []string{`>>> [wait ">>> "][line "6 * 7"]42` + "\n", `[continue wait "... "]`, "in\n"}},
		{name: "help", code: "help()", answers: []string{"len", "quit"},
			wantParts: []string{`help> [wait "help> "][line "len"]`, "Return the number of items in a container"}},
		{name: "cmd.Cmd", code: "import cmd\nclass C(cmd.Cmd):\n    def do_add(self, a): print(sum(map(int, a.split())))\n    def do_q(self, a): return True\nC().cmdloop()", answers: []string{"add 40 2", "q"},
			want: `(Cmd) [wait "(Cmd) "][line "add 40 2"]42` + "\n" + `(Cmd) [wait "(Cmd) "][line "q"]`},
		{name: "a thread", code: "import threading\nt = threading.Thread(target=lambda: print('got', input('t? '))); t.start(); t.join()", answers: []string{"x"},
			want: `t? [wait "t? "][line "x"]got x` + "\n"},
		{name: "three threads", code: "import threading\ngot = []\nts = [threading.Thread(target=lambda: got.append(input())) for i in range(3)]\nfor t in ts: t.start()\nfor t in ts: t.join()\nprint(sorted(got))", answers: []string{"a", "b", "c"},
			want: `[wait ""][line "a"][wait ""][line "b"][wait ""][line "c"]['a', 'b', 'c']` + "\n"},
		{name: "an executor", code: "import asyncio, sys\nasync def main():\n    return await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)\nprint(repr(asyncio.run(main())))", answers: []string{"x"},
			want: `[wait ""][line "x"]'x\n'` + "\n"},
		{name: "getpass", code: "import getpass; print(len(getpass.getpass('pw: ')))", answers: []string{"hush-hush"},
			want: `pw: [secret wait "pw: "][secret line]` + "\n9\n"},
		{name: "help of an object", code: "help(len)", wantParts: []string{"Return the number of items in a container"}},
		{name: "StringIO", code: "import io, sys\nsys.stdin = io.StringIO('s\\n')\ntry: print(input())\nfinally: sys.stdin = sys.__stdin__", want: "s\n"},
		{name: "a pipe over descriptor 0", code: "import os\nr, w = os.pipe(); os.write(w, b'pipe\\n'); old = os.dup(0); os.dup2(r, 0)\nprint(input())\nos.dup2(old, 0); os.close(old); os.close(r); os.close(w)", want: "pipe\n"},
	}
}

// The monitor sees code that reads the terminal without the runtime.
func terminalInputCases(dir string) []inputCase {
	return []inputCase{
		{name: "os.read", code: "import os; print(os.read(0, 100))", answers: []string{"ab"},
			want: `[python wait ""][line "ab"]b'ab\n'` + "\n"},
		{name: "os.readv", code: "import os; b = bytearray(3); print(os.readv(0, [b]), b)", answers: []string{"ab"},
			want: `[python wait ""][line "ab"]3 bytearray(b'ab\n')` + "\n"},
		{name: "open(0)", code: "print(repr(open(0, closefd=False).readline()))", answers: []string{"ab"},
			want: `[python wait ""][line "ab"]'ab\n'` + "\n"},
		{name: "open of stdin", code: "with open('/dev/stdin') as f: print(repr(f.readline()))", answers: []string{"ab"},
			want: `[python wait ""][line "ab"]'ab\n'` + "\n"},
		{name: "open of the terminal", code: "with open('/dev/tty') as f: print(repr(f.readline()))", answers: []string{"ab"},
			want: `[python wait ""][line "ab"]'ab\n'` + "\n"},
		{name: "FileIO", code: "import io; print(io.FileIO(0, closefd=False).read(10))", answers: []string{"ab"},
			want: `[python wait ""][line "ab"]b'ab\n'` + "\n"},
		{name: "one key", code: "import os, tty\ntty.setcbreak(0)\nprint('key? ', end='', flush=True); print(os.read(0, 1))", answers: []string{"k"},
			wantParts: []string{`key? [python `, `wait "key? "]`, `b'k'` + "\n"}},
		{name: "select", code: "import select, sys\nselect.select([sys.stdin], [], [])\nprint(sys.stdin.readline())", answers: []string{"ab"},
			wantParts: []string{`[python wait ""][line "ab"]`, "ab\n"}},
		{name: "add_reader", code: "import asyncio, os\nasync def main():\n    loop = asyncio.get_running_loop(); got = loop.create_future()\n    loop.add_reader(0, lambda: got.set_result(os.read(0, 100)))\n    print(await got); loop.remove_reader(0)\nasyncio.run(main())", answers: []string{"ab"},
			want: `[python wait ""][line "ab"]b'ab\n'` + "\n"},
		{name: "pty.spawn", code: "import pty; pty.spawn(['sh', '-c', 'read x; echo got $x']); None", answers: []string{"ab"},
			wantParts: []string{`[python `, `[line "ab"]`, "got ab"}, mayPoll: true},
		{name: "a child", code: "import subprocess; subprocess.run(['cat']); print('after')", answers: []string{"ab", "cd", sessionkit.EndOfFile},
			want: `[cat wait ""][line "ab"]ab` + "\n" + `[cat wait ""][line "cd"]cd` + "\n" + `[cat wait ""][line ""]after` + "\n"},
		{name: "a child, then input", code: "import subprocess; subprocess.run(['head', '-n', '1']); print('py', input('? '))", answers: []string{"one", "two"},
			want: `[head wait ""][line "one"]one` + "\n" + `? [wait "? "][line "two"]py two` + "\n"},
		{name: "os.system", code: "import os; os.system('read x; echo got $x'); None", answers: []string{"ab"},
			want: `[sh wait ""][line "ab"]got ab` + "\n"},
		{name: "os.popen", code: "import os; print(os.popen('read x; echo got $x').read())", answers: []string{"ab"},
			want: `[sh wait ""][line "ab"]got ab` + "\n\n"},
		{name: "check_output", code: "import subprocess; print(subprocess.check_output(['head', '-n', '1']))", answers: []string{"ab"},
			want: `[head wait ""][line "ab"]b'ab\n'` + "\n"},
		{name: "an interactive shell", code: "import subprocess; subprocess.run(['bash', '--norc', '--noprofile', '-i']); None", answers: []string{"echo $((6*7))", "exit"},
			wantParts: []string{`[bash `, "42\n"}},
		{name: "a Python child", code: "import subprocess, sys; subprocess.run([sys.executable, '-q']); None", answers: []string{"print(6 * 7)", "exit()"},
			wantParts: []string{`[python `, "42\n"}},
		{name: "input in a Python child", code: "import subprocess, sys; subprocess.run([sys.executable, '-c', 'print(\"got\", input(\"c? \"))']); None", answers: []string{"ab"},
			wantParts: []string{`[python wait "c? "][line "ab"]`, "got ab\n"}},
		{name: "a shell that hides", code: `import subprocess; subprocess.run(['bash', '-c', 'read -s -p "pw? " x; echo "${#x}"']); None`, answers: []string{"hush-hush"},
			want: `pw? [bash secret wait "pw? "][secret line]9` + "\n"},
		{name: "less", requires: "less", code: fmt.Sprintf("import subprocess; subprocess.run(['less', %q]); None", filepath.Join(dir, "long")), answers: []string{"", "q"},
			wantParts: []string{`[less `, "line 1\r\n"}},
		{name: "a long line", code: "import os; os.system('bash -c \\'read x; echo ${#x}\\''); None", answers: []string{strings.Repeat("x", 10_000)},
			wantParts: []string{"10000\n"}},
		{name: "control characters", code: "import os; print(os.read(0, 100))", answers: []string{"a\x03\x04\x16\x1a\x11\x7f\x15b"},
			wantParts: []string{`b'a\x03\x04\x16\x1a\x11\x7f\x15b\n'` + "\n"}},
		{name: "control characters of a child", code: "import subprocess; print(subprocess.check_output(['head', '-n', '1']))", answers: []string{"a\x03\x04\x16\x1a\x11\x7f\x15b"},
			wantParts: []string{`b'a\x03\x04\x16\x1a\x11\x7f\x15b\n'` + "\n"}},
		{name: "getchar", code: "import ctypes; libc = ctypes.CDLL(None); print(libc.getchar(), libc.getchar())", answers: []string{"a"},
			want: `[python wait ""][line "a"]97 10` + "\n"},
		{name: "fgets", code: "import ctypes; libc = ctypes.CDLL(None); b = ctypes.create_string_buffer(100)\nlibc.fgets(b, 100, ctypes.c_void_p.in_dll(libc, 'stdin')); print(b.value)", answers: []string{"ab"},
			want: `[python wait ""][line "ab"]b'ab\n'` + "\n"},
		{name: "a fork", code: "import os\npid = os.fork()\nif pid == 0:\n    print('got', input('f? ')); os._exit(0)\nos.waitpid(pid, 0); None", answers: []string{"ab"},
			wantParts: []string{`f? [python wait "f? "][line "ab"]`, "got ab\n"}}, // if readline was imported, it echoes
		{name: "a forked process", code: readInMultiprocess(dir, "fork"), want: "EOF\n"},
		{name: "a spawned process", code: readInMultiprocess(dir, "spawn"), want: "EOF\n"},
		{name: "a process of a fork server", code: readInMultiprocess(dir, "forkserver"), want: "EOF\n"},
		{name: "one answer for three readers", code: "import os; print(input('1? ')); os.system('read x; echo $x'); print(input('3? '))", answers: []string{"one\ntwo\nthree"},
			wantParts: []string{`1? [wait "1? "][line "one"]one` + "\n", `[line "two"]two` + "\n", `3? `, `[line "three"]three` + "\n"}},
	}
}

// readInMultiprocess reads input in a child of multiprocessing, which gives its children an empty
// standard input.
func readInMultiprocess(dir, method string) string {
	return fmt.Sprintf(`import multiprocessing, sys
if %q not in sys.path: sys.path.insert(0, %[1]q)
import asking
p = multiprocessing.get_context(%q).Process(target=asking.ask); p.start(); p.join()`, dir, method)
}

func TestStdin(t *testing.T) {
	t.Parallel()

	t.Run("serves every way to read input and leaves nothing behind", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		var long strings.Builder
		for i := range 200 {
			fmt.Fprintf(&long, "line %d\n", i)
		}
		files := map[string]string{
			"long":      long.String(),
			"asking.py": "def ask():\n    try: input()\n    except EOFError: print('EOF')\n",
		}
		for name, content := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		surfaces := append(runtimeInputCases(), terminalInputCases(dir)...)
		eachPython(t, func(t *testing.T, o python.Options) {
			r := openSession(t, o)
			for _, c := range surfaces {
				t.Run(c.name, func(t *testing.T) {
					if c.requires != "" {
						if _, err := exec.LookPath(c.requires); err != nil {
							t.Skipf("%s is not installed", c.requires)
						}
					}
					finish := r.FinishTurn
					if c.mayPoll {
						finish = r.WaitTurnEnd
					}
					res := finish(t, r.StartTurn(t, c.code), c.answers...)
					got := res.Transcript()
					if res.Outcome != "ok" || c.want != "" && got != c.want {
						t.Errorf("got %.2000q, outcome %q %s; want %.2000q", got, res.Outcome, res.Failure, c.want)
					}
					for _, part := range c.wantParts {
						if !strings.Contains(got, part) {
							t.Errorf("got %.2000q, want %q in it", got, part)
						}
					}
					if res.InputRequests > len(c.answers) && !c.mayPoll {
						t.Errorf("it asked %d times, want at most %d", res.InputRequests, len(c.answers))
					}
					if res.Outcome == "" || res.WorkerExit != nil {
						r.RestartWorker(t)
						return
					}
					wantCleanTurn(t, r)
				})
			}
		})
	})

	// The library's own readers of keys want a single byte without a newline.
	t.Run("a key without a newline is enough", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, o python.Options) {
			r := openSession(t, o)
			turn := r.StartTurn(t, "import os, tty\ntty.setcbreak(0)\nprint(os.read(0, 1))")
			w := r.WaitEvent(t, "a wait", sessionkit.IsInputRequest)
			if _, err := r.Answer(t.Context(), w.Seq, session.Input{Data: []byte("k")}); err != nil {
				t.Fatal(err)
			}
			if res := r.FinishTurn(t, turn); res.OutputText() != "b'k'\n" {
				t.Errorf("got %q", res.Transcript())
			}
			wantCleanTurn(t, r)
		})
	})

	t.Run("reports no input request if nothing reads", func(t *testing.T) {
		t.Parallel()
		quiet := []struct{ name, code string }{
			{"sleep", "import time; time.sleep(0.2)"},
			{"a sleeping child", "import subprocess; subprocess.run(['sleep', '0.2']); None"},
			{"a loop", "import time\nend = time.monotonic() + 0.2\nwhile time.monotonic() < end: pass"},
			{"an event", "import threading; threading.Event().wait(0.2); None"},
			{"a socket", "import socket, threading\na, b = socket.socketpair(); threading.Timer(0.2, b.send, (b'x',)).start(); a.recv(1); None"},
			{"select with a timeout", "import select, sys; select.select([sys.stdin], [], [], 0.2); None"},
			{"asyncio", "import asyncio; asyncio.run(asyncio.sleep(0.2))"},
			{"a child on a pipe", "import subprocess, time\np = subprocess.Popen(['cat'], stdin=subprocess.PIPE); time.sleep(0.2); p.communicate(b''); None"},
			{"a pool", "import multiprocessing, time\nwith multiprocessing.get_context('fork').Pool(2) as p: p.map(time.sleep, [0.1, 0.1]); None"},
		}
		eachPython(t, func(t *testing.T, o python.Options) {
			r := openSession(t, o)
			for _, c := range quiet {
				if res := r.RunCode(t, c.code); res.Outcome != "ok" || res.InputRequests > 0 {
					t.Errorf("%s: got %q %q", c.name, res.Transcript(), res.Outcome)
					r.RestartWorker(t)
				}
			}
		})
	})

	// Code that prompts and then reads causes a request when it reads. The prompt comes first, and the
	// reader causes no second request while it takes the answer.
	t.Run("the prompt of a child comes before its input request", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, o python.Options) {
			r := openSession(t, o)
			for i := range testmain.Rounds(90) {
				res := r.RunCode(t, `import subprocess; subprocess.run(['bash', '-c', 'read -p "pw: " x; echo got $x']); None`, "a")
				if got, want := res.Transcript(), `pw: [bash wait "pw: "][line "a"]got a`+"\n"; got != want || res.Outcome != "ok" {
					t.Fatalf("round %d: got %q, outcome %q; want %q", i, got, res.Outcome, want)
				}
			}
		})
	})

	// A program of an earlier turn may read without an input request.
	t.Run("a reader from an earlier turn is not an input request", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, o python.Options) {
			r := openSession(t, o)
			var pid int
			res := r.WaitTurnEnd(t, r.StartTurn(t, "import subprocess; p = subprocess.Popen(['cat']); print(p.pid)"))
			if _, err := fmt.Sscan(res.OutputText(), &pid); err != nil {
				t.Fatalf("got %q: %v", res.Transcript(), err)
			}
			waitForRead(t, hostPID(t, r, pid))
			r.RunCode(t, "import time; time.sleep(0.3); print('done')").WantTranscript(t, "done\n")
			if t.Failed() {
				return // the turn is still running
			}
			r.RunCode(t, "p.kill(); p.wait()").WantTranscript(t, "-9\n")
			wantCleanTurn(t, r)
		})
	})

	t.Run("drops and reports input that the turn did not read", func(t *testing.T) {
		t.Parallel()
		r := openSession(t, python.Options{})
		res := r.RunCode(t, "print(input())", "one\ntwo")
		res.WantTranscript(t, `[wait ""][line "one"]one`+"\n"+`[notice "4 bytes of unread input were dropped"]`)
		wantCleanTurn(t, r)
	})

	t.Run("an answer to a closed request is stale", func(t *testing.T) {
		t.Parallel()
		r := openSession(t, python.Options{})
		turn := r.StartTurn(t, "input('a? ')")
		old := r.WaitEvent(t, "a wait", sessionkit.IsInputRequest)
		wantInterrupt(t, r, turn, session.InterruptIdle)
		in := session.Input{Data: []byte("late\n")}
		if _, err := r.Answer(t.Context(), old.Seq, in); !errors.Is(err, session.ErrStale) {
			t.Errorf("got %v, want ErrStale", err)
		}
		next := r.StartTurn(t, "print(input('b? '))")
		w := r.WaitEvent(t, "a wait", func(e timeline.Event) bool { return sessionkit.IsInputRequest(e) && e.Turn == next })
		if _, err := r.Answer(t.Context(), old.Seq, in); !errors.Is(err, session.ErrStale) {
			t.Errorf("got %v, want ErrStale", err)
		}
		if _, err := r.Answer(t.Context(), w.Seq, session.Input{Data: []byte("in time\n")}); err != nil {
			t.Error(err)
		}
		r.FinishTurn(t, next).WantTranscript(t, `[line "in time"]in time`+"\n")
	})

	// A child gets its input line by line, since it could share the input with the runtime.
	t.Run("many lines reach a child", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, o python.Options) {
			r := openSession(t, o)
			lines := strings.Repeat("0123456\n", 300)
			if res := r.RunCode(t, "import subprocess; print(len(subprocess.check_output(['cat'])))", lines, sessionkit.EndOfFile); res.OutputText() != "2401\n" {
				t.Errorf("got %.300q, outcome %q", res.OutputText(), res.Outcome)
				r.RestartWorker(t)
			}
			wantCleanTurn(t, r)
		})
	})
}

// hostPID returns the PID, as this process sees it, of a process in the session. A sandbox has its own
// PID namespace.
func hostPID(t *testing.T, r *sessionkit.TestSession, pid int) int {
	t.Helper()
	info, err := r.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	within, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", info.PID))
	if err != nil {
		t.Fatal(err)
	}
	statuses, _ := filepath.Glob("/proc/[0-9]*/status")
	for _, path := range statuses {
		dir := filepath.Dir(path)
		text, _ := os.ReadFile(path)
		_, numbers, _ := strings.Cut(string(text), "\nNSpid:")
		numbers, _, _ = strings.Cut(numbers, "\n")
		if f := strings.Fields(numbers); len(f) == 0 || f[len(f)-1] != strconv.Itoa(pid) {
			continue
		}
		if ns, _ := os.Readlink(filepath.Join(dir, "ns/pid")); ns == within {
			outside, _ := strconv.Atoi(filepath.Base(dir))
			return outside
		}
	}
	t.Fatalf("process %d of the session does not exist", pid)
	return 0
}

// waitForRead waits until a process is blocked in read of descriptor 0.
func waitForRead(t *testing.T, pid int) {
	t.Helper()
	wait.Until(t, fmt.Sprintf("process %d reads", pid), func() bool {
		call, err := os.ReadFile(fmt.Sprintf("/proc/%d/syscall", pid))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		f := strings.Fields(string(call))
		return len(f) > 1 && f[1] == "0x0"
	})
}

func TestOutput_UndecodableBytes(t *testing.T) {
	t.Parallel()
	eachPython(t, func(t *testing.T, o python.Options) {
		r := openSession(t, o)
		r.RunCode(t, `import sys; sys.stdout.buffer.write(b'\xff\x00\xfe\x1b[31m\n'); sys.stdout.buffer.flush()`).WantTranscript(t, "\xff\x00\xfe\x1b[31m\n")
		r.RunCode(t, `import os; os.system(r"printf '\377\000\033_x;\033\\'"); None`).WantTranscript(t, "\xff\x00\x1b_x;\x1b\\")
		wantCleanTurn(t, r)
	})
}
