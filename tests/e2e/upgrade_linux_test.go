package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/daemonlock"
	"github.com/turnstone-repl/turnstone/internal/environ"
	"github.com/turnstone-repl/turnstone/internal/peer"
	"github.com/turnstone-repl/turnstone/internal/testkit/replbin"
	"github.com/turnstone-repl/turnstone/internal/testkit/sandboxcheck"
	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
)

// A toolInstall is a copy of the program where uv tool would put it, with a uv that only records how it
// was called. Real package managers are tested in the module release.
type toolInstall struct {
	home
	repl, record string
}

// newToolInstall returns an installation whose uv exits with a status.
func newToolInstall(t *testing.T, status int) toolInstall {
	t.Helper()
	h := newDaemonHome(t)
	bin := filepath.Join(h.dir, "tools", "turnstone-repl", "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(replbin.Path())
	if err != nil {
		t.Fatal(err)
	}
	i := toolInstall{h, filepath.Join(bin, "repl"), filepath.Join(h.dir, "called")}
	for path, text := range map[string]string{
		i.repl: string(program),
		filepath.Join(filepath.Dir(bin), "uv-receipt.toml"): "",
		filepath.Join(h.dir, "uv"):                          fmt.Sprintf("#!/bin/sh\necho \"$PWD: $*\" >>%s\nexit %d\n", i.record, status),
	} {
		if err := testexec.WriteExecutable(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	i.env = append(i.env, "PATH="+h.dir+":"+environ.Get(h.env, "PATH"), "HOME="+h.tmp)
	return i
}

// called returns the calls of uv.
func (i toolInstall) called(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(i.record)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(text)
}

// upgrade runs repl upgrade without a terminal.
func (i toolInstall) upgrade(t *testing.T, args ...string) result {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), i.repl, append([]string{"upgrade"}, args...)...)
	cmd.Dir, cmd.Env = i.dir, i.env
	cmd.Stdin = strings.NewReader("y\n")
	var out, err bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &err
	_ = cmd.Run()
	return result{out.String(), err.String(), cmd.ProcessState.ExitCode()}
}

func TestUpgrade(t *testing.T) {
	t.Parallel()
	const shown = "is from uv tool. To get the newest:\n\n    uv tool upgrade turnstone-repl\n"

	t.Run("runs nothing without a terminal and without --yes", func(t *testing.T) {
		t.Parallel()
		i := newToolInstall(t, 0)
		got := i.upgrade(t)
		if got.status != 1 || !strings.Contains(got.stdout, shown) || !strings.Contains(got.stderr, "nothing was run; --yes runs it") || i.called(t) != "" {
			t.Errorf("got %v; uv: %q", got, i.called(t))
		}
	})

	t.Run("runs the command with --yes, outside the working directory", func(t *testing.T) {
		t.Parallel()
		i := newToolInstall(t, 0)
		got := i.upgrade(t, "--yes")
		if got.status != 0 || !strings.Contains(got.stdout, shown) || !strings.Contains(got.stdout, "The version is still ") || i.called(t) != i.tmp+": tool upgrade turnstone-repl\n" {
			t.Errorf("got %v; uv: %q", got, i.called(t))
		}
	})

	t.Run("reports that the command failed", func(t *testing.T) {
		t.Parallel()
		if got := newToolInstall(t, 7).upgrade(t, "--yes"); got.status != 1 || !strings.Contains(got.stderr, "uv tool upgrade turnstone-repl failed: exit status 7") {
			t.Errorf("got %v", got)
		}
	})

	t.Run("takes a file only for packages that are files", func(t *testing.T) {
		t.Parallel()
		i := newToolInstall(t, 0)
		if got := i.upgrade(t, "--yes", "x.deb"); got.status != 2 || !strings.Contains(got.stderr, "upgrade takes no file: this program is from uv tool") || i.called(t) != "" {
			t.Errorf("got %v; uv: %q", got, i.called(t))
		}
	})

	t.Run("asks at a terminal, and runs the command only after a yes", func(t *testing.T) {
		t.Parallel()
		for answer, status := range map[string]int{"y": 0, "yes": 0, "n": 1, "": 1, "maybe": 1} {
			i := newToolInstall(t, 0)
			p := i.startProgram(t, exec.CommandContext(t.Context(), i.repl, "upgrade"))
			p.waitText("Run it? [y/N] ")
			if got := i.called(t); got != "" {
				t.Errorf("before the answer: %q", got)
			}
			p.typeKeys(answer + "\r")
			p.waitExit(status)
			if got := i.called(t); (got != "") != (status == 0) {
				t.Errorf("after %q: %q", answer, got)
			}
		}
	})
}

// serveOtherProtocol serves at the home's socket as a daemon of another protocol does. It has this
// user's key and answers control lines.
func (h home) serveOtherProtocol(t *testing.T, version string, number int) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(h.socket()), 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", h.socket())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	keys := daemonlock.UserKeys(func(name string) string { return environ.Get(h.env, name) }, os.Geteuid())
	about := fmt.Sprintf(`{"version":%q,"protocol":%d,"pid":7,"sessions":2}`, version, number)
	serve := func(conn net.Conn) {
		defer conn.Close()
		if peer.AnswerQuestion(conn, peer.CanonicalAddress(h.socket()), keys) != nil {
			return
		}
		for in := bufio.NewScanner(conn); in.Scan(); {
			var m struct {
				ID   json.RawMessage
				Type string
			}
			if json.Unmarshal(in.Bytes(), &m) != nil {
				return
			}
			answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, about)
			if m.Type != "" {
				answer = `{"ok":true,"data":` + about + `}`
			}
			if _, err := fmt.Fprintln(conn, answer); err != nil {
				return
			}
		}
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go serve(conn)
		}
	}()
}

