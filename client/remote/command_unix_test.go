//go:build unix

package remote

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/client/internal/conn"
	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
	"github.com/turnstone-repl/turnstone/session"
)

// printGreeting is what repl bridge prints, for the scripts that stand for a remote end.
const printGreeting = `printf '\nturnstone-bridge 1 %s {"version":"1","protocol":1,"host":"far"}\n' "$4"; `

// newScriptCommand returns a command whose remote end is a script.
func newScriptCommand(script string) *CommandDialer {
	return &CommandDialer{Name: "gpu", Prefix: []string{"sh", "-c", script, "sh"}, GreetingTimeout: time.Minute}
}

// wantDialError dials and returns the error, which must be of KindUnreachable.
func wantDialError(t *testing.T, c *CommandDialer) string {
	t.Helper()
	conn, err := c.Dial(t.Context())
	if err == nil {
		_ = conn.Close()
		t.Fatal("it got through")
	}
	if session.KindOf(err) != session.KindUnreachable {
		t.Errorf("the error is of the kind %q", session.KindOf(err))
	}
	return err.Error()
}

// connect returns a connection over the command, as package client makes it.
func connect(t *testing.T, d *CommandDialer) (*conn.Conn, error) {
	stream, err := d.Dial(t.Context())
	if err != nil {
		return nil, err
	}
	over := stream.(*CommandConn)
	return conn.New(stream, conn.Options{CanSkip: over.CanSkip, AfterClose: over.Terminate}), nil
}

// readInfo asks the daemon what it is.
func readInfo(t *testing.T, c *conn.Conn) (g conn.DaemonGreeting, err error) {
	err = c.Call(t.Context(), "server/info", struct{}{}, &g)
	return g, err
}

// wantContains fails unless a text contains all parts.
func wantContains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("got %q, want %q in it", text, p)
		}
	}
}

// newPIDFile returns a file for a script to write a process ID to. At its end, the test checks
// that the process has exited.
func newPIDFile(t *testing.T) (path string, gone func()) {
	path = filepath.Join(t.TempDir(), "pid")
	return path, func() {
		t.Helper()
		pid, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.Atoi(strings.TrimSpace(string(pid)))
		if err != nil {
			t.Fatalf("the script wrote no id: %v", err)
		}
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for range 6000 {
			if !testexec.IsAlive(n) {
				return
			}
			<-tick.C
		}
		t.Errorf("process %d is still there", n)
	}
}

