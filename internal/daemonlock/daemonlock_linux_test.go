package daemonlock_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/daemonlock"
	"github.com/turnstone-repl/turnstone/internal/peer"
	"github.com/turnstone-repl/turnstone/internal/testkit/owners"
	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
)

// environment holds the environment variables of a login.
type environment map[string]string

func (e environment) get(name string) string { return e[name] }

func TestSocketPaths_ForeignLogin(t *testing.T) {
	dir := t.TempDir()
	v := environment{"XDG_RUNTIME_DIR": dir, "TMPDIR": t.TempDir(), "XDG_STATE_HOME": t.TempDir()}
	own := filepath.Join(dir, "turnstone", "daemon.sock")
	if got := daemonlock.SocketPaths(v.get); got[0] != own {
		t.Fatalf("with its own login directory: got %q", got)
	}
	if slices.Contains(daemonlock.PersistentSocketPaths(v.get), own) {
		t.Errorf("the persistent sockets include that of the login: %q", daemonlock.PersistentSocketPaths(v.get))
	}
	owners.GiveAway(t, dir)
	if slices.Contains(daemonlock.SocketPaths(v.get), own) {
		t.Errorf("with a login directory of another user: got %q", daemonlock.SocketPaths(v.get))
	}
}

func TestSocketPaths_TooLong(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("d", 120))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	v := environment{"XDG_RUNTIME_DIR": dir, "TMPDIR": dir, "XDG_STATE_HOME": dir}
	got := daemonlock.SocketPaths(v.get)
	if len(got) != 1 || !strings.HasPrefix(got[0], "/tmp/turnstone-") {
		t.Errorf("got %q, want one in /tmp", got)
	}
	if daemonlock.CheckPath(got[0]) != nil || daemonlock.CheckPath(dir) == nil {
		t.Errorf("%q is refused, or %q is not", got[0], dir)
	}
}

func TestCheckOwner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "daemon.sock")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	owner := os.Geteuid()
	other := owner + 1
	for user, refused := range map[int]bool{owner: false, 0: false, other: owner != 0} {
		if err := daemonlock.CheckOwner(path, user); (err != nil) != refused {
			t.Errorf("user %d, socket of %d: got %v", user, owner, err)
		}
	}
	owners.GiveAway(t, path)
	if err := daemonlock.CheckOwner(path, other); err == nil || !strings.Contains(err.Error(), "another user's") {
		t.Errorf("got %v", err)
	}
}

func TestAcquireLock(t *testing.T) {
	v, other := environment{"XDG_STATE_HOME": t.TempDir()}, environment{"XDG_STATE_HOME": t.TempDir()}
	for range 50 {
		first, err := daemonlock.AcquireLock(v.get)
		if err != nil {
			t.Fatal(err)
		}
		_, err = daemonlock.AcquireLock(v.get)
		if held, ok := errors.AsType[*daemonlock.LockedError](err); !ok || !held.Proven || held.PID != os.Getpid() || !errors.Is(err, daemonlock.ErrLocked) {
			t.Fatalf("a second one: %v", err)
		}
		apart, err := daemonlock.AcquireLock(other.get)
		if err != nil {
			t.Fatalf("with another state directory: %v", err)
		}
		apart.Release()
		first.Release()
	}
}

