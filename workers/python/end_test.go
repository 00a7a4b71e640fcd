//go:build linux || darwin

package python_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/ipc"
)

// status waits for the worker's process.
func (w *worker) status() syscall.WaitStatus {
	w.t.Helper()
	w.cmd.Wait()
	return w.cmd.ProcessState.Sys().(syscall.WaitStatus)
}

func TestExit_IsSaidAfterTheExitHandlers(t *testing.T) {
	eachPython(t, func(t *testing.T, s setup) {
		for _, c := range []struct {
			code    string
			want    int64
			message string
			out     string
		}{
			{"import sys; sys.exit(3)", 3, "", "thread\nbye\n"},
			{"import sys; sys.exit('a message')", 1, "a message", "a message\nthread\nbye\n"},
			{"quit()", 0, "", "thread\nbye\n"},
			{"exit(0)", 0, "", "thread\nbye\n"},
			{"raise SystemExit", 0, "", "thread\nbye\n"},
		} {
			w := start(t, s)
			w.run("import atexit, threading, time; atexit.register(print, 'bye')\nt = threading.Thread(target=lambda: (time.sleep(0.05), print('thread'))); t.start()")
			r := w.run(c.code)
			if r.end == nil || r.end.Reason != ipc.EndExit || r.end.Code == nil || *r.end.Code != c.want || r.end.Message != c.message {
				t.Fatalf("%s: got %+v %q", c.code, r.end, r.script())
			}
			if r.out() != c.out || r.idle != nil {
				t.Errorf("%s: got %q, idle %+v; want %q", c.code, r.out(), r.idle, c.out)
			}
			if got := w.status().ExitStatus(); got != int(c.want) {
				t.Errorf("%s: exit status %d", c.code, got)
			}
		}
	})
}

func TestExit_DaemonThreadThatWaitsForInputDoesNotStopIt(t *testing.T) {
	eachPython(t, func(t *testing.T, s setup) {
		w := start(t, s)
		w.onWait = func(ipc.StdinWait) bool { return true }
		w.run("import threading, time; threading.Thread(target=input, daemon=True).start(); time.sleep(0.05)")
		r := w.run("import sys; sys.exit(4)")
		if r.end == nil || w.status().ExitStatus() != 4 || strings.Contains(r.out(), "Fatal") {
			t.Fatalf("got %q %+v %v", r.script(), r.end, w.cmd.ProcessState)
		}
	})
}

func TestExit_InterruptBreaksAHangingThread(t *testing.T) {
	w := start(t, setup{})
	w.begin(`import threading, time, sys
def hang():
    while threading.main_thread().is_alive(): time.sleep(0.01)
    print('joining', flush=True)
    time.sleep(100)
threading.Thread(target=hang).start()
sys.exit(5)`)
	w.await("joining")
	for seq := uint64(1); seq < 100; seq++ {
		w.interrupt(seq, 1)
		for {
			e, ok := w.nextWithin(50 * time.Millisecond)
			if !ok {
				break
			}
			if m, ok := e.(ipc.SessionEnd); ok {
				if *m.Code != 5 {
					t.Fatalf("got %+v", m)
				}
				return
			}
		}
	}
	t.Fatal("the join goes on")
}

func TestExit_OSExitAndCrashesLeaveTheStatus(t *testing.T) {
	w := start(t, setup{})
	if r := w.run("import os; os._exit(9)"); r.end != nil || w.status().ExitStatus() != 9 {
		t.Fatalf("got %+v %v", r.end, w.cmd.ProcessState)
	}
	w = start(t, setup{})
	r := w.run("def f():\n    import ctypes; ctypes.string_at(0)\nf()")
	if s := w.status(); !s.Signaled() || s.Signal() != syscall.SIGSEGV {
		t.Fatalf("got %v", w.cmd.ProcessState)
	}
	if !strings.Contains(r.out(), "Segmentation fault") || !strings.Contains(r.out(), `"<cell 1>", line 2 in f`) {
		t.Fatalf("no stack on the terminal: %q", r.script())
	}
}

func TestShutdown_RunsTheExitHandlers(t *testing.T) {
	eachPython(t, func(t *testing.T, s setup) {
		for _, c := range []struct {
			name, code string
			waits      bool
			outcome    ipc.Outcome
		}{
			{"idle", "", false, ""},
			{"in a wait", "try: input('? ')\nexcept EOFError: print('EOF')", true, ipc.OutcomeOK},
			{"running", "import time\ntry:\n    print('up', flush=True)\n    time.sleep(100)\nexcept KeyboardInterrupt: time.sleep(100)", false, ipc.OutcomeInterrupted},
		} {
			w := start(t, s)
			w.run("import atexit; atexit.register(print, 'bye')")
			if c.code != "" {
				w.begin(c.code)
			}
			switch {
			case c.waits:
				w.onWait = func(ipc.StdinWait) bool {
					w.tell(ipc.Shutdown{GraceMS: 1000})
					return true
				}
			case c.code != "":
				w.await("up")
				fallthrough
			default:
				w.tell(ipc.Shutdown{GraceMS: 1000})
			}
			if c.code != "" {
				if r := w.finishShutdown(!c.waits); r.idle == nil || r.idle.Outcome != c.outcome {
					t.Fatalf("%s: got %q %+v", c.name, r.script(), r.idle)
				}
			}
			r := w.finish()
			if r.end == nil || r.end.Reason != ipc.EndShutdown || r.out() != "bye\n" {
				t.Fatalf("%s: got %q %+v", c.name, r.script(), r.end)
			}
			if w.status().ExitStatus() != 0 {
				t.Fatalf("%s: %v", c.name, w.cmd.ProcessState)
			}
		}
	})
}