func TestCommandGreeting(t *testing.T) {
	t.Parallel()

	t.Run("skips the output before the greeting", func(t *testing.T) {
		t.Parallel()
		c := newScriptCommand(`printf 'welcome\n\001\377 a line without an end'; ` + printGreeting + `exec cat`)
		conn, err := c.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if g := conn.(*CommandConn).Greeting(); g.Host != "far" || g.Protocol != 1 {
			t.Errorf("got the greeting %+v", g)
		}
		if _, err := conn.Write([]byte("one\n")); err != nil {
			t.Fatal(err)
		}
		if err := conn.(*CommandConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(conn); err != nil || string(text) != "one\n" {
			t.Errorf("got %q, %v", text, err)
		}
	})

	t.Run("ignores a greeting with another nonce", func(t *testing.T) {
		t.Parallel()
		wantContains(t, wantDialError(t, newScriptCommand(`printf '\nturnstone-bridge 1 AAAA {"protocol":1}\n'`)), "status 0", "without a greeting of repl bridge", "turnstone-bridge 1 AAAA")
	})

	t.Run("reports a command that allocates a terminal", func(t *testing.T) {
		t.Parallel()
		wantContains(t, wantDialError(t, newScriptCommand(`printf '\r\nturnstone-bridge 1 %s {"protocol":1}\r\n' "$4"; cat`)), "must not allocate a terminal", "ssh -T")
	})

	t.Run("reports a command that drops its arguments", func(t *testing.T) {
		t.Parallel()
		wantContains(t, wantDialError(t, newScriptCommand(`printf '\nturnstone-bridge 1 - {"protocol":1}\n'; cat`)), "the words that follow the command were lost", `"$@"`)
	})

	t.Run("reports why the remote host has no daemon", func(t *testing.T) {
		t.Parallel()
		_, err := newScriptCommand(`printf '\nturnstone-bridge 1 %s {"error":"no daemon answers at /x","kind":"unreachable","host":"far"}\n' "$4"; exit 3`).Dial(t.Context())
		refused, ok := errors.AsType[*RefusedError](err)
		if !ok || refused.Greeting.Host != "far" || session.KindOf(err) != session.KindUnreachable {
			t.Fatalf("got %v", err)
		}
		wantContains(t, err.Error(), "gpu (sh -c", "no daemon answers at /x")
	})
}

func TestCommandExit(t *testing.T) {
	t.Parallel()

	t.Run("explains the exit status and quotes the output", func(t *testing.T) {
		t.Parallel()
		for script, want := range map[string][]string{
			`:`:                            {"gpu (sh -c ", "status 0", "does it run the words that follow it?"},
			`nosuchprogram`:                {"status 127", "repl was not found there", "it said: ", "nosuchprogram"},
			`exit 126`:                     {"status 126", "the remote repl cannot be run"},
			`echo refused >&2; exit 255`:   {"status 255, as ssh does", "it said: refused"},
			`echo one; echo two; exit 3`:   {"status 3; it printed: one | two"},
			`kill -9 $$`:                   {"signal: killed"},
			`printf '\033[2J' >&2; exit 1`: {"it said: [2J"},
		} {
			text := wantDialError(t, newScriptCommand(script))
			wantContains(t, text, want...)
			if strings.ContainsAny(text, "\x1b\n") {
				t.Errorf("%q acts on a terminal", text)
			}
		}
		wantContains(t, wantDialError(t, &CommandDialer{Prefix: []string{"nosuchprogram"}}), `program "nosuchprogram" not found on this machine`)
	})

	t.Run("kills a command that hangs and its children", func(t *testing.T) {
		t.Parallel()
		leader, leaderGone := newPIDFile(t)
		child, childGone := newPIDFile(t)
		c := newScriptCommand(`trap '' TERM; echo queued >&2; echo $$ > ` + leader + `; sleep 1000 & echo $! > ` + child + `; wait; sleep 1000`)
		c.GreetingTimeout = 300 * time.Millisecond
		c.LastPrompt = func() time.Time { // the timeout starts when the script waits
			if id, _ := os.ReadFile(child); len(id) == 0 {
				return time.Now()
			}
			return time.Time{}
		}
		wantContains(t, wantDialError(t, c), "no answer for 300ms", "it said: queued")
		leaderGone()
		childGone()
	})

	t.Run("kills a command that prints without end", func(t *testing.T) {
		t.Parallel()
		leader, gone := newPIDFile(t)
		wantContains(t, wantDialError(t, newScriptCommand(`echo $$ > `+leader+`; exec yes`)), "it printed more than 65536 bytes", "it printed: y | y")
		gone()
		wantContains(t, wantDialError(t, newScriptCommand(`tr '\0' x < /dev/zero`)), "it printed more than 65536 bytes")
	})

	t.Run("does not wait for a child that holds the output open", func(t *testing.T) {
		t.Parallel()
		if _, err := exec.LookPath("setsid"); err != nil {
			t.Skip("setsid is not here")
		}
		for _, before := range []string{"", printGreeting} {
			child, _ := newPIDFile(t)
			c := newScriptCommand(before + `setsid sh -c 'echo $$ > ` + child + `; exec sleep 1000' & while [ ! -s ` + child + ` ]; do sleep 0.01; done; echo last >&2; exit 255`)
			conn, err := c.Dial(t.Context())
			if err == nil {
				_, err = io.ReadAll(conn)
				_ = conn.Close()
				if err == nil {
					t.Error("the connection ended without a reason")
				}
			}
			if err != nil {
				wantContains(t, err.Error(), "status 255", "last")
			}
			if err := exec.Command("sh", "-c", "kill -9 $(cat "+child+")").Run(); err != nil {
				t.Errorf("the child was gone before: %v", err)
			}
		}
	})

	t.Run("kills a command that ignores signals", func(t *testing.T) {
		t.Parallel()
		leader, gone := newPIDFile(t)
		conn, err := newScriptCommand(`trap '' TERM HUP; echo $$ > ` + leader + `; ` + printGreeting + `while :; do sleep 1; done`).Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		conn.(*CommandConn).Terminate()
		gone()
		if _, err := conn.Read(make([]byte, 1)); err == nil {
			t.Error("it can still be read")
		}
	})

	t.Run("a cancelled dial kills the command", func(t *testing.T) {
		t.Parallel()
		leader, gone := newPIDFile(t)
		ctx, cancel := context.WithCancel(t.Context())
		c := newScriptCommand(`echo $$ > ` + leader + `; echo ready >&2; exec sleep 1000`)
		c.Stderr = writerFunc(func([]byte) { cancel() })
		if _, err := c.Dial(ctx); err == nil || !strings.Contains(err.Error(), context.Canceled.Error()) {
			t.Errorf("got %v", err)
		}
		gone()
	})

	t.Run("the error includes the state of the remote job", func(t *testing.T) {
		t.Parallel()
		c := newScriptCommand(`exit 1`)
		c.DescribeFailure = func(context.Context) string { return "JobState=TIMEOUT\n   ExitCode=0:1" }
		wantContains(t, wantDialError(t, c), "JobState=TIMEOUT | ExitCode=0:1")
	})
}

type writerFunc func([]byte)

func (f writerFunc) Write(b []byte) (int, error) { f(b); return len(b), nil }

func TestCommandStream(t *testing.T) {
	t.Parallel()

	t.Run("forwards stderr until the greeting and keeps its tail", func(t *testing.T) {
		t.Parallel()
		var live bytes.Buffer
		seen := filepath.Join(t.TempDir(), "seen")
		c := newScriptCommand(`echo question >&2; while [ ! -e ` + seen + ` ]; do sleep 0.01; done; ` + printGreeting + `read go; yes 0123456789 | head -c 9000 >&2; echo; echo the last >&2; exit 1`)
		c.Stderr = writerFunc(func(b []byte) {
			live.Write(b)
			_ = os.WriteFile(seen, nil, 0o600)
		})
		conn, err := c.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.Write([]byte("go\n")); err != nil {
			t.Fatal(err)
		}
		_, err = io.ReadAll(conn)
		if err == nil || strings.Count(err.Error(), "0123456789") > 4096/11 {
			t.Fatalf("the end was %v", err)
		}
		wantContains(t, err.Error(), "gpu (sh", "status 1", "it said: 0123456789 | ", "the last")
		if live.String() != "question\n" {
			t.Errorf("live it said %q", live.String())
		}
	})

	t.Run("skips foreign output between messages", func(t *testing.T) {
		t.Parallel()
		c, err := connect(t, newScriptCommand(printGreeting+`echo a late word; echo '42'; read request
		printf '{"jsonrpc":"2.0","id":1,"result":{"version":"far"}}\n'; cat > /dev/null`))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if i, err := readInfo(t, c); err != nil || i.Version != "far" {
			t.Errorf("got %+v, %v", i, err)
		}
	})

	t.Run("foreign output inside messages refuses the fourth dial", func(t *testing.T) {
		t.Parallel()
		dialer := newScriptCommand(printGreeting + `read request; printf '{"jsonrpc":a late word\n"id":1,"result":{}}\n'; cat > /dev/null`)
		for range maxCorruptions {
			c, err := connect(t, dialer)
			if err != nil {
				t.Fatal(err)
			}
			_, err = readInfo(t, c)
			if session.KindOf(err) != session.KindUnreachable {
				t.Errorf("got %v", err)
			}
			_ = c.Close()
		}
		wantContains(t, wantDialError(t, dialer), "3 times within a minute", "a late word", "print nothing")
		dialer.corruptions[0].at = time.Now().Add(-corruptionWindow - time.Second)
		c, err := connect(t, dialer)
		if err != nil {
			t.Fatalf("after the minute: %v", err)
		}
		_ = c.Close()
	})

	t.Run("too much foreign output ends the connection", func(t *testing.T) {
		t.Parallel()
		c, err := connect(t, newScriptCommand(printGreeting+`yes | head -c 100000; cat > /dev/null`))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		<-c.Done()
	})

	t.Run("a partial last line counts as the end of the stream", func(t *testing.T) {
		t.Parallel()
		dialer := newScriptCommand(printGreeting + `read request; printf '{"jsonrpc":"'; exit 0`)
		c, err := connect(t, dialer)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, err = readInfo(t, c)
		if err == nil || strings.Contains(err.Error(), "no message") || !strings.Contains(err.Error(), "EOF") {
			t.Errorf("got %v", err)
		}
		if len(dialer.corruptions) > 0 {
			t.Error("it counts as a foreign word")
		}
	})

	t.Run("a read fails when its deadline passes", func(t *testing.T) {
		t.Parallel()
		conn, err := newScriptCommand(printGreeting + `exec sleep 1000`).Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}

func TestCommandDial(t *testing.T) {
	t.Parallel()

	t.Run("rejects arguments that a shell would change", func(t *testing.T) {
		t.Parallel()
		for _, c := range []*CommandDialer{{Socket: "/tmp/a b"}, {Program: "~/repl"}, {Socket: "$HOME/x"}, {Program: "a;b"}} {
			c.Prefix = []string{"sh", "-c", "exit 1", "sh"}
			wantContains(t, wantDialError(t, c), "cannot be sent to the remote shell")
		}
		wantContains(t, wantDialError(t, &CommandDialer{}), "the remote has no transport command")
	})

	t.Run("installs a missing program once", func(t *testing.T) {
		t.Parallel()
		c := newScriptCommand(`case $1 in /there/repl) ` + printGreeting + `cat;; *) echo "$1: not found" >&2; exit 127;; esac`)
		brought := 0
		c.InstallProgram = func(context.Context) (string, error) {
			brought++
			return "/there/repl", nil
		}
		for range 2 {
			conn, err := c.Dial(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			_ = conn.Close()
		}
		if brought != 1 {
			t.Errorf("the program was installed %d times", brought)
		}
		c = newScriptCommand(`exit 126`)
		c.InstallProgram = func(context.Context) (string, error) { return "", errors.New("no room there") }
		wantContains(t, wantDialError(t, c), "repl was not found there; no room there")
		c = newScriptCommand(`echo refused >&2; exit 255`)
		c.InstallProgram = func(context.Context) (string, error) { t.Error("nothing is missing"); return "", nil }
		wantContains(t, wantDialError(t, c), "status 255")
	})

	t.Run("a prompt to the user extends the timeout", func(t *testing.T) {
		t.Parallel()
		c := newScriptCommand(`sleep 1000`)
		c.GreetingTimeout = 50 * time.Millisecond
		looks := 0
		c.LastPrompt = func() time.Time {
			if looks++; looks < 5 {
				return time.Now()
			}
			return time.Time{}
		}
		wantContains(t, wantDialError(t, c), "no answer for 50ms")
		if looks != 5 {
			t.Errorf("the dial failed at check %d of the prompt", looks)
		}
	})

	t.Run("retries a remote that is still starting", func(t *testing.T) {
		t.Parallel()
		tries := filepath.Join(t.TempDir(), "tries")
		c := newScriptCommand(`echo >> ` + tries + `; [ "$(wc -l < ` + tries + `)" -ge 2 ] || { echo pending >&2; exit 1; }; ` + printGreeting + `cat`)
		c.RetryUntil = time.Now().Add(time.Minute)
		conn, err := c.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.Close()
		gone := newScriptCommand(`echo pending >&2; exit 1`)
		gone.RetryUntil = time.Now().Add(-time.Second)
		wantContains(t, wantDialError(t, gone), "pending")
	})
}
