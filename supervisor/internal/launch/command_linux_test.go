package launch

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/supervisor/internal/monitorproto"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/mountlist"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/plan"
)

// Linux gives small pipes to a user who has many (pipe-user-pages-soft).
func TestSendCommand(t *testing.T) {
	t.Parallel()
	large := monitorproto.MonitorCommand{Kind: monitorproto.CommandGrant, Grant: &plan.MountGrant{}}
	for i := range 400 {
		large.Grant.GitTargets = append(large.Grant.GitTargets, mountlist.Path(fmt.Sprintf("/srv/a/longer/path/number/%d", i)))
	}
	for _, c := range []struct {
		name     string
		commands []monitorproto.MonitorCommand
	}{
		{"passes whole through a smaller pipe", []monitorproto.MonitorCommand{large}},
		{"does not mix with others", []monitorproto.MonitorCommand{large, large, {Kind: monitorproto.CommandForgetDenials}, large}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, monitor := newTestMonitorClient(t)
			sent := make(chan error, len(c.commands))
			for _, o := range c.commands {
				go func() {
					err := s.sendCommand(o)
					for err != nil && o.Kind == monitorproto.CommandForgetDenials && !errors.Is(err, errPartialCommand) { // a small command does not wait for room
						err = s.sendCommand(o)
					}
					if err != nil {
						s.down.out.Close() // ends the loop that reads it
					}
					sent <- err
				}()
			}
			lines := bufio.NewScanner(monitor)
			for range c.commands {
				var got monitorproto.MonitorCommand
				if !lines.Scan() || json.Unmarshal(lines.Bytes(), &got) != nil {
					t.Fatalf("got %.100q, %v, want a command", lines.Text(), lines.Err())
				}
				if got.Kind == monitorproto.CommandGrant && len(got.Grant.GitTargets) != len(large.Grant.GitTargets) {
					t.Errorf("got %d paths, want %d", len(got.Grant.GitTargets), len(large.Grant.GitTargets))
				}
			}
			for range c.commands {
				if err := <-sent; err != nil {
					t.Error(err)
				}
			}
		})
	}
	t.Run("fails if nothing reads it, and rejects later commands", func(t *testing.T) {
		t.Parallel()
		s, monitor := newTestMonitorClient(t)
		for _, o := range []monitorproto.MonitorCommand{large, {Kind: monitorproto.CommandForgetDenials}, large} {
			if err := s.sendCommand(o); !errors.Is(err, errPartialCommand) {
				t.Errorf("%s: got %v", o.Kind, err)
			}
		}
		if err := s.down.out.Close(); err != nil {
			t.Fatal(err)
		}
		want, _ := json.Marshal(large)
		if got, err := io.ReadAll(monitor); err != nil || !bytes.HasPrefix(want, got) || len(got) == 0 {
			t.Errorf("the monitor received %.100q… of %d bytes, %v", got, len(got), err)
		}
	})
	t.Run("fails if the pipe is full, and works once it is read", func(t *testing.T) {
		t.Parallel()
		s, monitor := newTestMonitorClient(t)
		full := 0
		for s.sendCommand(monitorproto.MonitorCommand{Kind: monitorproto.CommandForgetDenials}) == nil {
			full++
		}
		lines := bufio.NewScanner(monitor)
		for range full {
			lines.Scan()
		}
		if err := s.sendCommand(monitorproto.MonitorCommand{Kind: monitorproto.CommandKill}); err != nil {
			t.Fatal(err)
		}
		var got monitorproto.MonitorCommand
		if !lines.Scan() || json.Unmarshal(lines.Bytes(), &got) != nil || got.Kind != monitorproto.CommandKill {
			t.Errorf("got %q, %v", lines.Text(), lines.Err())
		}
	})
}

// newTestMonitorClient returns the supervisor's side of a monitor with a small pipe, and the monitor's end of that.
func newTestMonitorClient(t *testing.T) (*monitorClient, *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	raw, err := w.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	_ = raw.Control(func(fd uintptr) { _, err = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, 4096) })
	if err != nil {
		t.Fatal(err)
	}
	return &monitorClient{down: &Channel{out: w, raw: raw}}, r
}