// finishShutdown collects the running turn, which is signalled until it ends.
func (w *worker) finishShutdown(signal bool) (r result) {
	w.t.Helper()
	for range 100 {
		if signal {
			syscall.Kill(-w.cmd.Process.Pid, syscall.SIGINT)
		}
		for {
			e, ok := w.nextWithin(50 * time.Millisecond)
			if !ok {
				break
			}
			r.events = append(r.events, e)
			switch e := e.(type) {
			case ipc.StdinWait:
				w.onWait(e)
			case ipc.Idle:
				r.idle = &e
				return r
			}
		}
	}
	return r
}

func TestChannel_WorkerEndsWhenItCloses(t *testing.T) {
	eachPython(t, func(t *testing.T, s setup) {
		w := start(t, s)
		w.send.Close()
		w.finish()
		if w.status().ExitStatus() != 0 {
			t.Fatalf("idle: %v", w.cmd.ProcessState)
		}
		w = start(t, s)
		w.onWait = func(ipc.StdinWait) bool {
			w.send.Close()
			return true
		}
		w.run("try: input()\nexcept Exception: print('swallowed')")
		w.status()
		w = start(t, s)
		w.run("import threading; threading.Thread(target=threading.Event().wait).start()")
		w.send.Close()
		w.finish()
		if s := w.status(); !s.Signaled() || s.Signal() != syscall.SIGALRM {
			t.Fatalf("a thread that hangs: %v", w.cmd.ProcessState)
		}
	})
}

func TestChannel_BrokenProtocolEndsTheWorker(t *testing.T) {
	for name, frame := range map[string]string{
		"unknown type":    "\x00\x00\x00\x0a\x81\xa4type\xa3wat",
		"not MessagePack": "\x00\x00\x00\x01\xc1",
		"too long":        "\xff\xff\xff\xff",
	} {
		w := start(t, setup{})
		if _, err := w.send.WriteString(frame); err != nil {
			t.Fatal(err)
		}
		r := w.finish()
		if r.end == nil || r.end.Reason != ipc.EndProtocolError || r.end.Message == "" || w.status().ExitStatus() != 70 {
			t.Fatalf("%s: got %+v %v", name, r.end, w.cmd.ProcessState)
		}
	}
}

func TestQuery_Completes(t *testing.T) {
	eachPython(t, func(t *testing.T, s setup) {
		w := start(t, s)
		w.run(`import os
class C:
    ran = 0
    alpha = 1
    @property
    def beta(self): C.ran += 1; return self
    def __init__(self): self.gamma = 'text'
obj = C()
été = 1`)
		for i, c := range []struct{ text, start, has, hasNot string }{
			{"obj.", "obj.", "alpha", "__init__"},
			{"obj.al", "obj.", "alpha", "beta"},
			{"obj.gamma.upp", "obj.gamma.", "upper", ""},
			{"obj.beta.al", "obj.beta.", "", "alpha"},
			{"print(ob", "print(", "obj", "os"},
			{"os.path.joi", "os.path.", "join", ""},
			{"whil", "", "while", ""},
			{"x = été", "x = ", "été", ""},
			{"'obj.al", "'obj.al", "", "alpha"},
			{"# ob", "# ob", "", "obj"},
			{"nothing.al", "nothing.", "", "alpha"},
			{"f(1).al", "f(1).", "", "alpha"},
			{"obj.__ini", "obj.", "__init__", "alpha"},
		} {
			w.tell(ipc.Query{ID: uint64(i), Kind: ipc.QueryComplete, Text: c.text, Cursor: uint64(len(c.text))})
			m, ok := w.next().(ipc.QueryResult)
			if !ok || m.ID != uint64(i) || m.Status != ipc.StatusOK || m.Start != uint64(len(c.start)) || len(m.Matches) > 200 {
				t.Fatalf("%q: got %+v", c.text, m)
			}
			all := " " + strings.Join(m.Matches, " ") + " "
			if c.has != "" && !strings.Contains(all, " "+c.has+" ") || c.hasNot != "" && strings.Contains(all, " "+c.hasNot+" ") {
				t.Errorf("%q: got %q; want %q in it and %q not", c.text, all, c.has, c.hasNot)
			}
		}
		w.run("C.ran").wants(t, "0\n")
		w.run("class Slow:\n    def __dir__(self):\n        while True: pass\nslow = Slow()")
		w.tell(ipc.Query{ID: 99, Kind: ipc.QueryComplete, Text: "slow.", Cursor: 5})
		w.tell(ipc.Interrupt{Turn: 0, Seq: 1, Level: 2})
		for answered := false; !answered; {
			syscall.Kill(w.cmd.Process.Pid, syscall.SIGINT)
			e, _ := w.nextWithin(50 * time.Millisecond)
			var m ipc.QueryResult
			if m, answered = e.(ipc.QueryResult); answered && m.Status != ipc.StatusTimeout {
				t.Fatalf("got %+v", m)
			}
		}
		if r := w.run("'after'"); r.out() != "'after'\n" {
			t.Fatalf("got %q", r.script())
		}
	})
}

