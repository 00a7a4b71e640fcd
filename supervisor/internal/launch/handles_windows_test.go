package launch_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"

	"golang.org/x/sys/windows"

	"github.com/turnstone-repl/turnstone/supervisor/internal/launch"
	"github.com/turnstone-repl/turnstone/supervisor/internal/monitorproto"
	"github.com/turnstone-repl/turnstone/supervisor/internal/pty"
)

// wantNoLeaks repeats a cycle and wants as many handles and goroutines after it as before.
func wantNoLeaks(t *testing.T, cycle func(t *testing.T)) {
	t.Helper()
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection would close leaked files
	count := func() (handles, goroutines int) {
		return launch.CountHandles(), runtime.NumGoroutine()
	}
	// A thread of the runtime, which also has handles, may be created at any time and stays. Only
	// what grows with every batch has leaked.
	const cycles, batches = 8, 4
	const leaked = cycles * 3 / 4 // most cycles; some handles may happen to close in between
	for range 2 {
		cycle(t)
	}
	for batch := 1; ; batch++ {
		handles, goroutines := count()
		for range cycles {
			if cycle(t); t.Failed() {
				return
			}
		}
		h, g := count()
		if h < handles+leaked && g < goroutines+leaked {
			return
		}
		if batch == batches {
			t.Fatalf("got %d handles and %d goroutines after %d cycles, %d and %d before", h, g, cycles, handles, goroutines)
		}
	}
}

func TestHandleLeaks(t *testing.T) {
	start := func(t *testing.T, role string, args ...string) testWorker {
		t.Helper()
		p, err := launch.Start(newRoleCommand(role, args...))
		if err != nil {
			t.Fatal(err)
		}
		return testWorker{p, collectOutput(terminalReader{p})}
	}
	end := func(t *testing.T, w testWorker) {
		t.Helper()
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		waitClosed(t, "end of the terminal", w.ended)
	}
	for _, c := range []struct {
		name  string
		cycle func(t *testing.T)
	}{
		{"a worker that is closed", func(t *testing.T) {
			w := start(t, "answer")
			if _, err := w.Channel().Write([]byte("x")); err != nil {
				t.Error(err)
			}
			if _, err := w.Channel().Read(make([]byte, 100)); err != nil {
				t.Error(err)
			}
			end(t, w)
		}},
		{"a worker that exits", func(t *testing.T) {
			w := start(t, "exit", "0")
			waitClosed(t, "end of its tree", w.Done())
			end(t, w)
		}},
		{"a worker that never opens the channel", func(t *testing.T) {
			end(t, start(t, "forever"))
		}},
		{"a worker whose channel is closed first", func(t *testing.T) {
			w := start(t, "forever")
			if err := w.Channel().Close(); err != nil {
				t.Error(err)
			}
			end(t, w)
		}},
		{"a worker that is killed, closed and used concurrently", func(t *testing.T) {
			w := start(t, "forever")
			var all sync.WaitGroup
			for range 3 {
				all.Go(func() { w.Kill(); w.Close() })
				all.Go(func() { w.Signal(monitorproto.Interrupt, monitorproto.Worker) })
				all.Go(func() { w.Terminal().Resize(pty.TerminalSize{Rows: 20, Cols: 100}) })
				all.Go(func() { w.Channel().Read(make([]byte, 1)) })
				all.Go(func() { w.MemoryBytes() })
			}
			all.Go(func() { w.Terminal().WriteInput([]byte("text"), false) })
			all.Wait()
			end(t, w)
		}},
		{"a program that does not exist", func(t *testing.T) {
			if _, err := launch.Start(&launch.StartConfig{Path: `C:\missing.exe`}); err == nil {
				t.Error("got a process")
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) { wantNoLeaks(t, c.cycle) })
	}
}

func TestStartFailure_Windows(t *testing.T) {
	for n := range launch.CountStartSteps(newRoleCommand("forever")) {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			wantNoLeaks(t, func(t *testing.T) {
				step, monitor, err := launch.StartWithFailure(newRoleCommand("forever"), n)
				e, ok := errors.AsType[*monitorproto.StartError](err)
				if !ok || e.Step != step || !errors.Is(err, launch.ErrInjected) {
					t.Errorf("got %v, want the injected error of step %q", err, step)
				}
				if monitor == 0 {
					return
				}
				h, err := windows.OpenProcess(windows.SYNCHRONIZE, false, uint32(monitor))
				if err != nil {
					return // the process has ended
				}
				defer windows.CloseHandle(h)
				// In its job, the monitor has ended; outside of it, it ends with its console.
				if got, err := windows.WaitForSingleObject(h, uint32(testTimeout.Milliseconds())); got != windows.WAIT_OBJECT_0 {
					t.Errorf("monitor %d still exists: %v", monitor, err)
				}
			})
		})
	}
}

func TestChannelClosedBeforeEnd(t *testing.T) {
	w := startRole(t, "forever")
	if err := w.Channel().Close(); err != nil {
		t.Fatal(err)
	}
	// By now, new handles have probably reused the closed numbers.
	var events [64]windows.Handle
	for i := range events {
		var err error
		if events[i], err = windows.CreateEvent(nil, 1, 0, nil); err != nil {
			t.Fatal(err)
		}
		defer windows.CloseHandle(events[i])
	}
	w.Kill()
	waitClosed(t, "end of its tree", w.Done())
	for _, e := range events {
		if got, _ := windows.WaitForSingleObject(e, 0); got == windows.WAIT_OBJECT_0 {
			t.Error("an unrelated event was set")
		}
	}
}

func TestTerminalEnd_Windows(t *testing.T) {
	t.Run("calls after the end return errors", func(t *testing.T) {
		w := startRole(t, "exit", "0")
		waitClosed(t, "end of its tree", w.Done())
		if err := w.Terminal().Resize(pty.TerminalSize{Rows: 20, Cols: 100}); !errors.Is(err, monitorproto.ErrEnded) {
			t.Errorf("resize: got %v, want ErrEnded", err)
		}
		if err := w.Terminal().WriteInput([]byte("x"), false); !errors.Is(err, os.ErrClosed) {
			t.Errorf("write input: got %v, want os.ErrClosed", err)
		}
		if _, err := w.Terminal().TryRead(make([]byte, 1)); err != nil && err != io.EOF {
			t.Errorf("read: got %v", err)
		}
	})
}
