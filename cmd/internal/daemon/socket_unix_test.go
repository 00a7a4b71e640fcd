//go:build unix

package daemon_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/turnstone-repl/turnstone/cmd/internal/daemon"
	"github.com/turnstone-repl/turnstone/internal/daemonlock"
	proof "github.com/turnstone-repl/turnstone/internal/peer"
	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
)

func TestListen(t *testing.T) {
	t.Run("only the user can access the socket", func(t *testing.T) {
		path := filepath.Join(testexec.ShortDir(t), "new", "s")
		l, err := daemon.Listen(path)
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
			if i, err := os.Lstat(name); err != nil || i.Mode().Perm() != want {
				t.Errorf("%s: %v, %v; want mode %04o", name, i.Mode(), err, want)
			}
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the socket was left behind: %v", err)
		}
	})

	// A session may be created while the daemon creates its socket again. The mode of the socket must
	// not apply to the files of the session.
	t.Run("does not change the modes of other files", func(t *testing.T) {
		dir := testexec.ShortDir(t)
		done := make(chan error)
		stop := make(chan struct{})
		go func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					done <- nil
					return
				default:
				}
				made := filepath.Join(dir, strconv.Itoa(i))
				err := os.Mkdir(made, 0o700)
				if st, e := os.Lstat(made); e == nil && st.Mode().Perm() != 0o700 {
					err = fmt.Errorf("%s has the mode %04o", made, st.Mode().Perm())
				}
				if err != nil {
					done <- err
					return
				}
			}
		}()
		for range 300 {
			l, err := daemon.Listen(filepath.Join(dir, "s"))
			if err != nil {
				t.Fatal(err)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		}
		close(stop)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})

	t.Run("never takes a live socket", func(t *testing.T) {
		path := filepath.Join(testexec.ShortDir(t), "s")
		newProvingListener(t, path)
		if _, err := daemon.Listen(path); !errors.Is(err, daemon.ErrServed) {
			t.Errorf("a second one: %v", err)
		}
		if err := os.Remove(path + ".lock"); err != nil { // as a cleanup program does
			t.Fatal(err)
		}
		if _, err := daemon.Listen(path); !errors.Is(err, daemon.ErrServed) {
			t.Errorf("a second one, without the lock: %v", err)
		}
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("the live socket is gone: %v", err)
		}
	})

	t.Run("replaces a dead socket and no other file", func(t *testing.T) {
		path := filepath.Join(testexec.ShortDir(t), "s")
		dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		dead.SetUnlinkOnClose(false)
		_ = dead.Close()
		l, err := daemon.Listen(path)
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
		if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := daemon.Listen(path); err == nil || !strings.Contains(err.Error(), "not a socket") {
			t.Errorf("got %v", err)
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != "mine" {
			t.Errorf("the file is gone: %q, %v", b, err)
		}
	})

	t.Run("explains an invalid path", func(t *testing.T) {
		dir := testexec.ShortDir(t)
		open := filepath.Join(dir, "open")
		if err := os.Mkdir(open, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(open, 0o755); err != nil {
			t.Fatal(err)
		}
		for path, want := range map[string]string{
			filepath.Join(dir, strings.Repeat("x", 200)): "the system allows",
			filepath.Join(open, "s"):                     "other users can reach",
		} {
			if _, err := daemon.Listen(path); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %q in it", path, err, want)
			}
		}
	})

	// The files of the socket may be removed by other programs.
	t.Run("renewing restores what was removed", func(t *testing.T) {
		for name, remove := range map[string]func(path string) error{
			"the directory": func(path string) error { return os.RemoveAll(filepath.Dir(path)) },
			"the socket":    os.Remove,
			"the lock":      func(path string) error { return os.Remove(path + ".lock") },
			"nothing":       func(string) error { return nil },
		} {
			t.Run(name, func(t *testing.T) {
				path := filepath.Join(testexec.ShortDir(t), "new", "s")
				l := newProvingListener(t, path) // the listener waits at the old socket
				if err := remove(path); err != nil {
					t.Fatal(err)
				}
				if renewed, err := l.Renew(); err != nil || renewed != (name != "nothing") {
					t.Fatalf("got %v, %v", renewed, err)
				}
				conn, err := net.Dial("unix", path)
				if err != nil {
					t.Fatal(err)
				}
				_ = conn.Close()
				if _, err := daemon.Listen(path); !errors.Is(err, daemon.ErrServed) {
					t.Errorf("a second one: %v", err)
				}
			})
		}
	})

	t.Run("closing leaves the socket of another daemon", func(t *testing.T) {
		path := filepath.Join(testexec.ShortDir(t), "new", "s")
		first, err := daemon.Listen(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(filepath.Dir(path)); err != nil {
			t.Fatal(err)
		}
		second := newProvingListener(t, path)
		if _, err := first.Renew(); !errors.Is(err, daemon.ErrServed) {
			t.Errorf("the socket of the other daemon: %v", err)
		}
		_ = first.Close()
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatalf("the socket of the second daemon is gone: %v", err)
		}
		_ = conn.Close()
		_ = second.Close()
		third, err := daemon.Listen(path)
		if err != nil {
			t.Fatal(err)
		}
		if pid := third.CrashedPID(); pid != 0 {
			t.Errorf("process %d is reported as killed, but both processes ended normally", pid)
		}
		_ = third.Close()
	})
}

