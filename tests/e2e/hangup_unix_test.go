//go:build unix

package e2e

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/creack/pty"

	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
	"github.com/turnstone-repl/turnstone/session"
)

// The code in a session outlives the terminal and the login that started it. Ending the command
// itself ends the turn.
func TestExec_Signals(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		signal os.Signal // nil: the terminal is closed
		status int
		end    string
	}{
		"the terminal is closed": {nil, 129, "done"},
		"SIGHUP":                 {syscall.SIGHUP, 129, "done"},
		"SIGINT":                 {syscall.SIGINT, 130, "none"},
		"SIGTERM":                {syscall.SIGTERM, 143, "none"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newDaemonHome(t)
			h.startDaemon(t)
			cmd := h.command(t, "exec", "main", "-e", "import os, time; end = 'none'; open('started', 'w').close()",
				"-e", "while not os.path.exists('go'): time.sleep(.01)", "-e", "", "-e", "end = 'done'")
			tty, err := pty.Start(cmd)
			if err != nil {
				t.Fatal(err)
			}
			tty = newNonblockingTTY(t, tty)
			defer tty.Close()
			wait.Until(t, "it runs", func() bool { _, err := os.Stat(filepath.Join(h.dir, "started")); return err == nil })
			if test.signal != nil {
				_ = cmd.Process.Signal(test.signal)
			} else {
				_ = tty.Close()
			}
			_ = cmd.Wait()
			if got := exitStatusOf(t, cmd); got != test.status {
				t.Errorf("got status %d, want %d", got, test.status)
			}
			if err := os.WriteFile(filepath.Join(h.dir, "go"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			wait.Until(t, "the turn has ended", func() bool { return h.listSessions(t)["main"].State == session.StateIdle })
			wantResult(t, h.runRepl(t, "", "exec", "main", "-e", "print(end)"), result{test.end + "\n", "", 0})
		})
	}
}
