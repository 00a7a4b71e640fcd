//go:build unix

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A bareRemote is a remote with an empty home: the program is not on PATH.
type bareRemote struct {
	home   string
	socket string
	via    string
}

func newBareRemote(t *testing.T) bareRemote {
	t.Helper()
	b := bareRemote{home: t.TempDir(), socket: newSocketName(t)}
	b.via = "env -i HOME=" + b.home + " TMPDIR=" + b.home + " PATH=/usr/bin:/bin TURNSTONE_SOCKET=" + b.socket
	return b
}

// stopDaemon stops the daemon there. The remote is known to the home h.
func (b bareRemote) stopDaemon(t *testing.T, h home, flags ...string) {
	t.Helper()
	wantResult(t, h.runRepl(t, "", append([]string{"daemon", "stop"}, flags...)...), result{"", "", 0})
}

// installedPrograms returns the programs that were installed there.
func (b bareRemote) installedPrograms(t *testing.T) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(b.home, ".cache/turnstone/bin/*"))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestRemoteInstall(t *testing.T) {
	t.Parallel()

	t.Run("installs the program and uses it from then on", func(t *testing.T) {
		t.Parallel()
		far, h := newBareRemote(t), newDaemonHome(t)
		run := func(words ...string) result { return h.runRepl(t, "", append(words, "--via", far.via)...) }
		if r := run("exec", "main", "-e", "1"); r.status != 3 || !strings.Contains(r.stderr, "repl was not found there; repl remote install --via 'env -i ") {
			t.Errorf("before: %v", r)
		}
		if r := run("remote", "check"); r.status != 1 || !strings.Contains(r.stdout, "hint: repl remote install --via ") {
			t.Errorf("a check: %v", r)
		}
		if there := far.installedPrograms(t); len(there) != 0 {
			t.Fatalf("without permission: %q", there)
		}
		r := run("remote", "install")
		there := far.installedPrograms(t)
		if r.status != 0 || len(there) != 1 || !strings.HasPrefix(r.stdout, there[0]+": repl ") || !strings.Contains(r.stderr, " MB to "+far.home+"/.cache/turnstone/bin\n") {
			t.Fatalf("got %v, and the installed programs %q", r, there)
		}
		wantResult(t, run("exec", "main", "-e", "6 * 7"), result{"42\n", newSessionNotice("main"), 0})
		if r := run("remote", "install"); r.status != 0 || !strings.Contains(r.stderr, "already installed") || strings.Contains(r.stderr, "the daemon there is") {
			t.Errorf("the second time: %v", r)
		}
		far.stopDaemon(t, h, "--via", far.via)
		if err := os.Remove(there[0]); err != nil { // as a user does who clears caches
			t.Fatal(err)
		}
		if r := run("exec", "main", "-e", "6 * 7"); r.status != 0 || r.stdout != "42\n" || !strings.Contains(r.stderr, "installing repl at ") {
			t.Errorf("after it was removed there: %v", r)
		}
		far.stopDaemon(t, h, "--via", far.via)
		wantResult(t, run("remote", "forget"), result{"", "", 0})
		if r := run("list"); r.status != 3 || !strings.Contains(r.stderr, "repl remote install") {
			t.Errorf("after it was forgotten: %v", r)
		}
	})

	t.Run("an agent installs only where the remote allows it", func(t *testing.T) {
		t.Parallel()
		far, h := newBareRemote(t), newDaemonHome(t)
		says := "[remotes.gpu]\nvia = \"" + far.via + "\"\n"
		flags := []string{"--remote", "gpu", "--sandbox", "full", "--name", "bot"}
		end := func(a *agent) {
			_ = a.in.Close()
			if err := a.cmd.Wait(); err != nil {
				t.Errorf("it ended with %v", err)
			}
		}
		h.writeRemotesFile(t, says)
		a := newAgent(t, h, flags...)
		if got := a.callRepl("6 * 7"); !strings.Contains(got, "repl remote install gpu installs it") || len(far.installedPrograms(t)) != 0 {
			t.Errorf("not allowed: %q", got)
		}
		end(a)
		h.writeRemotesFile(t, says+"install = true\n")
		a = newAgent(t, h, flags...)
		got := a.callRepl("6 * 7")
		for strings.Contains(got, "gpu cannot be reached yet") { // a call waits 10 s, and a busy machine may take longer to install
			got = a.callRepl("6 * 7")
		}
		if !strings.Contains(got, "42") || strings.Contains(got, "MB go to") || len(far.installedPrograms(t)) != 1 {
			t.Errorf("allowed: %q", got)
		}
		end(a)
		far.stopDaemon(t, h, "--remote", "gpu")
	})

	t.Run("a user at a terminal sees the installation", func(t *testing.T) {
		t.Parallel()
		far, h := newBareRemote(t), newDaemonHome(t)
		p := h.startTerminal(t, "exec", "main", "--via", far.via, "-e", "6 * 7")
		p.waitText("installing repl at ")
		p.waitText(" MB to " + far.home + "/.cache/turnstone/bin\r\n")
		p.waitText("42\r\n")
		if err := p.cmd.Wait(); err != nil {
			t.Errorf("it ended with %v", err)
		}
		far.stopDaemon(t, h, "--via", far.via)
	})

	t.Run("a program that the remote names is not replaced", func(t *testing.T) {
		t.Parallel()
		far, h := newBareRemote(t), newDaemonHome(t)
		h.writeRemotesFile(t, "[remotes.gpu]\nvia = \""+far.via+"\"\nrepl = \"/opt/nothing/repl\"\ninstall = true\n")
		if r := h.runRepl(t, "", "list", "--remote", "gpu"); r.status != 3 || !strings.Contains(r.stderr, `correct repl = "/opt/nothing/repl" of the remote`) {
			t.Errorf("got %v", r)
		}
		if r := h.runRepl(t, "", "remote", "install", "gpu"); r.status != 2 || !strings.Contains(r.stderr, "remove that line first") {
			t.Errorf("got %v", r)
		}
		if there := far.installedPrograms(t); len(there) != 0 {
			t.Errorf("got the installed programs %q", there)
		}
	})
}
