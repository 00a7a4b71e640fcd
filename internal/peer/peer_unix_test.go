//go:build unix

package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/internal/testkit/owners"
	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
	"github.com/turnstone-repl/turnstone/internal/testkit/testmain"
)

// testTimeout bounds every wait.
const testTimeout = time.Minute

// relayEnv makes this program forward connections from one socket to another.
const relayEnv = "PEER_TEST_RELAY"

// connectEnv makes this program connect the socket in descriptor 3, and exit.
const connectEnv = "PEER_TEST_CONNECT"

func runConnect(to string) (status int) {
	if err := syscall.Connect(3, &syscall.SockaddrUnix{Name: to}); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

func TestMain(m *testing.M) {
	testmain.Run(m, testmain.Options{
		Programs: []testmain.Program{{Variable: relayEnv, Main: runRelay}, {Variable: connectEnv, Main: runConnect}},
		Serial:   true,
	})
}

func runRelay(sockets string) (status int) {
	from, to, _ := strings.Cut(sockets, ":")
	l, err := net.Listen("unix", from)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("listening")
	for {
		near, err := l.Accept()
		if err != nil {
			return 1
		}
		far, err := net.Dial("unix", to)
		if err != nil {
			return 1
		}
		go func() { _, _ = io.Copy(far, near) }()
		go func() { _, _ = io.Copy(near, far) }()
	}
}

// newKeys returns keys in a separate directory of the test.
func newKeys(t *testing.T) KeyDirs {
	t.Helper()
	return KeyDirs{Dirs: []string{filepath.Join(t.TempDir(), "state")}, UID: os.Geteuid()}
}

func TestKeys(t *testing.T) {
	t.Parallel()

	t.Run("concurrent callers create one key", func(t *testing.T) {
		t.Parallel()
		k := newKeys(t)
		var wg sync.WaitGroup
		got := make([]string, 50)
		for i := range got {
			wg.Go(func() {
				key, err := k.LoadOrCreate()
				if err != nil {
					t.Error(err)
				}
				got[i] = string(key)
			})
		}
		wg.Wait()
		for _, key := range got {
			if key != got[0] || len(key) != keyBytes {
				t.Fatalf("got %x, and %x", key, got[0])
			}
		}
		if i, err := os.Lstat(filepath.Join(k.Dirs[0], keyName)); err != nil || i.Mode() != 0o600 {
			t.Errorf("got %v, %v", i, err)
		}
		if left, _ := filepath.Glob(filepath.Join(k.Dirs[0], "*")); len(left) != 1 {
			t.Errorf("left behind: %q", left)
		}
		if err := os.RemoveAll(k.Dirs[0]); err != nil {
			t.Fatal(err)
		}
		if _, err := k.Load(); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("after the key was removed: got %v", err)
		}
		if key, err := k.LoadOrCreate(); err != nil || string(key) == got[0] {
			t.Errorf("the new key is equal to the old one: %v", err)
		}
	})

	t.Run("rejects a file that others could have written", func(t *testing.T) {
		t.Parallel()
		other := newKeys(t)
		if _, err := other.LoadOrCreate(); err != nil {
			t.Fatal(err)
		}
		theirs := filepath.Join(other.Dirs[0], keyName)
		for name, spoil := range map[string]func(t *testing.T, path string) error{
			"a link to a good one": func(_ *testing.T, path string) error { return errors.Join(os.Remove(path), os.Symlink(theirs, path)) },
			"a link to nothing": func(_ *testing.T, path string) error {
				return errors.Join(os.Remove(path), os.Symlink("/nowhere", path))
			},
			"readable by all": func(_ *testing.T, path string) error { return os.Chmod(path, 0o644) },
			"in a directory that all can write": func(_ *testing.T, path string) error {
				return os.Chmod(filepath.Dir(path), 0o777)
			},
			"a pipe": func(_ *testing.T, path string) error {
				return errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600))
			},
			"a directory": func(_ *testing.T, path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
			"empty":       func(_ *testing.T, path string) error { return os.Truncate(path, 0) },
			"half of one": func(_ *testing.T, path string) error { return os.Truncate(path, 31) },
			"of no digits": func(_ *testing.T, path string) error {
				return os.WriteFile(path, []byte(strings.Repeat("x", 64)), 0o600)
			},
			"another user's": func(t *testing.T, path string) error {
				owners.GiveAway(t, path)
				return nil
			},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				k := newKeys(t)
				k.Dirs = append(k.Dirs, other.Dirs[0]) // which has a good one
				if _, err := k.LoadOrCreate(); err != nil {
					t.Fatal(err)
				}
				path := filepath.Join(k.Dirs[0], keyName)
				if err := spoil(t, path); err != nil {
					t.Fatal(err)
				}
				for _, get := range []func() ([]byte, error){k.Load, k.LoadOrCreate} {
					if _, err := get(); err == nil || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), k.Dirs[0]) {
						t.Errorf("got %v, want a refusal that names it", err)
					}
				}
			})
		}
	})

	t.Run("uses the next directory if one is not writable", func(t *testing.T) {
		t.Parallel()
		k := newKeys(t)
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		k.Dirs = append([]string{file, filepath.Join(file, "below")}, k.Dirs...)
		made, err := k.LoadOrCreate()
		if err != nil {
			t.Fatal(err)
		}
		if key, err := k.Load(); err != nil || string(key) != string(made) {
			t.Errorf("got %x, %v", key, err)
		}
		if _, err := (KeyDirs{Dirs: k.Dirs[:2], UID: k.UID}).LoadOrCreate(); err == nil {
			t.Error("there is no directory for it, and it is made")
		}
	})
}

