//go:build linux

package remote

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/turnstone-repl/turnstone/client"
)

// sessionName is a session name that only this remote uses.
func (r *testRemote) sessionName() string { return "n" + strings.ToLower(r.mark[:8]) }

// closeAfter closes the session of that name after the test.
func (r *testRemote) closeAfter(t *testing.T) {
	t.Cleanup(func() {
		c, err := client.Dial(context.Background(), directDialer(r.engine.socketPath()))
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		if err := c.CloseSession(context.Background(), r.sessionName()); err != nil {
			t.Error(err)
		}
	})
}

func TestCommands(t *testing.T) {
	t.Run("work on a remote as they do locally", func(t *testing.T) {
		onEachEngine(t, func(t *testing.T, e *testEngine) {
			w := e.newRemote(t)
			w.closeAfter(t)
			for _, test := range []struct {
				words  []string
				want   string
				status int
			}{
				{[]string{"exec", w.sessionName(), "-e", "import os; x = 41; print('ä', os.environ['HOME'])"}, "ä " + e.home, 0},
				{[]string{"exec", w.sessionName(), "-e", "x + 1"}, "42", 0},
				{[]string{"list"}, w.sessionName(), 0},
				{[]string{"exec", w.sessionName(), "-e", "raise SystemExit('no')"}, "", 1},
				{[]string{"events", w.sessionName()}, "42", 0},
				{[]string{"daemon", "status"}, "process ", 0},
			} {
				out, errs, status := w.runRepl(t, test.words[0], test.words[1:]...)
				if status != test.status || !strings.Contains(out, test.want) {
					t.Errorf("%q: status %d, output %q, errors %q, want %d, %q", test.words, status, out, errs, test.status, test.want)
				}
			}
		})
	})

	t.Run("keep following events after a lost connection", func(t *testing.T) {
		onEachEngine(t, func(t *testing.T, e *testEngine) {
			w := e.newRemote(t)
			s := w.openSession(t, w.newLink(t))
			cmd := w.replCommand(t, "events", s.Name(), "--follow")
			out, err := cmd.StdoutPipe()
			wantNoError(t, err)
			var errs bytes.Buffer
			cmd.Stderr = &errs
			wantNoError(t, cmd.Start())
			defer cmd.Wait()
			defer cmd.Process.Kill()
			lines := bufio.NewReader(out)
			sees := func(text string) {
				t.Helper()
				late := time.AfterFunc(testTimeout, func() { _ = cmd.Process.Kill() })
				defer late.Stop()
				for {
					line, err := lines.ReadString('\n')
					if err != nil {
						t.Fatalf("no %q, but %v, and said: %s", text, err, errs.String())
					}
					if strings.Contains(line, text) {
						return
					}
				}
			}
			wantNoError(t, runCode(t, s, "print('the first')"))
			sees("the first")
			if w.signalPrefixes(syscall.SIGKILL) == 0 {
				t.Fatal("no connection was cut")
			}
			wantNoError(t, runCode(t, s, "print('the second')"))
			sees("the second")
			wantNoError(t, cmd.Process.Signal(os.Interrupt))
			late := time.AfterFunc(testTimeout, func() { _ = cmd.Process.Kill() })
			defer late.Stop()
			_ = cmd.Wait()
		})
	})

	t.Run("attach to a session on a remote", func(t *testing.T) {
		onEachEngine(t, func(t *testing.T, e *testEngine) {
			w := e.newRemote(t)
			w.openSession(t, w.newLink(t))
			cmd := w.replCommand(t, "attach", "s"+strings.ToLower(w.mark[:8]))
			terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 100})
			wantNoError(t, err)
			shown := &terminalScreen{t: t, tty: terminal}
			shown.wantText(">>> ")
			shown.typeText("6 * 7\r")
			shown.wantText("42")
			shown.wantText(">>> ")
			shown.typeText("input('how much? ')\r")
			shown.wantText("how much? ")
			shown.typeText("much\r")
			shown.wantText("'much'")
			shown.wantText(">>> ")
			shown.typeText("\x04")
			go io.Copy(io.Discard, terminal) // an unread terminal blocks its writer
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			select {
			case err := <-ended:
				if err != nil {
					t.Errorf("attach failed: %v", err)
				}
			case <-time.After(testTimeout):
				_ = cmd.Process.Kill()
				t.Errorf("attach does not exit; it shows %q", shown.all)
			}
			_ = terminal.Close()
		})
	})

	t.Run("answer an MCP call after a lost connection", func(t *testing.T) {
		onEachEngine(t, func(t *testing.T, e *testEngine) {
			w := e.newRemote(t)
			w.closeAfter(t)
			c := w.newAgent(t)
			if got := callTool(t, c, w.sessionName(), "x = 41; x + 1"); !strings.Contains(got, "42") {
				t.Fatalf("got %q", got)
			}
			go func() {
				_ = waitUntil("the turn runs", func() bool { _, err := os.Stat(w.home + "/runs"); return err == nil })
				w.signalPrefixes(syscall.SIGKILL)
				_ = os.WriteFile(w.home+"/cut", nil, 0o600)
			}()
			got := callTool(t, c, w.sessionName(), fmt.Sprintf("import os, time\nprint('before')\nopen(%q, 'w').close()\nwhile not os.path.exists(%q): time.sleep(0.01)\nprint('after')", w.home+"/runs", w.home+"/cut"))
			if strings.HasPrefix(got, "error") || !strings.Contains(got, "before\nafter") {
				t.Errorf("got %q", got)
			}
		})
	})
}

// A terminalScreen is the other end of a terminal, with the text shown so far.
type terminalScreen struct {
	t         *testing.T
	tty       *os.File
	all       []byte
	seenBytes int
}

// wantText reads until the terminal shows text after the last match.
func (s *terminalScreen) wantText(text string) {
	s.t.Helper()
	late := time.AfterFunc(testTimeout, func() { _ = s.tty.Close() })
	defer late.Stop()
	buf := make([]byte, 4096)
	for {
		if at := bytes.Index(s.all[s.seenBytes:], []byte(text)); at >= 0 {
			s.seenBytes += at + len(text)
			return
		}
		n, err := s.tty.Read(buf)
		s.all = append(s.all, buf[:n]...)
		if err != nil {
			s.t.Fatalf("%q is not shown after %q: %v", text, s.all[s.seenBytes:], err)
		}
	}
}

func (s *terminalScreen) typeText(text string) {
	s.t.Helper()
	if _, err := s.tty.WriteString(text); err != nil {
		s.t.Fatal(err)
	}
}

// newAgent returns a client of "repl mcp" on an engine.
func (r *testRemote) newAgent(t *testing.T) *mcp.ClientSession {
	t.Helper()
	cmd := r.replCommand(t, "mcp", "--sandbox", "full") // a sandbox would hide the test's files
	var errs bytes.Buffer
	cmd.Stderr = &errs
	client := mcp.NewClient(&mcp.Implementation{Name: "places", Version: "1"}, nil)
	c, err := client.Connect(t.Context(), &mcp.CommandTransport{Command: cmd}, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, errs.String())
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// callTool runs code on behalf of an agent.
func callTool(t *testing.T, c *mcp.ClientSession, session, code string) string {
	t.Helper()
	result, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "repl", Arguments: map[string]any{"input": code, "session": session, "lang": "python"}})
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, content := range result.Content {
		if text, ok := content.(*mcp.TextContent); ok {
			all.WriteString(text.Text)
		}
	}
	if result.IsError {
		return "error: " + all.String()
	}
	return all.String()
}
