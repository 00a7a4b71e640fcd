//go:build unix

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A bare is a far side that has nothing of ours but a home: no program on PATH.
type bare struct {
	home   string
	socket string
	via    string
}

func newBare(t *testing.T) bare {
	t.Helper()
	b := bare{home: t.TempDir(), socket: socketName(t)}
	b.via = "env -i HOME=" + b.home + " TMPDIR=" + b.home + " PATH=/usr/bin:/bin REPL_SOCKET=" + b.socket
	return b
}

// stop ends the daemon there, by a home that knows the way.
func (b bare) stop(t *testing.T, h home, flags ...string) {
	t.Helper()
	want(t, h.run(t, "", append([]string{"ctl", "stop"}, flags...)...), result{"", "", 0})
}

// programs are those that were brought there.
func (b bare) programs(t *testing.T) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(b.home, ".cache/turnstone/bin/*"))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestPlaceInstall_BringsTheProgramWhichIsUsedFromThenOn(t *testing.T) {
	t.Parallel()
	far, h := newBare(t), daemonHome(t)
	run := func(words ...string) result { return h.run(t, "", append(words, "--via", far.via)...) }
	if r := run("exec", "main", "-e", "1"); r.status != 3 || !strings.Contains(r.stderr, "there is no repl there; repl place install --via 'env -i ") {
		t.Errorf("before: %v", r)
	}
	if r := run("place", "check"); r.status != 1 || !strings.Contains(r.stdout, "to do: repl place install --via ") {
		t.Errorf("a check: %v", r)
	}
	if there := far.programs(t); len(there) != 0 {
		t.Fatalf("nobody allowed it: %q", there)
	}
	r := run("place", "install")
	there := far.programs(t)
	if r.status != 0 || len(there) != 1 || !strings.HasPrefix(r.stdout, there[0]+": repl ") || !strings.Contains(r.stderr, " MB go to "+far.home+"/.cache/turnstone/bin there\n") {
		t.Fatalf("got %v, and there is %q", r, there)
	}
	want(t, run("exec", "main", "-e", "6 * 7"), result{"42\n", newSession("main"), 0})
	if r := run("place", "install"); r.status != 0 || !strings.Contains(r.stderr, "it was there") || strings.Contains(r.stderr, "the daemon there is") {
		t.Errorf("the second time: %v", r)
	}
	far.stop(t, h, "--via", far.via)
	if err := os.Remove(there[0]); err != nil { // as whoever tidies up caches
		t.Fatal(err)
	}
	if r := run("exec", "main", "-e", "6 * 7"); r.status != 0 || r.stdout != "42\n" || !strings.Contains(r.stderr, "gets repl:") {
		t.Errorf("after it was removed there: %v", r)
	}
	far.stop(t, h, "--via", far.via)
	want(t, run("place", "forget"), result{"", "", 0})
	if r := run("list"); r.status != 3 || !strings.Contains(r.stderr, "repl place install") {
		t.Errorf("after it was forgotten: %v", r)
	}
}

func TestPlaceInstall_AnAgentBringsItOnlyWhereThePlaceSaysSo(t *testing.T) {
	t.Parallel()
	far, h := newBare(t), daemonHome(t)
	says := "[places.gpu]\nvia = \"" + far.via + "\"\n"
	flags := []string{"--place", "gpu", "--sandbox", "full", "--name", "bot"}
	end := func(a *agent) {
		_ = a.in.Close()
		if err := a.cmd.Wait(); err != nil {
			t.Errorf("it ended with %v", err)
		}
	}
	h.places(t, says)
	a := newAgent(t, h, flags...)
	if got := a.repl("6 * 7"); !strings.Contains(got, "repl place install gpu brings it there") || len(far.programs(t)) != 0 {
		t.Errorf("not allowed: %q", got)
	}
	end(a)
	h.places(t, says+"install = true\n")
	a = newAgent(t, h, flags...)
	got := a.repl("6 * 7")
	for strings.Contains(got, "gpu cannot be reached yet") { // a call waits 10 s, which a busy machine may need to bring it
		got = a.repl("6 * 7")
	}
	if !strings.Contains(got, "42") || strings.Contains(got, "MB go to") || len(far.programs(t)) != 1 {
		t.Errorf("allowed: %q", got)
	}
	end(a)
	far.stop(t, h, "--place", "gpu")
}

func TestPlaceInstall_APersonWhoWatchesSeesWhatIsDone(t *testing.T) {
	t.Parallel()
	far, h := newBare(t), daemonHome(t)
	p := h.start(t, "exec", "main", "--via", far.via, "-e", "6 * 7")
	p.sees(" gets repl: ")
	p.sees(" MB go to " + far.home + "/.cache/turnstone/bin there\r\n")
	p.sees("42\r\n")
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	far.stop(t, h, "--via", far.via)
}

func TestPlaceInstall_AProgramThatThePlaceNamesIsNotReplaced(t *testing.T) {
	t.Parallel()
	far, h := newBare(t), daemonHome(t)
	h.places(t, "[places.gpu]\nvia = \""+far.via+"\"\nrepl = \"/opt/nothing/repl\"\ninstall = true\n")
	if r := h.run(t, "", "list", "--place", "gpu"); r.status != 3 || !strings.Contains(r.stderr, `correct repl = "/opt/nothing/repl" of the place`) {
		t.Errorf("got %v", r)
	}
	if r := h.run(t, "", "place", "install", "gpu"); r.status != 2 || !strings.Contains(r.stderr, "remove that line first") {
		t.Errorf("got %v", r)
	}
	if there := far.programs(t); len(there) != 0 {
		t.Errorf("there is %q", there)
	}
}
