//go:build linux || darwin

package python_test

import (
	"bytes"
	"fmt"
	"image/png"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/testmain"
	"github.com/turnstone-repl/turnstone/ipc"
)

func TestOutputOrder(t *testing.T) {
	t.Parallel()

	t.Run("keeps the order of all writers", func(t *testing.T) {
		t.Parallel()
		bulk := strings.Repeat("z", 100_000)
		cases := []struct{ code, want string }{
			{"print('a'); os.system('echo b'); print('c')", "a\nb\nc\n"},
			{"sys.stdout.write('a'); os.system('printf b'); sys.stdout.write('c'); None", "abc"},
			{"print('a'); subprocess.run(['echo', 'b']); print('c')", "a\nb\nc\n"},
			{"print('a'); os.write(1, b'b\\n'); print('c')", "a\nb\nc\n"},
			{"print('a'); libc.puts(b'b'); print('c')", "a\nb\nc\n"},
			{"print('a', file=sys.stderr); os.system('echo b'); print('c')", "<err>a\n</err>b\nc\n"},
			{"sys.stderr.write('a'); os.system('printf b'); print('c')", "<err>a</err>bc\n"},
			{"os.system('echo a; echo b >&2'); print('c')", "a\nb\nc\n"},
			{"os.system('echo a'); display(); os.system('echo c')", "a\n[image image/png]c\n0\n"},
			{"t = threading.Thread(target=print, args=('b',)); print('a'); t.start(); t.join(); print('c')", "a\nb\nc\n"},
			{"os.system('echo a')", "a\n0\n"},
			{"os.system('echo a'); print(z); os.system('echo c'); None", "a\n" + bulk + "\nc\n"},
			{"print('a'); print(z, file=sys.stderr); print('c')", "a\n<err>" + bulk + "\n</err>c\n"},
			{"print('a')\nif os.fork() == 0: print('b'); os._exit(0)\nos.wait(); print('c')", "a\nb\nc\n"},
			{"print('a')\npid = os.fork()\nif pid: os.waitpid(pid, 0); print('c')\nelse: print('b')", "a\nb\nc\n"},
			{"sys.stdout.write('a')\npid = os.fork()\nif pid == 0: sys.stderr.write('b\\n'); os._exit(0)\nos.waitpid(pid, 0); print('c')", "a<err>b\n</err>c\n"},
			{"import contextlib, io\nprint('a')\nwith contextlib.redirect_stdout(io.StringIO()): print('hidden'); os.system('echo b')\nprint('c')", "a\nb\nc\n"},
			{"os.posix_spawn('/bin/echo', ['echo', 'b'], os.environ); os.wait(); print('c')", "b\nc\n"},
		}
		eachPython(t, func(t *testing.T, s workerSetup) {
			w := startWorker(t, s)
			w.RunCode(`import os, sys, subprocess, threading, ctypes
libc = ctypes.CDLL(None)
z = 'z' * 100000
class P:
    def _repr_png_(self): return b'\x89PNG'
def display(): sys.displayhook(P())`)
			for round := range testmain.Rounds(10) {
				for _, c := range cases {
					if r := w.RunCode(c.code); r.Transcript() != c.want || r.Idle.Outcome != ipc.OutcomeOK {
						t.Fatalf("round %d: %q: got %.500q\nwant %.500q", round, c.code, r.Transcript(), c.want)
					}
				}
			}
		})
	})

	t.Run("keeps the order of partial lines", func(t *testing.T) {
		t.Parallel()
		cases := []struct{ code, want string }{
			{"sys.stdout.write('a'); print('b', file=sys.stderr); print('c')", "a<err>b\n</err>c\n"},
			{"sys.stderr.write('a'); print('b', end=''); sys.stderr.write('c'); None", "<err>a</err>b<err>c</err>"},
			{"print('a', end=''); os.write(1, b'b'); print('c')", "abc\n"},
			{"print('a', end=''); sys.stdout.buffer.write(b'b'); print('c')", "abc\n"},
			{"sys.stdout.buffer.write(b'a'); os.write(1, b'b'); sys.__stdout__.write('c'); None", "abc"},
			{"print('a', end=''); libc.puts(b'b'); print('c')", "ab\nc\n"},
			{"print('a', end=''); t = threading.Thread(target=os.write, args=(1, b'b')); t.start(); t.join(); print('c')", "abc\n"},
			{"print('a', end='', file=sys.stderr); os.write(1, b'b'); None", "<err>a</err>b"},
			{"print('a', Talks(), 'c', sep='-')", "a-bT-c\n"},
			{"print('a', 1, None, 2.5, True, [1], sep=None, end='!', flush=True); print(); print('x', sep='-'); print(*'ab')", "a 1 None 2.5 True [1]!\nx\na b\n"},
		}
		eachPython(t, func(t *testing.T, s workerSetup) {
			w := startWorker(t, s)
			w.RunCode(`import os, sys, threading, ctypes, io, codecs, time
libc = ctypes.CDLL(None)
class Talks:
    def __str__(self): os.write(1, b'b'); return 'T'`)
			for _, c := range cases {
				if r := w.RunCode(c.code); r.Transcript() != c.want || r.Idle.Outcome != ipc.OutcomeOK {
					t.Errorf("%q: got %.500q %v\nwant %.500q", c.code, r.Transcript(), r.Idle.Error, c.want)
				}
			}
			if r := w.RunCode("print('loading...', end=''); 1/0"); !strings.HasPrefix(r.Transcript(), "loading...<err>Traceback") {
				t.Errorf("got %q", r.Transcript())
			}
			for _, code := range []string{"print('a', sep=1)", "print('a', end=b'')", "print('a', other=1)"} {
				if r := w.RunCode(code); r.Idle.Error == nil || r.Idle.Error.Name != "TypeError" {
					t.Errorf("%s: got %q", code, r.Transcript())
				}
			}
			// It is seen while the code runs. The last expression of a cell runs on its own, so an
			// interrupt just before a last sleep() would reach the worker's code and have no traceback.
			w.StartTurn("for i in range(3): print('.', end='')\ntime.sleep(3600); None")
			w.WaitOutput("...")
			if r := w.interruptUntil(1, 1, nil); !strings.HasPrefix(r.Transcript(), "<err>Traceback") {
				t.Errorf("got %q", r.Transcript())
			}
			// Other text layers on the same bytes.
			w.RunCode("sys.stdout = io.TextIOWrapper(sys.stdout.detach(), encoding='utf-8'); print('a', end=''); 1/0")
			w.RunCode("print('b', end=''); os.write(1, b'c'); sys.__stdout__.write('d'); None").WantOutput(t, "bcd")
			w.RunCode("sys.stdout = codecs.getwriter('utf-8')(sys.stdout.detach()); print('a', end=''); os.write(1, b'b'); None").WantOutput(t, "ab")
			w.RunCode("print('c', end=''); os.write(1, b'd'); sys.stdout = sys.__stdout__; print('e')").WantOutput(t, "cde\n")
		})
	})

	t.Run("does not tear the lines of threads", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		r := w.RunCode("import threading\ndef f(c):\n    for i in range(2000): print(c * 30, i, 'end')\n" +
			"threads = [threading.Thread(target=f, args=(c,)) for c in 'abcd']\nfor t in threads: t.start()\nfor t in threads: t.join()")
		lines := strings.Split(strings.TrimSuffix(r.OutputText(), "\n"), "\n")
		for _, line := range lines {
			if len(strings.Fields(line)) != 3 || !strings.HasSuffix(line, " end") || strings.Trim(line[:30], line[:1]) != "" {
				t.Fatalf("got the line %q", line)
			}
		}
		if len(lines) != 8000 {
			t.Errorf("got %d lines", len(lines))
		}
	})
}

