//go:build linux || darwin

package python_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/rawworker"
	"github.com/turnstone-repl/turnstone/internal/testkit/testmain"
	"github.com/turnstone-repl/turnstone/ipc"
	"github.com/turnstone-repl/turnstone/workers/python"
)

func TestDamagedRuntime(t *testing.T) {
	t.Parallel()

	// Wrapping the result of detach is the best known way to change the encoding.
	t.Run("detached streams keep working", func(t *testing.T) {
		t.Parallel()
		wraps := map[string]string{
			"a wrapper":     "io.TextIOWrapper(sys.STREAM.detach(), encoding='utf-8')",
			"a codec":       "codecs.getwriter('utf-8')(sys.STREAM.detach())",
			"natively":      "io.TextIOWrapper(io.TextIOWrapper.detach(sys.STREAM), encoding='utf-8')",
			"its own bytes": "sys.STREAM.detach()",
		}
		eachPython(t, func(t *testing.T, s workerSetup) {
			w := startWorker(t, s)
			for name, wrap := range wraps {
				for _, stream := range []string{"stdout", "stderr"} {
					code := "import codecs, io, sys; sys." + stream + " = " + strings.ReplaceAll(wrap, "STREAM", stream) + "; None"
					w.RunCode(code)
					said := "said"
					if name == "its own bytes" {
						said = "" // print has no text stream then
					} else if r := w.RunCode("print('said', file=sys." + stream + ")"); r.OutputText() != "said\n" || r.Idle.Outcome != ipc.OutcomeOK {
						t.Fatalf("%s, %s: got %q %+v", name, stream, r.Transcript(), r.Idle)
					}
					if r := w.RunCode("sys." + stream + " = sys.__" + stream + "__; print('back', file=sys." + stream + ")"); r.OutputText() != "back\n" || r.Idle.Outcome != ipc.OutcomeOK {
						t.Fatalf("%s, %s, %s: got %q %+v", name, stream, said, r.Transcript(), r.Idle)
					}
				}
			}
		})
	})

	// The worker's own code does not use objects that user code can replace.
	t.Run("replaced builtins do not disturb the worker", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			w := startWorker(t, s)
			w.RunCode("import builtins, sys; saved = dict(vars(builtins))")
			for _, damage := range []string{
				"builtins.len = None", "del builtins.str", "del builtins.isinstance", "builtins.__import__ = None",
				"del builtins.BaseException", "builtins.map = builtins.partial = None",
			} {
				w.RunCode(damage)
				w.RunCode("6 * 7").WantOutput(t, "42\n")
				if r := w.RunCode("1/0"); r.Idle == nil || r.Idle.Outcome != ipc.OutcomeError || !strings.Contains(r.OutputText(), "ZeroDivisionError") {
					t.Fatalf("%s: got %q %+v", damage, r.Transcript(), r.Idle)
				}
				w.RunCode("vars(builtins).update(saved)")
			}
			w.RunCode("del __builtins__")
			w.RunCode("__builtins__ is builtins").WantOutput(t, "True\n")
			w.RunCode("del __builtins__\nimport time; time is sys.modules['time']").WantOutput(t, "True\n")
			w.RunCode("globals().clear()\nimport time, builtins; __builtins__ is builtins").WantOutput(t, "True\n")
			w.RunCode("import time, sys; time is sys.modules['time']").WantOutput(t, "True\n")
		})
	})

	// Python's own prompt ignores such an error, too.
	t.Run("ignores a prompt that cannot be shown", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			w := startWorker(t, s)
			for _, code := range []string{"import sys\nclass Prompt:\n    def __str__(self): 1/0\nsys.ps1 = Prompt()", "x = 1"} {
				if r := w.RunCode(code); r.Transcript() != "" || r.Idle == nil || r.Idle.Outcome != ipc.OutcomeOK || r.Idle.Prompt != "" {
					t.Errorf("%q: got %q %+v", code, r.Transcript(), r.Idle)
				}
			}
		})
	})

	// Python reports this from 3.12 on. It is not a lack of memory.
	t.Run("reports code that is nested too deeply", func(t *testing.T) {
		t.Parallel()
		const deep = "MemoryError: Parser stack overflowed - Python source too complex to parse\n"
		eachPython(t, func(t *testing.T, s workerSetup) {
			s.Dir = t.TempDir()
			w := startWorker(t, s)
			w.RunCode("_ = open('deep.py', 'w').write('x = ' + '-' * 100000 + '1')")
			for code, want := range map[string]string{
				"eval('-' * 100000 + '1')":                 deep,
				"import ast; ast.parse('-' * 100000)":      deep,
				"import deep":                              deep,
				"x = " + strings.Repeat("-", 100000) + "1": deep,
				"import sys; [0] * (1 << 60)":              "MemoryError\n",
			} {
				if r := w.RunCode(code); !strings.HasSuffix(r.OutputText(), want) {
					t.Errorf("%.30q: got %.1000q", code, r.OutputText())
				}
			}
		})
	})

	t.Run("continues after memory has run out", func(t *testing.T) {
		t.Parallel()
		fills := map[string]string{
			"small lists":   "while True: a.append([0] * 1000)",
			"objects":       "while True: a.append(object())",
			"numbers":       "i = 1 << 70\nwhile True: a.append(i); i += 1",
			"large strings": "while True: a.append('x' * 100000 + str(len(a)))",
			"one list":      "while True: a += a or [0]",
			"a dict":        "d = {}\na.append(d)\nwhile True: d[len(d)] = str(len(d))",
			"a function":    "def fill():\n    b = []\n    while True: b.append(bytes(3000))\nfill()",
		}
		for name, fill := range fills {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				eachPython(t, func(t *testing.T, s workerSetup) {
					if !s.newest && name != "objects" && name != "a function" && testmain.Rounds(1) == 1 {
						return // by default on one Python only; on all with TURNSTONE_TEST_ROUNDS
					}
					w := startWorker(t, s)
					w.RunCode("import resource; used = int(open('/proc/self/statm').read().split()[0]) * 4096 if __import__('os').path.exists('/proc/self/statm') else 400 << 20; resource.setrlimit(resource.RLIMIT_AS, (used + (24 << 20),) * 2)")
					for range 2 { // the second can use the memory that the first freed
						w.RunCode("a = []")
						if r := w.RunCode(fill); r.Idle == nil || r.Idle.Outcome != ipc.OutcomeError || !strings.Contains(r.OutputText(), "MemoryError") {
							t.Fatalf("got %.500q %+v %+v", r.Transcript(), r.Idle, r.End)
						}
						if r := w.RunCode("len(a) >= 0"); r.OutputText() != "True\n" {
							t.Fatalf("got %.500q %+v %+v", r.Transcript(), r.Idle, r.End)
						}
						w.RunCode("del a; d = i = None; 6 * 7").WantOutput(t, "42\n")
					}
					if r := w.RunCode("1/0"); !strings.Contains(r.OutputText(), "ZeroDivisionError") {
						t.Fatalf("got %.500q %+v %+v", r.Transcript(), r.Idle, r.End)
					}
				})
			})
		}
	})

	t.Run("truncates a deep traceback", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			w := startWorker(t, s)
			r := w.RunCode(`def deeper(n):
    if n == 0: raise ValueError('the bottom')
    try: deeper(n - 1)
    finally: pass
import sys; sys.setrecursionlimit(6000); deeper(3000)`)
			if got := r.ErrText(); !strings.Contains(got, "in <module>") || !strings.HasSuffix(got, "ValueError: the bottom\n[2002 frames in the middle of the traceback are not shown]\n") {
				t.Fatalf("got %.1000q … %q", got, got[max(0, len(got)-300):])
			}
			if r := w.RunCode("deeper(1000)"); strings.Contains(r.OutputText(), "not shown") {
				t.Fatalf("got %.1000q", r.OutputText())
			}
		})
	})

	t.Run("PYTHONINSPECT leads to no prompt after an exit", func(t *testing.T) {
		t.Parallel()
		for name, code := range map[string]string{
			"set before": "exit()",
			"set inside": "import os; os.environ['PYTHONINSPECT'] = '1'; exit()",
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s := workerSetup{python: "python3"}
				if name == "set before" {
					o := python.Options{Path: "python3", CacheDir: "-"}
					s.Base = append(cleanEnv(), "PYTHONINSPECT=1")
					w := &worker{rawworker.StartWorker(t, python.Spec(o), s.WorkerOptions), t}
					if r := w.RunCode(code); r.End == nil || r.OutputText() != "" {
						t.Fatalf("got %q %+v", r.Transcript(), r.End)
					}
					return
				}
				w := startWorker(t, s)
				if r := w.RunCode(code); r.End == nil || r.OutputText() != "" {
					t.Fatalf("got %q %+v", r.Transcript(), r.End)
				}
			})
		}
	})
}