// newProvingListener starts a daemon that only proves that it is one.
func newProvingListener(t *testing.T, path string) *daemon.Listener {
	t.Helper()
	l, err := daemon.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	serveProofs(l, path)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// serveProofs answers requests for proofs until the listener ends.
func serveProofs(l net.Listener, path string) {
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_ = proof.AnswerQuestion(conn, proof.CanonicalAddress(path), daemonlock.UserKeys(os.Getenv, os.Geteuid()))
				_ = conn.Close()
			}()
		}
	}()
}

// activationEnv makes the test program run as a daemon that may have inherited a socket.
const activationEnv = "DAEMON_TEST_ACTIVATION"

func TestListen_SystemdSocket(t *testing.T) {
	if path := os.Getenv(activationEnv); path != "" {
		if os.Getenv("DAEMON_TEST_PID") == "own" {
			_ = os.Setenv("LISTEN_PID", strconv.Itoa(os.Getpid()))
		}
		l, err := daemon.Listen(path)
		if err != nil {
			t.Fatal(err)
		}
		_, fds := os.LookupEnv("LISTEN_FDS")
		out, err := exec.Command("sh", "-c", "ls -l /proc/self/fd | grep -c socket:").CombinedOutput()
		t.Logf("addr=%s scrubbed=%t sockets-in-child=%s%v", l.Addr(), !fds, out, err)
		_ = l.Close()
		return
	}
	dir := testexec.ShortDir(t)
	given, own := filepath.Join(dir, "given"), filepath.Join(dir, "own")
	handed, err := net.ListenUnix("unix", &net.UnixAddr{Name: given, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer handed.Close()
	file, err := handed.File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, test := range []struct{ name, pid, fds, want string }{
		{"ours", "own", "1", given},
		{"of another process", "1", "1", own},
		{"no number", "x", "1", own},
		{"none", "own", "0", own},
		{"no count", "own", "", own},
	} {
		cmd := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), activationEnv+"="+own, "DAEMON_TEST_PID="+test.pid, "LISTEN_PID="+test.pid, "LISTEN_FDS="+test.fds)
		cmd.ExtraFiles = []*os.File{file}
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "addr="+test.want+" scrubbed=true") {
			t.Errorf("%s: %v\n%s", test.name, err, out)
		}
		if test.want == given && !strings.Contains(string(out), "sockets-in-child=0") {
			t.Errorf("%s: children inherit the socket\n%s", test.name, out)
		}
		if _, err := os.Lstat(given); err != nil {
			t.Errorf("%s: the manager's socket is gone: %v", test.name, err)
		}
	}
}