func TestOutputLoss(t *testing.T) {
	t.Parallel()

	t.Run("a killed worker loses no output", func(t *testing.T) {
		t.Parallel()
		for name, end := range map[string]string{
			"_exit": "os._exit(1)", "kill": "os.kill(os.getpid(), 9)", "crash": "import ctypes; ctypes.string_at(0)",
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w := startWorker(t, workerSetup{})
				w.StartTurn("import os, sys; print('.', end=''); sys.stderr.write('!'); " + end)
				if r := w.FinishTurn(); !strings.HasPrefix(r.Transcript(), ".<err>!</err>") {
					t.Errorf("got %q", r.Transcript())
				}
			})
		}
	})

	t.Run("large text arrives complete", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		want := strings.Repeat("é0123456789", 200_000) + "\n"
		w.RunCode("print('é0123456789' * 200000)").WantOutput(t, want)
		w.RunCode("import sys; sys.stdout.buffer.write(b'x' * 300000); None").WantOutput(t, strings.Repeat("x", 300_000))
		w.RunCode("for i in range(20000): print(i)").WantOutput(t, func() string {
			var b strings.Builder
			for i := range 20_000 {
				fmt.Fprintln(&b, i)
			}
			return b.String()
		}())
	})

	t.Run("closed streams are reopened", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		w.RunCode("import sys; sys.stdout.close(); sys.stderr.close()")
		w.RunCode("print('again')").WantOutput(t, "again\n")
		if r := w.RunCode("1/0"); !strings.Contains(r.ErrText(), "ZeroDivisionError") {
			t.Fatalf("got %q", r.Transcript())
		}
		w.RunCode("import os; old = os.dup(1); os.dup2(os.open('/dev/null', os.O_WRONLY), 1); print('hidden'); print('h' * 9000); os.dup2(old, 1); print('shown')").WantOutput(t, "shown\n")
	})

	t.Run("a nonblocking terminal loses nothing", func(t *testing.T) {
		t.Parallel()
		w := startWorker(t, workerSetup{})
		w.RunCode("import os; os.set_blocking(0, False)")
		w.RunCode("for i in range(300): print('y' * 5000)").WantOutput(t, strings.Repeat(strings.Repeat("y", 5000)+"\n", 300))
	})
}

