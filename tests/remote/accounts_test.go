//go:build linux

package remote

import (
	"strings"
	"testing"
)

func TestAccounts(t *testing.T) {
	t.Parallel()

	t.Run("reaches accounts with noisy or unusual shells", func(t *testing.T) {
		t.Parallel()
		e := startEngine(t, "ssh")
		for _, a := range []string{"noisy", "greedy", "fish", "csh", "dash"} {
			t.Run(a, func(t *testing.T) {
				t.Parallel()
				w := e.withAccount(a).newRemote(t)
				w.closeAfter(t)
				out, errs, status := w.runRepl(t, "exec", w.sessionName(), "-e", "print('a' * 3, 6 * 7)")
				if status != 0 || out != "aaa 42\n" {
					t.Errorf("status %d, output %q, errors %q", status, out, errs)
				}
				// Late output of a login script may fall into an active connection.
				out, errs, status = w.runRepl(t, "exec", w.sessionName(), "-e", "import time\nfor i in range(20): print(i); time.sleep(0.05)")
				if status != 0 || strings.Count(out, "\n") != 20 {
					t.Errorf("status %d, output %q, errors %q", status, out, errs)
				}
			})
		}
	})

	t.Run("quotes an account that exits at once", func(t *testing.T) {
		t.Parallel()
		w := startEngine(t, "ssh").withAccount("broken").newRemote(t)
		out, errs, status := w.runRepl(t, "list")
		if status == 0 || out != "" || !strings.Contains(errs, "the disk of this account is gone") || !strings.Contains(errs, "7") {
			t.Errorf("status %d, output %q, errors %q", status, out, errs)
		}
	})

	t.Run("quotes ssh when the host is unknown", func(t *testing.T) {
		t.Parallel()
		e := startEngine(t, "ssh").withAccount("plain")
		e.prefix = append(e.prefix[:len(e.prefix)-1:len(e.prefix)-1], "-o", "UserKnownHostsFile=/dev/null", "plain")
		w := e.newRemote(t)
		cmd := w.replCommand(t, "list")
		cmd.SysProcAttr = ownSession() // no terminal, so ssh cannot ask the user who runs the tests
		out, errs, status := runToEnd(t, cmd)
		if status == 0 || out != "" || !strings.Contains(errs, "Host key verification failed") { // ssh did not ask
			t.Errorf("status %d, output %q, errors %q", status, out, errs)
		}
	})
}