func TestReadEntry_Untrusted(t *testing.T) {
	v := environment{"XDG_STATE_HOME": t.TempDir(), "TMPDIR": t.TempDir()}
	path, err := daemonlock.WriteEntry(v.get, "/there/s")
	if err != nil {
		t.Fatal(err)
	}
	if e, ok := daemonlock.ReadEntry(v.get); !ok || e.Socket != "/there/s" || e.PID != os.Getpid() {
		t.Fatalf("got %v, %v", e, ok)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"empty":             "",
		"half of it":        string(good[:len(good)/2]),
		"a relative socket": strings.Replace(string(good), "/there/s", "there/s", 1),
		"another beginning": strings.Replace(string(good), `"start_ticks":`, `"start_ticks":1`, 1),
		"no JSON":           "\x00\xff",
		"far too long":      `{"pid":` + strings.Repeat(" ", 1<<20) + string(good[7:]),
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if e, ok := daemonlock.ReadEntry(v.get); ok {
			t.Errorf("%s: the entry %v is trusted", name, e)
		}
	}
	if again, err := daemonlock.WriteEntry(v.get, "/there/s"); err != nil || again != path {
		t.Errorf("written again: %q, %v", again, err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if e, ok := daemonlock.ReadEntry(v.get); ok {
		t.Errorf("writable by all users: the entry %v is trusted", e)
	}
}

func TestFindSocket_Unserved(t *testing.T) {
	login := testexec.ShortDir(t)
	v := environment{"XDG_RUNTIME_DIR": login, "TMPDIR": login, "XDG_STATE_HOME": t.TempDir()}
	named, other := daemonlock.SocketPaths(v.get)[0], daemonlock.PersistentSocketPaths(v.get)[0]
	for _, path := range []string{named, other} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: other, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	left.SetUnlinkOnClose(false)
	proves := make(chan bool) // whether the next answer comes from a daemon
	go func() {
		for daemon := range proves {
			conn, err := left.Accept()
			if err != nil {
				t.Error(err)
				return
			}
			keys := daemonlock.UserKeys(v.get, os.Geteuid())
			if !daemon {
				keys.Dirs = []string{login}
			}
			_ = peer.AnswerQuestion(conn, peer.CanonicalAddress(other), keys)
			_ = conn.Close()
		}
	}()
	for daemon, want := range map[bool]string{true: other, false: named} {
		proves <- daemon
		if got := daemonlock.FindSocket(v.get); got != want {
			t.Errorf("the program at the socket is a daemon: %v: got %s, want %s", daemon, got, want)
		}
	}
	close(proves)
	_ = left.Close()
	if got := daemonlock.FindSocket(v.get); got != named {
		t.Errorf("no program listens: got %s, want %s", got, named)
	}
}

// A session may write to the temporary directory, which can be in its workspace.
func TestReadEntry_NeedsProof(t *testing.T) {
	tmp := testexec.ShortDir(t)
	v := environment{"XDG_RUNTIME_DIR": tmp, "TMPDIR": tmp, "XDG_STATE_HOME": t.TempDir()}
	usual, dir, socket := daemonlock.SocketPaths(v.get)[0], filepath.Dir(daemonlock.PersistentSocketPaths(v.get)[0]), filepath.Join(tmp, "s")
	path, err := daemonlock.WriteEntry(v.get, socket) // of this process, which is running
	if err == nil {
		err = errors.Join(os.Mkdir(dir, 0o700), os.Rename(path, filepath.Join(dir, filepath.Base(path))))
	}
	if err != nil {
		t.Fatal(err)
	}
	if e, ok := daemonlock.ReadEntry(v.get); ok {
		t.Errorf("without a daemon: the entry %v is trusted", e)
	}
	if got := daemonlock.FindSocket(v.get); got != usual {
		t.Errorf("without a daemon: got %s, want %s", got, usual)
	}
	if daemonlock.RequestRenewal(v.get) {
		t.Error("a daemon was asked to create its socket again")
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_ = peer.AnswerQuestion(conn, peer.CanonicalAddress(socket), daemonlock.UserKeys(v.get, os.Geteuid()))
			_ = conn.Close()
		}
	}()
	if e, ok := daemonlock.ReadEntry(v.get); !ok || e.Socket != socket {
		t.Errorf("with a daemon: got %v, %v", e, ok)
	}
	if got := daemonlock.FindSocket(v.get); got != socket {
		t.Errorf("with a daemon: got %s, want %s", got, socket)
	}
}
