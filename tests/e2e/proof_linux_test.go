package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/client"
	"github.com/turnstone-repl/turnstone/internal/testkit/sandboxcheck"
	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
	"github.com/turnstone-repl/turnstone/session"
)

// An impostor listens in place of a daemon, and records the bytes that it receives.
type impostor struct {
	t      *testing.T
	socket string

	mu   sync.Mutex
	sent bytes.Buffer // guarded by mu
}

// Kinds of impostors.
const (
	kindAgreeing = "" // accepts everything
	kindSilent   = "quiet"
)

// startImpostor starts an impostor. kind is its behaviour, or the socket of a daemon to which it
// forwards everything.
func startImpostor(t *testing.T, socket, kind string) *impostor {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(socket), 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false) // by then the socket may belong to another process
	t.Cleanup(func() { _ = l.Close() })
	i := &impostor{t: t, socket: socket}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go i.serve(conn, kind)
		}
	}()
	return i
}

func (i *impostor) serve(conn net.Conn, kind string) {
	defer conn.Close()
	var to io.Writer = io.Discard
	if filepath.IsAbs(kind) {
		far, err := net.Dial("unix", kind)
		if err != nil {
			return
		}
		defer far.Close()
		go func() { _, _ = io.Copy(conn, far) }()
		to = far
	}
	part := make([]byte, 4<<10)
	for {
		n, err := conn.Read(part)
		i.mu.Lock()
		i.sent.Write(part[:n])
		i.mu.Unlock()
		if err != nil {
			return
		}
		_, _ = to.Write(part[:n])
		if kind == kindAgreeing {
			_, _ = io.WriteString(conn, `{"ok":true,"data":{"mac":"`+strings.Repeat("0", 64)+`","address":"`+i.socket+`","client":"1@"},"jsonrpc":"2.0","id":1,"result":{"protocol":1,"sessions":[]}}`+"\n")
		}
	}
}

// wantOnlyProofRequests checks that an impostor was asked for a proof and received nothing else.
func (i *impostor) wantOnlyProofRequests() {
	i.t.Helper()
	i.mu.Lock()
	defer i.mu.Unlock()
	lines := strings.Split(strings.TrimSuffix(i.sent.String(), "\n"), "\n")
	for _, line := range lines {
		var q map[string]string
		if err := json.Unmarshal([]byte(line), &q); err != nil || len(q) != 2 || q["type"] != "prove" || q["nonce"] == "" {
			i.t.Errorf("it got %q", line)
		}
	}
}

// userTmpDir returns the user's own directory among temporary files.
func (h home) userTmpDir() string {
	return filepath.Join(h.envValue("TMPDIR"), "turnstone-"+strconv.Itoa(os.Getuid()))
}

const noProofMessage = "does not prove that it is your daemon, so nothing is sent to it"

