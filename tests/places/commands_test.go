//go:build linux

package places

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

// name is a session's that only this way uses.
func (w *way) name() string { return "n" + strings.ToLower(w.mark[:8]) }

// closes ends the session of that name after the test.
func (w *way) closes(t *testing.T) {
	t.Cleanup(func() {
		c, err := client.Dial(context.Background(), direct(w.e.socket()))
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		if err := c.CloseSession(context.Background(), w.name()); err != nil {
			t.Error(err)
		}
	})
}

func TestCommands_WorkBehindAnEngineAsTheyDoHere(t *testing.T) {
	onEach(t, func(t *testing.T, e *engine) {
		w := e.way(t)
		w.closes(t)
		for _, test := range []struct {
			words  []string
			want   string
			status int
		}{
			{[]string{"exec", w.name(), "-e", "import os; x = 41; print('ä', os.environ['HOME'])"}, "ä " + e.home, 0},
			{[]string{"exec", w.name(), "-e", "x + 1"}, "42", 0},
			{[]string{"list"}, w.name(), 0},
			{[]string{"exec", w.name(), "-e", "raise SystemExit('no')"}, "", 1},
			{[]string{"events", w.name()}, "42", 0},
			{[]string{"ctl", "status"}, "process ", 0},
		} {
			out, errs, status := w.says(t, test.words[0], test.words[1:]...)
			if status != test.status || !strings.Contains(out, test.want) {
				t.Errorf("%q: status %d, output %q, errors %q, want %d, %q", test.words, status, out, errs, test.status, test.want)
			}
		}
	})
}

func TestEvents_FollowGoesOnOverACut(t *testing.T) {
	onEach(t, func(t *testing.T, e *engine) {
		w := e.way(t)
		s := w.open(t, w.link(t))
		cmd := w.repl(t, "events", s.Name(), "--follow")
		out, err := cmd.StdoutPipe()
		want(t, err)
		var errs bytes.Buffer
		cmd.Stderr = &errs
		want(t, cmd.Start())
		defer cmd.Wait()
		defer cmd.Process.Kill()
		lines := bufio.NewReader(out)
		sees := func(text string) {
			t.Helper()
			late := time.AfterFunc(deadline, func() { _ = cmd.Process.Kill() })
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
		want(t, run(t, s, "print('the first')"))
		sees("the first")
		if w.signal(syscall.SIGKILL) == 0 {
			t.Fatal("nothing was cut")
		}
		want(t, run(t, s, "print('the second')"))
		sees("the second")
		want(t, cmd.Process.Signal(os.Interrupt))
		late := time.AfterFunc(deadline, func() { _ = cmd.Process.Kill() })
		defer late.Stop()
		_ = cmd.Wait()
	})
}

func TestAttach_IsTypedIntoBehindAnEngine(t *testing.T) {
	onEach(t, func(t *testing.T, e *engine) {
		w := e.way(t)
		w.open(t, w.link(t))
		cmd := w.repl(t, "attach", "s"+strings.ToLower(w.mark[:8]))
		terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 100})
		want(t, err)
		shown := &screen{t: t, tty: terminal}
		shown.sees(">>> ")
		shown.types("6 * 7\r")
		shown.sees("42")
		shown.sees(">>> ")
		shown.types("input('how much? ')\r")
		shown.sees("how much? ")
		shown.types("much\r")
		shown.sees("'much'")
		shown.sees(">>> ")
		shown.types("\x04")
		go io.Copy(io.Discard, terminal) // a terminal that nobody reads holds up who writes
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("attach ends with %v", err)
			}
		case <-time.After(deadline):
			_ = cmd.Process.Kill()
			t.Errorf("attach does not end; it shows %q", shown.all)
		}
		_ = terminal.Close()
	})
}

// A screen is a terminal's other end.
type screen struct {
	t    *testing.T
	tty  *os.File
	all  []byte
	seen int
}

// sees reads until a text is shown behind what was seen last.
func (s *screen) sees(text string) {
	s.t.Helper()
	late := time.AfterFunc(deadline, func() { _ = s.tty.Close() })
	defer late.Stop()
	buf := make([]byte, 4096)
	for {
		if at := bytes.Index(s.all[s.seen:], []byte(text)); at >= 0 {
			s.seen += at + len(text)
			return
		}
		n, err := s.tty.Read(buf)
		s.all = append(s.all, buf[:n]...)
		if err != nil {
			s.t.Fatalf("%q is not shown behind %q, but %v", text, s.all[s.seen:], err)
		}
	}
}

func (s *screen) types(text string) {
	s.t.Helper()
	if _, err := s.tty.WriteString(text); err != nil {
		s.t.Fatal(err)
	}
}

// agent is a client of "repl mcp" behind an engine.
func (w *way) agent(t *testing.T) *mcp.ClientSession {
	t.Helper()
	cmd := w.repl(t, "mcp", "--sandbox", "full") // the test's files are none of the session's
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

// call runs code by an agent.
func call(t *testing.T, c *mcp.ClientSession, session, code string) string {
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

func TestMCP_ACallIsAnsweredOverACut(t *testing.T) {
	onEach(t, func(t *testing.T, e *engine) {
		w := e.way(t)
		w.closes(t)
		c := w.agent(t)
		if got := call(t, c, w.name(), "x = 41; x + 1"); !strings.Contains(got, "42") {
			t.Fatalf("got %q", got)
		}
		go func() {
			_ = until("the turn runs", func() bool { _, err := os.Stat(w.home + "/runs"); return err == nil })
			w.signal(syscall.SIGKILL)
			_ = os.WriteFile(w.home+"/cut", nil, 0o600)
		}()
		got := call(t, c, w.name(), fmt.Sprintf("import os, time\nprint('before')\nopen(%q, 'w').close()\nwhile not os.path.exists(%q): time.sleep(0.01)\nprint('after')", w.home+"/runs", w.home+"/cut"))
		if strings.HasPrefix(got, "error") || !strings.Contains(got, "before\nafter") {
			t.Errorf("got %q", got)
		}
	})
}