func TestFork_ClosesChannel(t *testing.T) {
	t.Parallel()
	eachPython(t, func(t *testing.T, s workerSetup) {
		w := startWorker(t, s)
		r := w.RunCode(`import os, sys
pid = os.fork()
if pid == 0:
    print('child', flush=True)
    1/0`)
		if r.Idle.Outcome != ipc.OutcomeOK {
			t.Fatalf("got %q %+v", r.Transcript(), r.Idle)
		}
		if r := w.RunCode("os.waitpid(pid, 0)[1] >> 8"); !strings.Contains(r.OutputText(), "1\n") {
			t.Fatalf("got %q", r.Transcript())
		}
		w.RunCode("pid = os.fork()\nif pid == 0: sys.exit(7)\nos.waitpid(pid, 0)[1] >> 8").WantOutput(t, "7\n")
		w.RunCode("import subprocess; subprocess.run([sys.executable, '-c', 'import os; print([f for f in range(900, 4096) if os.path.exists(\"/dev/fd/%d\" % f)])'], close_fds=False); None").WantOutput(t, "[]\n")
	})
}

func TestMultiprocessing(t *testing.T) {
	t.Parallel()
	eachPython(t, func(t *testing.T, s workerSetup) {
		w := startWorker(t, s)
		w.RunCode("import multiprocessing as mp, sys\ndef f(x):\n    print('in', x, flush=True)\n    return x * x")
		if r := w.RunCode("with mp.Pool(2) as p: print(p.map(f, [2]))"); !strings.HasSuffix(r.OutputText(), "[4]\n") || !strings.Contains(r.OutputText(), "in 2\n") {
			t.Fatalf("got %q", r.Transcript())
		}
		w.RunCode("from concurrent.futures import ProcessPoolExecutor\nwith ProcessPoolExecutor(1) as e: print(e.submit(f, 3).result())").WantOutput(t, "in 3\n9\n")
		w.RunCode("mp.get_start_method(), mp.get_context().get_start_method()").WantOutput(t, "('fork', 'fork')\n")
		w.RunCode("mp.set_start_method('spawn', force=True); mp.get_start_method()").WantOutput(t, "'spawn'\n")
	})
}

func TestMatplotlib(t *testing.T) {
	t.Parallel()
	path := os.Getenv("TURNSTONE_TEST_MATPLOTLIB")
	if path == "" {
		path = "python3"
	}
	s := workerSetup{python: path}
	s.options.ImageDPI = 50
	w := startWorker(t, s)
	if r := w.RunCode("import matplotlib.pyplot as plt"); r.Idle.Outcome != ipc.OutcomeOK {
		t.Skip("python3 has no matplotlib: name an interpreter that has it in TURNSTONE_TEST_MATPLOTLIB")
	}
	images := func(code string) (list []ipc.Display) {
		t.Helper()
		r := w.RunCode(code)
		if r.Idle.Outcome != ipc.OutcomeOK {
			t.Fatalf("%s: got %q", code, r.Transcript())
		}
		for _, e := range r.Events {
			if m, ok := e.(ipc.Display); ok {
				if _, err := png.Decode(bytes.NewReader(m.Data["image/png"])); err != nil {
					t.Fatalf("%s: %v", code, err)
				}
				list = append(list, m)
			}
		}
		return list
	}
	one := images("plt.plot([1, 2]); plt.title('rising');")
	if len(one) != 1 || one[0].Title != "rising" || one[0].Update || string(one[0].Data["text/plain"]) != "<Figure size 640x480 with 1 Axes>" {
		t.Fatalf("the end of a cell: %d images", len(one))
	}
	if got := images("1"); len(got) != 0 {
		t.Fatalf("the next cell: %d images, want none", len(got))
	}
	two := images("plt.plot([1, 2]); plt.show(); plt.plot([2, 1]); plt.show()")
	if len(two) != 2 || two[0].ID == two[1].ID || two[0].ID == one[0].ID {
		t.Fatalf("show: %d images, want two with different IDs", len(two))
	}
	if got := images("fig, ax = plt.subplots(); fig.suptitle('all'); ax.plot([1]); fig"); len(got) != 1 || got[0].Title != "all" {
		t.Fatalf("a figure as last expression: %d images", len(got))
	}
	ups := images("fig, ax = plt.subplots()\nfor i in range(3):\n    ax.plot([i, 1]); plt.pause(0.001)")
	if len(ups) != 3 || ups[0].Update || !ups[1].Update || ups[1].ID != ups[0].ID {
		t.Fatalf("pause: %d images, want 3, the later ones updates", len(ups))
	}
	if got := images("plt.figure(); None"); len(got) != 0 {
		t.Fatalf("an empty figure: %d images, want none", len(got))
	}
	if got := images("from matplotlib.figure import Figure\nf = Figure(); f.subplots().plot([1, 2]); f"); len(got) != 1 {
		t.Fatalf("a figure without pyplot: %d images", len(got))
	}
	r := w.RunCode("print('a'); plt.plot([1]); plt.show(); print('b')")
	if want := regexp.MustCompile(`^a\n\[display figure-\d+: image/png text/plain\] <Figure size 640x480 with 1 Axes>\nb\n$`); !want.MatchString(r.Transcript()) {
		t.Fatalf("got %q", r.Transcript())
	}
}