func TestListener(t *testing.T) {
	t.Parallel()

	// The other daemon may start while this one creates its files again.
	t.Run("renewing reports the files of another daemon", func(t *testing.T) {
		t.Parallel()
		dir := testexec.ShortDir(t)
		path := filepath.Join(dir, "here", "s")
		for round := range 300 {
			mine, err := daemon.Listen(path)
			if err != nil {
				t.Fatal(err)
			}
			elsewhere := filepath.Join(dir, "other")
			other, err := daemon.Listen(filepath.Join(elsewhere, "s"))
			if err != nil {
				t.Fatal(err)
			}
			serveProofs(other, path)
			stop, stopped := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(stopped)
				for {
					select {
					case <-stop:
						return
					default:
						_, _ = mine.Renew()
					}
				}
			}()
			for os.RemoveAll(filepath.Dir(path)) != nil || os.Rename(elsewhere, filepath.Dir(path)) != nil {
			}
			close(stop)
			<-stopped
			if _, err := mine.Renew(); !errors.Is(err, daemon.ErrServed) {
				t.Fatalf("round %d: got %v, want that another serves there", round, err)
			}
			_, _ = mine.Close(), other.Close()
			if err := os.RemoveAll(filepath.Dir(path)); err != nil {
				t.Fatal(err)
			}
		}
	})

	t.Run("yields only to a daemon of the same user", func(t *testing.T) {
		t.Parallel()
		silent := func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }
		for name, answer := range map[string]func(net.Conn){
			"silent":   silent,
			"hangs up": func(conn net.Conn) { _ = conn.Close() },
			"as an older daemon": func(conn net.Conn) {
				_, _ = io.WriteString(conn, `{"ok":false,"reason":"unknown_message_type","error":"there are status, pause, resume, drain and stop"}`+"\n")
			},
			"with another key": func(conn net.Conn) {
				_ = proof.AnswerQuestion(conn, "", proof.KeyDirs{Dirs: []string{t.TempDir()}, UID: os.Geteuid()})
			},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				path := filepath.Join(testexec.ShortDir(t), "here", "s")
				l := newProvingListener(t, path)
				dir := filepath.Join(testexec.ShortDir(t), "other")
				if err := os.Mkdir(dir, 0o700); err != nil {
					t.Fatal(err)
				}
				impostor{dir, answer}.replaceSocket(t, path)
				if _, err := l.Renew(); err == nil || errors.Is(err, daemon.ErrServed) || !errors.Is(err, daemon.ErrInUse) {
					t.Errorf("it does not report that the socket is in use: %v", err)
				}
				if err := os.RemoveAll(filepath.Dir(path)); err != nil {
					t.Fatal(err)
				}
				if _, err := l.Renew(); err != nil {
					t.Errorf("it does not create the socket again: %v", err)
				}
				if !daemonlock.IsServed(os.Getenv, path) {
					t.Error("the daemon at the new socket gives no proof")
				}
			})
		}
	})

	t.Run("names the files that sessions must not write", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(testexec.ShortDir(t), "here", "s")
		l := newProvingListener(t, path)
		for _, dir := range []string{testexec.ShortDir(t), filepath.Dir(filepath.Dir(path))} { // a daemon at a socket that the user named cannot move
			if keep, _ := l.MoveOutOf([]string{dir}); !slices.Equal(keep, []string{path, path + ".lock"}) || l.MoveReason() != "" {
				t.Errorf("%s: it keeps %q", dir, keep)
			}
		}
	})
}

func TestDaemon_SocketTakenOver(t *testing.T) {
	t.Parallel()
	r := startDaemon(t, nil)
	c := r.dial()
	r.newSession(c)
	elsewhere := filepath.Join(testexec.ShortDir(t), "other")
	other, err := daemon.Listen(filepath.Join(elsewhere, filepath.Base(r.socket)))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	serveProofs(other, r.socket)
	wait.Until(t, "the other daemon has the socket", func() bool { // the daemon makes its directory again at once
		return os.RemoveAll(filepath.Dir(r.socket)) == nil && os.Rename(elsewhere, filepath.Dir(r.socket)) == nil
	})
	r.runCode(c, "print still", "still\n")
	_ = c.Close()
	if err := <-r.served; err != nil {
		t.Errorf("it ended with %v", err)
	}
	r.served <- nil // for the clean-up of the test
}

// An impostor listens where a daemon was, holds its lock, and answers as it likes.
type impostor struct {
	dir    string // replaces the directory of the daemon
	answer func(net.Conn)
}

// replaceSocket replaces a daemon by an impostor.
func (i impostor) replaceSocket(t *testing.T, socket string) {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(i.dir, filepath.Base(socket)))
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	t.Cleanup(func() { _ = l.Close() })
	lock, err := os.Create(filepath.Join(i.dir, filepath.Base(socket)+".lock"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lock.Close() })
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go i.answer(conn)
		}
	}()
	for os.RemoveAll(filepath.Dir(socket)) != nil || os.Rename(i.dir, filepath.Dir(socket)) != nil {
	}
}

// An address is free again only when every session that writes to its directory has ended.
func TestListener_ReturnsAfterSessions(t *testing.T) {
	login, tmp, state := testexec.ShortDir(t), testexec.ShortDir(t), testexec.ShortDir(t)
	t.Setenv("XDG_RUNTIME_DIR", login)
	t.Setenv("TMPDIR", tmp)
	t.Setenv("XDG_STATE_HOME", state)
	path := daemonlock.SocketPaths(os.Getenv)[0]
	l, err := daemon.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, first := l.MoveOutOf([]string{login})
	_, second := l.MoveOutOf([]string{login})
	away := l.Addr().String()
	if away == path {
		t.Fatalf("it is still at %s", away)
	}
	first()
	if _, ended := l.MoveOutOf([]string{tmp, state}); l.Addr().String() != away {
		t.Errorf("it moves to %s, where a session may write", l.Addr())
	} else {
		ended()
	}
	second()
	if _, _ = l.MoveOutOf([]string{tmp, state}); l.Addr().String() != path {
		t.Errorf("it is at %s, want %s", l.Addr(), path)
	}
}