func TestImpostor(t *testing.T) {
	t.Parallel()

	t.Run("gets no input", func(t *testing.T) {
		t.Parallel()
		newHome(t) // skips without Python
		run, variable := newLoginDir(t)
		inRun := filepath.Join(run, "turnstone", "daemon.sock")
		desk := newFindHome(t).withLogin(variable)
		for name, test := range map[string]struct {
			h      home
			socket string
		}{
			"in the directory of the login": {desk, inRun},
			"among temporary files": func() (c struct {
				h      home
				socket string
			}) {
				c.h = newLogin(t, newFindHome(t))
				c.socket = filepath.Join(c.h.userTmpDir(), "daemon.sock")
				return c
			}(),
			"at TURNSTONE_SOCKET": func() (c struct {
				h      home
				socket string
			}) {
				c.h = newDaemonHome(t)
				c.socket = c.h.socket()
				return c
			}(),
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				i := startImpostor(t, test.socket, kindAgreeing)
				for _, args := range [][]string{
					{"exec", "main", "-e", "password = 'hunter2'"}, {"list"}, {"daemon", "status"}, {"daemon", "stop"}, {"bridge", "--start=never"},
					{"input", "main"}, {"interrupt", "main"}, {"events", "main"}, {"exec", "--socket", test.socket, "main", "-e", "hunter2"},
				} {
					r := test.h.runRepl(t, "hunter2\n", args...)
					if r.status != 3 || !strings.Contains(r.stderr, noProofMessage) && !strings.Contains(r.stderr, "no daemon answers") {
						t.Errorf("%q: %v", args, r)
					}
				}
				i.wantOnlyProofRequests()
			})
		}
	})

	// A daemon that starts where something else listens uses another default socket, and reports
	// that.
	t.Run("a daemon starts next to it and is found", func(t *testing.T) {
		t.Parallel()
		for _, kind := range []string{kindAgreeing, kindSilent} {
			t.Run(kind, func(t *testing.T) {
				t.Parallel()
				run, variable := newLoginDir(t)
				h := newFindHome(t).withLogin(variable)
				i := startImpostor(t, filepath.Join(run, "turnstone", "daemon.sock"), kind)
				h.startDaemon(t)
				wantResult(t, h.runRepl(t, "", "exec", "keep", "-e", "6 * 7"), result{"42\n", newSessionNotice("keep"), 0})
				if _, socket := readRegistryEntry(t, h.stateDir()); socket == i.socket {
					t.Errorf("the reported socket of the daemon is %s", socket)
				}
				text, err := os.ReadFile(filepath.Join(h.stateDir(), "serve.log"))
				if err != nil || !strings.Contains(string(text), "daemon moved to another socket") || !strings.Contains(string(text), i.socket) {
					t.Errorf("its log: %s, %v", text, err)
				}
				i.wantOnlyProofRequests()
			})
		}
		t.Run("a daemon with its own socket does not start", func(t *testing.T) {
			t.Parallel()
			h := newDaemonHome(t)
			i := startImpostor(t, h.socket(), kindAgreeing)
			if r := h.runRepl(t, "", "serve"); r.status != 3 || !strings.Contains(r.stderr, noProofMessage) || !strings.Contains(r.stderr, "process "+strconv.Itoa(os.Getpid())) {
				t.Errorf("got %v", r)
			}
			i.wantOnlyProofRequests()
		})
	})

	t.Run("does not displace a running daemon", func(t *testing.T) {
		t.Parallel()
		for _, kind := range []string{kindAgreeing, kindSilent, "a relay"} {
			t.Run("a daemon at the default socket moves, "+kind, func(t *testing.T) {
				t.Parallel()
				run, variable := newLoginDir(t)
				h := newFindHome(t).withLogin(variable)
				daemon := h.startDaemon(t)
				wantResult(t, h.runRepl(t, "", "exec", "keep", "-e", "x = 41"), result{"", newSessionNotice("keep"), 0})
				to := kind
				if kind == "a relay" {
					to = filepath.Join(h.userTmpDir(), "daemon.sock") // the future socket
				}
				i := replaceByImpostor(t, filepath.Join(run, "turnstone", "daemon.sock"), to)
				wait.Until(t, "the daemon has moved", func() bool {
					_, socket := readRegistryEntry(t, h.stateDir())
					return socket != "" && socket != i.socket
				})
				wantResult(t, h.runRepl(t, "", "exec", "keep", "-e", "x + 1"), result{"42\n", "", 0})
				for _, args := range [][]string{{"exec", "--socket", i.socket, "keep", "-e", "'hunter2'"}, {"daemon", "--socket", i.socket, "stop"}} {
					if r := h.runRepl(t, "", args...); r.status != 3 || kind != kindSilent && !strings.Contains(r.stderr, noProofMessage) {
						t.Errorf("%q: %v", args, r)
					}
				}
				if !testexec.IsAlive(daemon.Process.Pid) {
					t.Error("the daemon has ended")
				}
				i.wantOnlyProofRequests()
			})
		}
		t.Run("a daemon with its own socket keeps it and listens there again", func(t *testing.T) {
			t.Parallel()
			h := newDaemonHome(t)
			daemon := h.startDaemon(t)
			wantResult(t, h.runRepl(t, "", "exec", "keep", "-e", "x = 41"), result{"", newSessionNotice("keep"), 0})
			i := replaceByImpostor(t, h.socket(), kindAgreeing)
			log := filepath.Join(h.stateDir(), "serve.log")
			wait.Until(t, "the log reports it", func() bool {
				text, _ := os.ReadFile(log)
				return strings.Contains(string(text), "daemon unreachable for new clients") && strings.Contains(string(text), noProofMessage)
			})
			if r := h.runRepl(t, "", "exec", "keep", "-e", "'hunter2'"); r.status != 3 || !strings.Contains(r.stderr, noProofMessage) {
				t.Errorf("got %v", r)
			}
			if !testexec.IsAlive(daemon.Process.Pid) {
				t.Error("the daemon has ended")
			}
			i.wantOnlyProofRequests()
			aside, _ := newLoginDir(t)
			if err := os.Rename(filepath.Dir(h.socket()), filepath.Join(aside, "impostor")); err != nil { // in one step, because the daemon recreates it
				t.Fatal(err)
			}
			wait.Until(t, "the daemon is reachable again", func() bool { return h.runRepl(t, "", "list").status == 0 })
			wantResult(t, h.runRepl(t, "", "exec", "keep", "-e", "x + 1"), result{"42\n", "", 0})
		})
	})

	// A program that holds the lock of the user's daemon cannot prevent the start of a daemon. Such
	// a program is a session with full network access, for instance.
	t.Run("cannot block a daemon by holding its lock", func(t *testing.T) {
		t.Parallel()
		_, variable := newLoginDir(t)
		h := newFindHome(t).withLogin(variable)
		daemon := h.startDaemon(t)
		listed, err := os.ReadFile("/proc/net/unix")
		if err != nil {
			t.Fatal(err)
		}
		var locks []string
		for line := range strings.Lines(string(listed)) {
			if fields := strings.Fields(line); len(fields) == 8 && strings.HasPrefix(fields[7], fmt.Sprintf("@turnstone/%d/", os.Geteuid())) {
				locks = append(locks, fields[7])
			}
		}
		_ = stopProgram(daemon)
		_ = daemon.Wait()
		name := ""
		for _, lock := range locks { // other tests have their locks in the same directory
			if l, err := net.Listen("unix", lock); err == nil {
				name = lock // this may also be the lock of a test that just ended
				t.Cleanup(func() { _ = l.Close() })
			}
		}
		if name == "" {
			t.Fatalf("no lock is free: %q", locks)
		}
		h.startDaemon(t)
		wantResult(t, h.runRepl(t, "", "exec", "keep", "-e", "6 * 7"), result{"42\n", newSessionNotice("keep"), 0})
	})

	// Sandboxed code cannot reach the key, the socket, or their parent directories, wherever they
	// are.
	t.Run("a session cannot take the place of a daemon", func(t *testing.T) {
		t.Parallel()
		sandboxcheck.RequireNamespaces(t)
		for name, set := range map[string]func(t *testing.T, h home, work string) home{
			"TMPDIR in its workspace": func(t *testing.T, h home, work string) home {
				return h.withLogin(newBlockedLoginDir(t), "TMPDIR="+filepath.Join(work, "t"))
			},
			"XDG_RUNTIME_DIR in its workspace": func(t *testing.T, h home, work string) home {
				return h.withLogin("XDG_RUNTIME_DIR=" + filepath.Join(work, "t"))
			},
			"XDG_STATE_HOME in its workspace": func(t *testing.T, h home, work string) home {
				return h.withLogin("XDG_STATE_HOME=" + filepath.Join(work, "t"))
			},
			"TURNSTONE_SOCKET in its workspace": func(t *testing.T, h home, work string) home {
				return h.withLogin("TURNSTONE_SOCKET=" + filepath.Join(work, "t", "d"))
			},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				work, _ := newLoginDir(t) // a short path
				if err := os.Mkdir(filepath.Join(work, "t"), 0o700); err != nil {
					t.Fatal(err)
				}
				h := set(t, newFindHome(t), work)
				h.startDaemon(t, "--session-dir", t.TempDir())
				wantResult(t, h.runRepl(t, "", "exec", "keep", "-e", "x = 41"), result{"", newSessionNotice("keep"), 0})
				h.dir = work
				r := h.runRepl(t, "", "exec", "inside", "--sandbox", "workspace", "-e", attackCode, "--wait", "60s")
				if r.status != 0 || !strings.Contains(r.stdout, "tried") {
					t.Fatalf("got %v", r)
				}
				for line := range strings.Lines(r.stdout) {
					if strings.HasPrefix(line, "done: ") {
						t.Errorf("inside: %s", line)
					}
				}
				wantResult(t, h.runRepl(t, "", "exec", "keep", "-e", "x + 1"), result{"42\n", "", 0})
			})
		}
	})

	// Before a session may write to the directory of the socket, the socket moves to another directory.
	t.Run("a daemon moves out of what a session can write", func(t *testing.T) {
		t.Parallel()
		sandboxcheck.RequireNamespaces(t)
		for name, grant := range map[string]bool{"its workspace": false, "a grant while the session runs": true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				work := sandboxcheck.TempDir(t) // a session has its own temporary files
				state, _ := newLoginDir(t)
				h := newFindHome(t).withLogin(newBlockedLoginDir(t), "TMPDIR="+filepath.Join(work, "t"), "XDG_STATE_HOME="+state)
				if err := os.Mkdir(filepath.Join(work, "t"), 0o700); err != nil {
					t.Fatal(err)
				}
				h.startDaemon(t, "--session-dir", t.TempDir())
				_, before := readRegistryEntry(t, h.stateDir())
				if !strings.HasPrefix(before, work) {
					t.Fatalf("it is at %q", before)
				}
				if !grant {
					h.dir = work
				}
				want := func(stdout string, args ...string) {
					t.Helper()
					if r := h.runRepl(t, "", args...); r.status != 0 || r.stdout != stdout {
						t.Errorf("%q: %v", args, r)
					}
				}
				want("", "exec", "inside", "--sandbox", "workspace", "-e", "x = 41")
				if grant {
					c, err := client.Dial(t.Context(), client.DefaultDialer(h.envValue))
					if err == nil {
						err = c.GrantAccess(t.Context(), protocol.GrantParams{Session: "inside", Grant: session.Grant{Write: work}})
					}
					if err != nil {
						t.Fatal(err)
					}
					_ = c.Close()
				}
				_, after := readRegistryEntry(t, h.stateDir())
				if strings.HasPrefix(after, work) || after == "" {
					t.Errorf("it is at %q", after)
				}
				want("42\n", "exec", "inside", "-e", "x + 1")
				text, err := os.ReadFile(filepath.Join(h.stateDir(), "serve.log"))
				if err != nil || !strings.Contains(string(text), "a session may write to the directory of "+before) {
					t.Errorf("its log: %s, %v", text, err)
				}
			})
		}
	})
}