func TestOtherProtocol(t *testing.T) {
	t.Parallel()
	for number, want := range map[int]string{
		0: " is older than this program: version v0.0.9 speaks protocol 0, and this program",
		2: " is newer than this program: version v0.0.9 speaks protocol 2, and this program",
	} {
		t.Run(fmt.Sprint("commands say which side is older: protocol ", number), func(t *testing.T) {
			t.Parallel()
			h := newDaemonHome(t)
			h.serveOtherProtocol(t, "v0.0.9", number)
			for _, words := range [][]string{{"list"}, {"exec", "main", "-e", "1"}, {"attach", "--watch", "main"}, {"events", "main"}} {
				if r := h.runRepl(t, "", words...); r.status != 3 || !strings.Contains(r.stderr, want) || !strings.Contains(r.stderr, "with repl daemon drain") {
					t.Errorf("%q: %v; want %q", words, r, want)
				}
			}
			if r := h.runRepl(t, "", "list", "--socket", h.socket()); !strings.Contains(r.stderr, "with repl daemon drain --socket "+h.socket()) {
				t.Errorf("with --socket: %v", r)
			}
			if r := h.runRepl(t, "", "daemon", "status"); r.status != 0 || !strings.Contains(r.stdout, "The daemon runs repl v0.0.9, and this command is repl ") {
				t.Errorf("daemon status: %v", r)
			}
			if r := h.runRepl(t, "", "doctor", "--lang", "python"); !strings.Contains(r.stdout, fmt.Sprintf("is repl v0.0.9 and speaks protocol %d, and this command is repl ", number)) || r.status != 1 {
				t.Errorf("doctor: %v", r)
			}
		})
	}
}

func TestDoctorNamespaces(t *testing.T) {
	t.Parallel()

	// On Ubuntu with its AppArmor rule, a user namespace can be created and gives no rights.
	t.Run("does not call namespaces usable in which nothing can be mounted", func(t *testing.T) {
		t.Parallel()
		sandboxcheck.RequireNamespaces(t)
		h := newHomeWithoutClients(t)
		cmd := exec.CommandContext(t.Context(), "unshare", "--user", "--map-root-user", "sh", "-c", `echo 0 >/proc/sys/user/max_mnt_namespaces && exec "$0" doctor --json --lang python`, replbin.Path())
		cmd.Dir, cmd.Env = h.dir, h.env
		out, err := cmd.Output()
		var r doctorReport
		if e := json.Unmarshal(out, &r); e != nil {
			t.Fatalf("%v, %v: %s", err, e, out)
		}
		i := slices.IndexFunc(r.System, func(f systemFeature) bool { return f.Name == "user namespaces" })
		if i < 0 || r.System[i].Available || !strings.HasPrefix(r.System[i].Detail, "created without rights: a mount in one is refused (") {
			t.Errorf("got %+v", r.System)
		}
	})
}
