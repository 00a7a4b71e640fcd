package host

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstone-repl/turnstone/supervisor/internal/confine"
	"github.com/turnstone-repl/turnstone/workers"
)

// A program may be refused something before its monitor has said that it runs.
func TestStartEarlyDenial(t *testing.T) {
	t.Parallel()
	down, orders, reportsIn, err := openChannel()
	if err != nil {
		t.Fatal(err)
	}
	defer down.Close()
	defer orders.Close()
	up, err := down.in.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	to := json.NewEncoder(reportsIn)
	for _, r := range []monitorEvent{
		{Kind: eventDenied, Denial: newDenialEvent(Denial{Op: "open", Path: "/first"})},
		{Kind: eventDenied, Denial: newDenialEvent(Denial{ID: 7, Op: "open", Path: "/held"})},
		{Kind: eventStarted, PID: 42},
		{Kind: eventDenied, Denial: newDenialEvent(Denial{Op: "open", Path: "/later"})},
		{Kind: eventTreeEmpty},
	} {
		if err := to.Encode(r); err != nil {
			t.Fatal(err)
		}
	}
	reportsIn.Close()

	var told []string
	s := &monitorClient{down: down, events: eventReader{raw: up}, onDenial: func(d Denial) { told = append(told, d.Path) }}
	pid, err := s.startWorker(&workerLaunch{command: &Command{Path: "/bin/true", Timeout: time.Minute}})
	if err != nil || pid != 42 || len(told) != 0 {
		t.Fatalf("got pid %d, error %v, told %q, want a start and nothing told before it is known", pid, err, told)
	}
	s.startHandling(func(Exit) {}, func(string) {})
	_ = s.events.handleUntil(s.handleEvent)
	if want := []string{"/first", "/held", "/later"}; !slices.Equal(told, want) {
		t.Errorf("told of %q, want %q", told, want)
	}
}

// An interrupt is sent, and then the calls that it finds held are refused.
func TestMonitorCommandOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told bytes.Buffer
		s := &monitor{eventEncoder: json.NewEncoder(&told), sandbox: &confine.Sandbox{}}
		in, out := io.Pipe()
		defer out.Close()
		orders := s.receiveCommands(json.NewDecoder(in))
		go func() {
			to := json.NewEncoder(out)
			_ = to.Encode(monitorCommand{Kind: commandSignal, Signal: int(syscall.SIGINT)})
			_ = to.Encode(monitorCommand{Kind: commandForgetDenials})
		}()
		if o := <-orders; o.Kind != commandSignal {
			t.Fatalf("got %+v", o)
		}
		synctest.Wait()
		if told.Len() > 0 {
			t.Errorf("it told %s while a signal was on its way", &told)
		}
		select {
		case o := <-orders:
			if o.Kind != "" {
				t.Errorf("got %+v, want what asks nothing", o)
			}
		default:
			t.Error("it does not wait until the signal is sent")
		}
		synctest.Wait()
		if !strings.Contains(told.String(), eventSignalSent) {
			t.Errorf("it told %q after the signal, want that it obeyed", &told)
		}
	})
}

// The monitor may be held up by a filesystem. The session writes a directory that it gives then, so that is watched.
func TestGrantLateAnswer(t *testing.T) {
	t.Parallel()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"home", "work", "state", "sessions", "tmp", "data/more"} {
		if err := os.MkdirAll(filepath.Join(base, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	more := filepath.Join(base, "data", "more")
	for name, r := range map[string]monitorEvent{
		"given":   {Kind: eventGranted},
		"refused": {Kind: eventGranted, Step: "place", Errno: int(syscall.EIO)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan, _, err := confine.NewPlan(&workers.Sandbox{Level: workers.Workspace, Network: workers.NetworkNone}, confine.PlanInput{
				Home: filepath.Join(base, "home"), Dir: filepath.Join(base, "work"), Program: "/bin/true", State: filepath.Join(base, "state"),
				Sessions: filepath.Join(base, "sessions"), Temporary: []string{filepath.Join(base, "tmp")},
			})
			if err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) {
				s, monitor := newTestMonitorClient(t)
				s.isConfined, s.sandboxPlan = true, plan
				orders := make(chan monitorCommand, 1)
				go func() { // the order is larger than the pipe
					var o monitorCommand
					_ = json.NewDecoder(monitor).Decode(&o)
					orders <- o
				}()
				told := false
				late := func() { // what the plan knows as written is a place in a directory around it
					around, err := plan.NewGrant(filepath.Dir(more), false, "")
					told = err == nil && slices.ContainsFunc(around.Mounts, func(p confine.Mount) bool { return string(p.Path) == more })
				}
				if err := s.grantAccess(more, false, "", late); !errors.Is(err, ErrGrantPending) {
					t.Fatalf("got %v", err)
				}
				r.ID = (<-orders).ID
				s.handleEvent(r)
				synctest.Wait()
				if want := r.Step == ""; told != want {
					t.Errorf("told %v, want %v", told, want)
				}
			})
		})
	}
}