// replaceByImpostor replaces a running daemon by an impostor, as a program could that may write to
// a directory above the socket. The impostor takes the lock, too.
func replaceByImpostor(t *testing.T, socket, kind string) *impostor {
	t.Helper()
	aside, _ := newLoginDir(t)
	dir := filepath.Join(aside, "mine")
	i := startImpostor(t, filepath.Join(dir, filepath.Base(socket)), kind)
	lock, err := os.Create(filepath.Join(dir, filepath.Base(socket)+".lock"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lock.Close() })
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	n := 0
	wait.Until(t, "the impostor has the socket", func() bool { // while the daemon recreates it
		n++
		_ = os.Rename(filepath.Dir(socket), filepath.Join(aside, fmt.Sprintf("gone-%d", n)))
		return os.Rename(dir, filepath.Dir(socket)) == nil
	})
	i.socket = socket
	return i
}

func TestDaemonKey(t *testing.T) {
	t.Parallel()
	h := newDaemonHome(t)
	h.startDaemon(t)
	key := filepath.Join(h.stateDir(), "daemon.key")
	x := 0
	works := func(t *testing.T) {
		t.Helper()
		x++
		if r := h.runRepl(t, "", "exec", "main", "-e", fmt.Sprint(x)); r.status != 0 || r.stdout != fmt.Sprintln(x) {
			t.Errorf("got %v", r)
		}
	}
	works(t)
	before, err := os.ReadFile(key)
	if i, e := os.Lstat(key); err != nil || e != nil || i.Mode() != 0o600 {
		t.Fatalf("got %v, %v, %v", i, err, e)
	}
	t.Run("is created again after it was removed", func(t *testing.T) {
		if err := os.Remove(key); err != nil {
			t.Fatal(err)
		}
		works(t)
		if after, err := os.ReadFile(key); err != nil || bytes.Equal(before, after) {
			t.Errorf("the key is unchanged or missing: %v", err)
		}
	})
	t.Run("is shared with another daemon that has created it", func(t *testing.T) {
		if err := os.Remove(key); err != nil {
			t.Fatal(err)
		}
		other := h
		other.env = append(other.env[:len(other.env):len(other.env)], "TURNSTONE_SOCKET="+newSocketName(t))
		other.startDaemon(t)
		works(t)
		if r := other.runRepl(t, "", "list"); r.status != 0 {
			t.Errorf("got %v", r)
		}
	})
	for name, breakKey := range map[string]func() error{
		"a link": func() error {
			return os.Symlink(filepath.Join(h.dir, "key"), key)
		},
		"readable by others": func() error { return os.WriteFile(key, before, 0o644) },
		"no key":             func() error { return os.WriteFile(key, []byte("x\n"), 0o600) },
	} {
		t.Run(name+" is refused by both sides", func(t *testing.T) {
			if err := os.WriteFile(filepath.Join(h.dir, "key"), before, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(key); err != nil {
				t.Fatal(err)
			}
			if err := breakKey(); err != nil {
				t.Fatal(err)
			}
			if r := h.runRepl(t, "", "exec", "main", "-e", "'hunter2'"); r.status != 3 || !strings.Contains(r.stderr, key) {
				t.Errorf("got %v", r)
			}
			if r := h.runRepl(t, "", "serve", "--socket", newSocketName(t)); r.status != 1 || !strings.Contains(r.stderr, key) {
				t.Errorf("a new daemon: %v", r)
			}
			if err := os.Remove(key); err != nil {
				t.Fatal(err)
			}
			works(t)
		})
	}
	t.Run("of another state directory is not accepted", func(t *testing.T) {
		other := h
		other.env = append(h.env[:len(h.env)-1:len(h.env)-1], "XDG_STATE_HOME="+t.TempDir(), h.env[len(h.env)-1])
		if r := other.runRepl(t, "", "exec", "main", "-e", "1"); r.status != 3 || !strings.Contains(r.stderr, "XDG_STATE_HOME") {
			t.Errorf("got %v", r)
		}
	})
}

func TestServe_OneOfManyStarts(t *testing.T) {
	t.Parallel()
	h := newDaemonHome(t)
	const starts = 4
	ended := make(chan error, starts)
	var all []*exec.Cmd
	for range starts {
		cmd := h.command(t, "serve")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		all = append(all, cmd)
		go func() { ended <- cmd.Wait() }()
	}
	for range starts - 1 {
		if err := <-ended; exitCodeOf(err) != 3 {
			t.Errorf("a daemon that started late ended with %v", err)
		}
	}
	wait.Until(t, "the remaining daemon serves", func() bool { return h.runRepl(t, "", "list").status == 0 })
	for _, cmd := range all {
		_ = stopProgram(cmd)
	}
	<-ended
}

// A container has its own process numbers.
func TestDaemonKey_Container(t *testing.T) {
	t.Parallel()
	sandboxcheck.RequireNamespaces(t)
	h := newDaemonHome(t)
	h.startDaemon(t)
	cmd := h.command(t, "list")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}},
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// newBlockedLoginDir returns the directory of a login in which no daemon can listen.
func newBlockedLoginDir(t *testing.T) (variable string) {
	t.Helper()
	dir, variable := newLoginDir(t)
	if err := os.WriteFile(filepath.Join(dir, "turnstone"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return variable
}

// attackCode tries to read keys, and to reach, replace and move sockets, anywhere in the directory.
const attackCode = `
import os, socket
def tries(what, f):
    try: f()
    except OSError as e: return
    print("done:", what)
def connects(path):
    s = socket.socket(socket.AF_UNIX); s.settimeout(5); s.connect(path)
def replaces(path):
    os.rename(path, path + ".old"); socket.socket(socket.AF_UNIX).bind(path)
top = os.getcwd()
tries("move t", lambda: os.rename("t", "u"))
for above, dirs, files in list(os.walk(top)):
    for name in files:
        path = os.path.join(above, name)
        if name.endswith(".key"): tries("read " + path, lambda: open(path).read(1))
        if name.endswith(".sock") or name == "d": tries("connect " + path, lambda: connects(path))
        if name.endswith((".sock", ".lock", ".json", ".key")) or name == "d": tries("replace " + path, lambda: replaces(path))
    if above != top and any(n.endswith((".sock", ".json", ".key")) or n == "d" for n in files): tries("move " + above, lambda: os.rename(above, above + ".old"))
print("tried")
`