func TestTurnEdges(t *testing.T) {
	t.Parallel()

	// A user's signal handler that raises may run at any point between two turns.
	t.Run("a handler that raises between turns stops no turn", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			w := startWorker(t, s)
			w.RunCode("import random, signal\nclass Alarm(Exception): pass\ndef ring(*a): raise Alarm\n_ = signal.signal(signal.SIGALRM, ring)")
			for i := range testmain.Rounds(150) {
				w.RunCode("_ = signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-5, 2e-3))")
				if r := w.RunCode("x = 1"); r.Idle == nil {
					t.Fatalf("round %d: got %q %+v", i, r.Transcript(), r.End)
				}
			}
			w.RunCode("_ = signal.setitimer(signal.ITIMER_REAL, 0)")
			w.RunCode("6 * 7").WantOutput(t, "42\n")
		})
	})

	// A forked child may get a signal before the worker's code after the fork has run. Even then
	// it reads none of the frames that are meant for its parent.
	t.Run("a forked child reads no frames before its first signal", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			dir := t.TempDir()
			early := `import os, signal
def forked():
    try:
        os.kill(os.getpid(), signal.SIGINT)
        while True: pass
    except KeyboardInterrupt: pass
os.register_at_fork(after_in_child=forked)
`
			if err := os.WriteFile(filepath.Join(dir, "sitecustomize.py"), []byte(early), 0o600); err != nil {
				t.Fatal(err)
			}
			s.Env = append(s.Env, "PYTHONPATH="+dir)
			w := startWorker(t, s)
			goOn := filepath.Join(dir, "go")
			w.StartTurn(fmt.Sprintf("import os; print('up', flush=True)\nwhile not os.path.exists(%q): pass\npid = os.fork()\nif pid == 0: os._exit(7)\nos.waitpid(pid, 0)[1] >> 8", goOn))
			w.WaitOutput("up")
			w.SendMessage(ipc.Query{ID: 5, Kind: ipc.QueryVariables}) // in the pipe when it forks
			if err := os.WriteFile(goOn, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			r := w.FinishTurn()
			r.WantOutput(t, "7\n")
			w.SendMessage(ipc.Query{ID: 6, Kind: ipc.QueryParse, Text: "1"}) // is answered after the previous one
			for over := false; !over; {
				e := w.NextEvent()
				r.Events = append(r.Events, e)
				last, ok := e.(ipc.QueryResult)
				over = ok && last.ID == 6
			}
			// The process that answers after the fork's end knows the variable pid, and the fork
			// does not.
			if !slices.ContainsFunc(r.Events, func(e any) bool {
				answer, ok := e.(ipc.QueryResult)
				return ok && answer.ID == 5 && slices.ContainsFunc(answer.Variables, func(v ipc.Variable) bool { return v.Name == "pid" })
			}) {
				t.Errorf("the fork has taken the query: %+v", r.Events)
			}
		})
	})

	// If a step of the worker fails repeatedly without progress, the session ends with the reason.
	t.Run("a step that always fails ends the session with a reason", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			w := startWorker(t, s)
			r := w.RunCode("import gc; W = next(type(o) for o in gc.get_objects() if type(o).__name__ == 'Worker'); m = W.live.__globals__\nexec(\"def rest(self): raise RuntimeError('broken')\", m); W.rest = m['rest']")
			for r.End == nil {
				if end, ok := w.NextEvent().(ipc.SessionEnd); ok {
					r.End = &end
				}
			}
			if r.End.Reason != ipc.EndCrash || r.End.Message != "the worker fails: RuntimeError: broken" || r.End.Code == nil || *r.End.Code != 70 {
				t.Errorf("got %+v", r.End)
			}
		})
	})

	// An interrupt may come with the start of its turn, after a late one for the previous turn. It
	// belongs to its own turn.
	t.Run("an interrupt after a stale one belongs to its own turn", func(t *testing.T) {
		t.Parallel()
		eachPython(t, func(t *testing.T, s workerSetup) {
			w := startWorker(t, s)
			w.RunCode("1").WantOutput(t, "1\n")
			w.Turn++
			var at []byte
			for _, m := range []ipc.Message{
				ipc.Interrupt{Turn: w.Turn - 1, Seq: 1, Level: 1},
				ipc.TurnStart{Turn: w.Turn, Input: []byte("input()")},
				ipc.Interrupt{Turn: w.Turn, Seq: 1, Level: 1},
			} {
				var err error
				if at, err = ipc.AppendFrame(at, m); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := w.Channel.Write(at); err != nil {
				t.Fatal(err)
			}
			for {
				if m, ok := w.NextEvent().(ipc.InterruptAck); ok && m.Turn == w.Turn {
					if m.Result != ipc.InterruptRaised {
						t.Errorf("got %+v, want raised", m)
					}
					return
				}
			}
		})
	})
}