// serveSocket answers all clients of a new socket, and returns its path.
func serveSocket(t *testing.T, answer func(conn net.Conn, socket string)) string {
	t.Helper()
	socket := filepath.Join(testexec.ShortDir(t), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				answer(conn, socket)
			}()
		}
	}()
	return socket
}

func dialAndAsk(t *testing.T, socket string, k KeyDirs, limit time.Duration) error {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), limit)
	defer stop()
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return RequestProof(ctx, conn, CanonicalAddress(socket), k)
}

func TestRequestProof(t *testing.T) {
	t.Parallel()

	t.Run("accepts a daemon of the user", func(t *testing.T) {
		t.Parallel()
		k := newKeys(t)
		socket := serveSocket(t, func(conn net.Conn, socket string) { _ = AnswerQuestion(conn, CanonicalAddress(socket), k) })
		link := socket + ".d"
		if err := os.Symlink(filepath.Dir(socket), link); err != nil {
			t.Fatal(err)
		}
		for _, at := range []string{socket, filepath.Join(link, "s"), filepath.Dir(socket) + "/./s"} {
			if err := dialAndAsk(t, at, k, testTimeout); err != nil {
				t.Errorf("%s: %v", at, err)
			}
		}
	})

	t.Run("rejects an answer that proves nothing", func(t *testing.T) {
		t.Parallel()
		k := newKeys(t)
		if _, err := k.LoadOrCreate(); err != nil {
			t.Fatal(err)
		}
		says := func(text string) func(net.Conn, string) {
			return func(conn net.Conn, _ string) {
				_, _ = readLine(conn)
				_, _ = io.WriteString(conn, text)
			}
		}
		for name, test := range map[string]struct {
			answer func(net.Conn, string)
			want   string
		}{
			"another key":     {func(conn net.Conn, socket string) { _ = AnswerQuestion(conn, CanonicalAddress(socket), newKeys(t)) }, "does not have your key"},
			"another address": {func(conn net.Conn, _ string) { _ = AnswerQuestion(conn, "/elsewhere", k) }, "your daemon at /elsewhere"},
			"an older daemon": {says(`{"ok":false,"error":"there are status and stop"}` + "\n"), "there are status and stop"},
			"yes":             {says(`{"ok":true}` + "\n"), "does not have your key"},
			"something else":  {says("220 ready\n"), "not a proof"},
			"more than one line": {func(conn net.Conn, socket string) {
				line, _ := readLine(conn)
				_, _ = conn.Write(append(line, line...))
			}, "not a proof"},
			"without end": {func(conn net.Conn, _ string) { _, _ = io.Copy(conn, zeroReader{}) }, "not a proof"},
			"the proof of another time": {func() func(net.Conn, string) {
				old := Proof{Client: ownProcessName()}
				return func(conn net.Conn, socket string) {
					_, _ = readLine(conn)
					key, _ := k.Load()
					old.Address = CanonicalAddress(socket)
					old.MAC = old.computeMAC(key, "an-earlier-nonce-of-ours")
					_ = writeLine(conn, answer{OK: true, Data: old})
				}
			}(), "does not have your key"},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				err := dialAndAsk(t, serveSocket(t, test.answer), k, testTimeout)
				if e, ok := errors.AsType[*UnprovenError](err); !ok || !strings.Contains(e.Reason, test.want) || e.PID != os.Getpid() {
					t.Errorf("got %v, want %q in it", err, test.want)
				}
			})
		}
		t.Run("nothing", func(t *testing.T) {
			t.Parallel()
			err := dialAndAsk(t, serveSocket(t, func(conn net.Conn, _ string) { _, _ = io.Copy(io.Discard, conn) }), k, time.Second)
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
		})
		t.Run("no key here", func(t *testing.T) {
			t.Parallel()
			socket := serveSocket(t, func(conn net.Conn, socket string) { _ = AnswerQuestion(conn, CanonicalAddress(socket), k) })
			if err := dialAndAsk(t, socket, newKeys(t), testTimeout); err == nil || !strings.Contains(err.Error(), "XDG_STATE_HOME") {
				t.Errorf("got %v", err)
			}
		})
	})

	// The proof says which process has asked.
	t.Run("rejects a program that relays the proof", func(t *testing.T) {
		t.Parallel()
		k := newKeys(t)
		const relay = ".relay"
		daemon := serveSocket(t, func(conn net.Conn, socket string) { _ = AnswerQuestion(conn, CanonicalAddress(socket+relay), k) }) // as clients of the relay name it
		socket := daemon + relay
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), relayEnv+"="+socket+":"+daemon)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}()
		if line := make([]byte, len("listening\n")); true {
			if _, err := io.ReadFull(out, line); err != nil || string(line) != "listening\n" {
				t.Fatalf("got %q, %v", line, err)
			}
		}
		err = dialAndAsk(t, socket, k, testTimeout)
		if e, ok := errors.AsType[*UnprovenError](err); !ok || !strings.Contains(e.Reason, "a program in between") || e.PID != cmd.Process.Pid {
			t.Errorf("got %v, want an error that names process %d", err, cmd.Process.Pid)
		}
	})
}

type zeroReader struct{}

func (zeroReader) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

func TestNewProof_InvalidNonce(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	for _, nonce := range []string{"", "short", strings.Repeat("x", 65), "sixteen letters\n", "not/one/of/these"} {
		if _, err := NewProof(near, nonce, "/x", newKeys(t)); err == nil || !strings.Contains(err.Error(), "nonce") {
			t.Errorf("%q: %v", nonce, err)
		}
	}
}
