package launch

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/supervisor/internal/monitorproto"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/mountlist"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/plan"
)

// A program may be refused a call before its monitor has reported that it runs.
func TestStartEarlyDenial(t *testing.T) {
	t.Parallel()
	down, commandsOut, eventsIn, err := openChannel()
	if err != nil {
		t.Fatal(err)
	}
	defer down.Close()
	defer commandsOut.Close()
	up, err := down.in.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	to := json.NewEncoder(eventsIn)
	for _, r := range []monitorproto.MonitorEvent{
		{Kind: monitorproto.EventDenied, Denial: monitorproto.NewDenialEvent(monitorproto.Denial{Op: "open", Path: "/first"})},
		{Kind: monitorproto.EventDenied, Denial: monitorproto.NewDenialEvent(monitorproto.Denial{ID: 7, Op: "open", Path: "/suspended"})},
		{Kind: monitorproto.EventStarted, PID: 42},
		{Kind: monitorproto.EventDenied, Denial: monitorproto.NewDenialEvent(monitorproto.Denial{Op: "open", Path: "/later"})},
		{Kind: monitorproto.EventTreeEmpty},
	} {
		if err := to.Encode(r); err != nil {
			t.Fatal(err)
		}
	}
	eventsIn.Close()

	var denied []string
	s := &monitorClient{down: down, events: eventReader{raw: up}, onDenial: func(d monitorproto.Denial) { denied = append(denied, d.Path) }}
	pid, err := s.startWorker(&workerLaunch{command: &StartConfig{Path: "/bin/true", Timeout: time.Minute}})
	if err != nil || pid != 42 || len(denied) != 0 {
		t.Fatalf("got pid %d, error %v, denials %q, want a start and no denial before it is known", pid, err, denied)
	}
	s.startHandling(func(monitorproto.Exit) {}, func(string) {})
	_ = s.events.handleUntil(s.handleEvent)
	if want := []string{"/first", "/suspended", "/later"}; !slices.Equal(denied, want) {
		t.Errorf("got denials %q, want %q", denied, want)
	}
}

// A slow file system may delay the monitor. The session can write a directory that is granted late, so
// the plan must know about it.
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
	for name, r := range map[string]monitorproto.MonitorEvent{
		"granted": {Kind: monitorproto.EventGranted},
		"refused": {Kind: monitorproto.EventGranted, Step: "mount", Errno: int(syscall.EIO)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sandboxPlan, _, err := plan.NewPlan(&sandbox.Policy{Level: sandbox.Workspace, Network: sandbox.NetworkNone}, plan.Origin{
				Home: filepath.Join(base, "home"), Dir: filepath.Join(base, "work"), Program: "/bin/true", State: filepath.Join(base, "state"),
				Sessions: filepath.Join(base, "sessions"), Temporary: []string{filepath.Join(base, "tmp")},
			})
			if err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) {
				s, monitor := newTestMonitorClient(t)
				s.isConfined, s.sandboxPlan = true, sandboxPlan
				commands := make(chan monitorproto.MonitorCommand, 1)
				go func() { // the command is larger than the pipe
					var o monitorproto.MonitorCommand
					_ = json.NewDecoder(monitor).Decode(&o)
					commands <- o
				}()
				known := false
				late := func() { // a path that the plan knows as writable is a mount in a grant of its parent
					parent, err := sandboxPlan.NewGrant(filepath.Dir(more), false, "")
					known = err == nil && slices.ContainsFunc(parent.Mounts, func(p mountlist.Mount) bool { return string(p.Path) == more })
				}
				if err := s.grantAccess(more, false, "", late); !errors.Is(err, ErrGrantPending) {
					t.Fatalf("got %v", err)
				}
				r.ID = (<-commands).ID
				s.handleEvent(r)
				synctest.Wait()
				if want := r.Step == ""; known != want {
					t.Errorf("got %v, want %v", known, want)
				}
			})
		})
	}
}