func TestQuery_Parses(t *testing.T) {
	eachPython(t, func(t *testing.T, s setup) {
		w := start(t, s)
		for text, want := range map[string]ipc.QueryStatus{
			"":                          ipc.StatusComplete,
			"1+1":                       ipc.StatusComplete,
			"x = 1\ny = 2":              ipc.StatusComplete,
			"# comment":                 ipc.StatusComplete,
			"await f()":                 ipc.StatusComplete,
			"'\\d'":                     ipc.StatusComplete,
			"if x:":                     ipc.StatusIncomplete,
			"if x:\n    y":              ipc.StatusIncomplete,
			"if x:\n    y\n":            ipc.StatusComplete,
			"if x:\n    y\nz":           ipc.StatusComplete,
			"for i in x: pass":          ipc.StatusIncomplete,
			"f(":                        ipc.StatusIncomplete,
			"[1,\n2":                    ipc.StatusIncomplete,
			"'''text":                   ipc.StatusIncomplete,
			"x = \\":                    ipc.StatusIncomplete,
			"@decorator":                ipc.StatusIncomplete,
			"try:\n    pass":            ipc.StatusIncomplete,
			"f(]":                       ipc.StatusInvalid,
			"x = = 1":                   ipc.StatusInvalid,
			"'text":                     ipc.StatusInvalid,
			"def f(:":                   ipc.StatusInvalid,
			"return 1":                  ipc.StatusInvalid,
			"class C:\n  def f(s):\n\n": ipc.StatusIncomplete,
		} {
			w.tell(ipc.Query{ID: 1, Kind: ipc.QueryParse, Text: text})
			e := w.next()
			if m, ok := e.(ipc.QueryResult); !ok || m.Status != want {
				t.Errorf("%q: got %+v, want %s", text, e, want)
			}
		}
		w.run("1").wants(t, "1\n")
	})
}

func TestCache_HoldsTheCompiledWorker(t *testing.T) {
	s := setup{}
	dir := filepath.Join(t.TempDir(), "new", "cache")
	s.options.CacheDir = dir
	entries := func() []string {
		found, err := filepath.Glob(filepath.Join(dir, "worker-*"))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	w := start(t, s)
	for i := 0; len(entries()) == 0 && i < 1000; i++ { // written after idle, when nothing waits
		w.run("1")
	}
	found := entries()
	info, err := os.Stat(found[0])
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("got %v %v", info.Mode(), err)
	}
	if info, _ := os.Stat(dir); info.Mode().Perm() != 0o700 {
		t.Fatalf("the directory is %v", info.Mode())
	}
	start(t, s).run("1").wants(t, "1\n")

	// What somebody damaged is not used, and not believed.
	if err := os.WriteFile(found[0], []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	w = start(t, s)
	for i, data := 0, []byte("garbage"); string(data) == "garbage" && i < 1000; i++ {
		data, _ = os.ReadFile(found[0])
		w.run("1").wants(t, "1\n")
	}
	// What others could write is not used.
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(found[0]); err != nil {
		t.Fatal(err)
	}
	w = start(t, s)
	for range 5 {
		w.run("1").wants(t, "1\n")
	}
	if got := entries(); len(got) != 0 {
		t.Fatalf("written into a directory of everybody's: %v", got)
	}
}

func TestWorker_OldPythonSaysSo(t *testing.T) {
	path := filepath.Join(os.Getenv("HOME"), ".pyenv", "versions", "2.7.18", "bin", "python")
	if _, err := os.Stat(path); err != nil {
		t.Skip("no Python 2.7: install it with pyenv")
	}
	s := setup{noTurn0: true}
	spec := pythonSpec(t)
	spec.Path = path
	w := launch(t, spec, s)
	if r := w.finish(); !strings.Contains(r.out(), "Python 3.8 or newer is needed") {
		t.Fatalf("got %q", r.script())
	}
	if w.status().ExitStatus() != 3 {
		t.Fatalf("got %v", w.cmd.ProcessState)
	}
}
