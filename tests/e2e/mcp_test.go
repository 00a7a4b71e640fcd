//go:build unix

package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"

	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
)

// An agent is a client of one MCP server, with the protocol version that has no handshake.
type agent struct {
	t      *testing.T
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Scanner
	lastID int

	outCloser io.Closer // ends the reading of out
}

func newAgent(t *testing.T, h home, args ...string) *agent {
	t.Helper()
	return newAgentWithLog(t, h, os.Stderr, args...)
}

// newAgentWithLog is newAgent, with the server's standard error written to log.
func newAgentWithLog(t *testing.T, h home, log io.Writer, args ...string) *agent {
	t.Helper()
	cmd := h.mcpCommand(t, args...)
	cmd.Stderr = log
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return &agent{t: t, cmd: cmd, in: in, out: bufio.NewScanner(out), outCloser: out}
}

// sendInput calls repl and requests progress notifications.
func (a *agent) sendInput(input string) {
	a.t.Helper()
	text, err := json.Marshal(input)
	if err != nil {
		a.t.Fatal(err)
	}
	a.lastID++
	_, err = fmt.Fprintf(a.in, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"repl","arguments":{"input":%s},`+
		`"_meta":{"progressToken":"token","io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`+"\n", a.lastID, text)
	if err != nil {
		a.t.Fatal(err)
	}
}

// readLineWith reads the server's output up to the line that contains text.
func (a *agent) readLineWith(text string) string {
	a.t.Helper()
	for a.out.Scan() {
		if strings.Contains(a.out.Text(), text) {
			return a.out.Text()
		}
	}
	a.t.Fatalf("no %s: %v", text, a.out.Err())
	return ""
}

// callRepl returns the text of the reply to an input.
func (a *agent) callRepl(input string) string {
	a.t.Helper()
	a.sendInput(input)
	return a.readAnswer()
}

// readAnswer returns the text of the next reply.
func (a *agent) readAnswer() string {
	a.t.Helper()
	a.readLineWith(`"result"`)
	var answer struct {
		Result struct{ Content []struct{ Text string } }
	}
	if err := json.Unmarshal(a.out.Bytes(), &answer); err != nil || len(answer.Result.Content) == 0 {
		a.t.Fatalf("got %q, %v", a.out.Text(), err)
	}
	_, text := splitSandboxLine(answer.Result.Content[0].Text)
	return text
}

func TestMCP(t *testing.T) {
	t.Parallel()

	// However a client leaves in the middle of a call, nothing that the call has started is left,
	// and the call is answered if the answer can still be read.
	t.Run("leaves no process when its client leaves in a call", func(t *testing.T) {
		t.Parallel()
		for _, test := range []struct {
			name   string
			leave  func(*agent) error
			status int
		}{
			{"by the end of its input", func(a *agent) error { return a.in.Close() }, 0},
			{"by SIGINT", func(a *agent) error { return a.cmd.Process.Signal(syscall.SIGINT) }, 130},
			{"by SIGTERM", func(a *agent) error { return a.cmd.Process.Signal(syscall.SIGTERM) }, 143},
		} {
			t.Run(test.name, func(t *testing.T) {
				t.Parallel()
				h := newHome(t)
				a := newAgent(t, h, "--sandbox", "full") // a sandbox has its own process numbers
				a.sendInput(`import os, subprocess, time
child = subprocess.Popen(["sleep", "1000"])
with open("new", "w") as f: f.write(f"{os.getpid()} {child.pid}")
os.rename("new", "pids")
time.sleep(1000)`)
				var pids []int
				wait.Until(t, "the code prints its processes", func() bool {
					text, err := os.ReadFile(filepath.Join(h.dir, "pids"))
					for _, word := range strings.Fields(string(text)) {
						pid, _ := strconv.Atoi(word)
						pids = append(pids, pid)
					}
					return err == nil
				})
				if err := test.leave(a); err != nil {
					t.Fatal(err)
				}
				for _, pid := range pids {
					waitGone(t, pid)
				}
				a.readLineWith("[session ended: closed, state lost")
				for a.out.Scan() {
					t.Errorf("it wrote %q", a.out.Text())
				}
				_ = a.cmd.Wait()
				if got := exitStatusOf(t, a.cmd); got != test.status {
					t.Errorf("got status %d, want %d", got, test.status)
				}
				h.wantNothingLeft(t)
			})
		}
	})

	// A killed client closes both of its ends. The server then does not wait for the open calls.
	t.Run("ends when its output has no reader", func(t *testing.T) {
		t.Parallel()
		h := newHome(t)
		a := newAgent(t, h, "--sandbox", "full")
		a.callRepl("import os, time")
		a.sendInput(`with open("pid", "w") as f: _ = f.write(str(os.getpid()))
time.sleep(1000)`)
		var pid int
		wait.Until(t, "the code prints its process", func() bool {
			text, err := os.ReadFile(filepath.Join(h.dir, "pid"))
			pid, _ = strconv.Atoi(string(text))
			return err == nil && pid != 0
		})
		if err := a.outCloser.Close(); err != nil { // its input stays open
			t.Fatal(err)
		}
		waitGone(t, pid)
		_ = a.cmd.Wait()
		if got, want := exitStatusOf(t, a.cmd), 128+int(syscall.SIGPIPE); got != want {
			t.Errorf("got status %d, want %d", got, want)
		}
		h.wantNothingLeft(t)
	})

	// Some clients start servers without an environment. A shell finds programs then, too.
	t.Run("needs no environment", func(t *testing.T) {
		t.Parallel()
		h := newHome(t)
		python, err := exec.LookPath("python3")
		if err != nil {
			t.Fatal(err)
		}
		cmd := h.command(t, "mcp", "--lang", "python", "--python", python, "--sandbox", "full")
		cmd.Env = []string{"TMPDIR=" + h.tmp}
		cmd.Stdin = strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"repl","arguments":{"input":"import os; os.environ['PATH']"},` +
			`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}` + "\n")
		if out, err := cmd.Output(); err != nil || !strings.Contains(string(out), "/usr/bin:/bin") {
			t.Errorf("got %s, %v", out, err)
		}
	})

	t.Run("explains itself to a user at the terminal", func(t *testing.T) {
		t.Parallel()
		tty, err := pty.Start(newHome(t).command(t, "mcp", "--lang", "python"))
		if err != nil {
			t.Fatal(err)
		}
		defer tty.Close()
		readUntil(t, tty, "repl install")
	})

	t.Run("hides the secrets of its client from the code", func(t *testing.T) {
		t.Parallel()
		h := newHome(t)
		h.env = append(h.env, "CLAUDE_CODE_MESSAGING_TOKEN=a", "CLAUDE_CODE_OAUTH_TOKEN=b", "GEMINI_CLI_IDE_AUTH_TOKEN=c",
			"CODEX_ACCESS_TOKEN=d", "OPENCODE_SERVER_PASSWORD=e", "OPENAI_API_KEY=mine")
		a := newAgent(t, h, "--sandbox", "full") // a sandbox hides the user's own key as well
		got := a.callRepl(`import os; sorted(v for k, v in os.environ.items() if v in ("a", "b", "c", "d", "e", "mine"))`)
		if got != "['mine']" {
			t.Errorf("got %s, want the user's own key only", got)
		}
		_ = a.in.Close()
		_ = a.cmd.Wait()
	})

	// An error between calls belongs to no reply. It goes to standard error, which clients keep.
	t.Run("reports errors on standard error", func(t *testing.T) {
		t.Parallel()
		h := newHome(t)
		var log strings.Builder
		a := newAgentWithLog(t, h, &log)
		fmt.Fprintln(a.in, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"repl","arguments":{"input":"1","session":"no name"},`+
			`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`)
		a.readLineWith("is not a session name")
		_ = a.in.Close()
		_ = a.cmd.Wait()
		if !strings.Contains(log.String(), "session open failed") {
			t.Errorf("got %q on standard error", log.String())
		}
	})

	t.Run("works in the project directory of its client", func(t *testing.T) {
		t.Parallel()
		h := newHome(t)
		project, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		for _, test := range []struct {
			dir, want string
			args      []string
		}{
			{project, project, nil},
			{"/does/not/exist", h.dir, nil},
			{project, h.tmp, []string{"--dir", h.tmp}},
		} {
			h := h
			h.env = append(h.env, "CLAUDE_PROJECT_DIR="+test.dir)
			a := newAgent(t, h, test.args...)
			want, err := filepath.EvalSymlinks(test.want)
			if err != nil {
				t.Fatal(err)
			}
			if got := a.callRepl(`import os; print(os.getcwd())`); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			_ = a.in.Close()
			_ = a.cmd.Wait()
		}
	})

	t.Run("refuses wrong options", func(t *testing.T) {
		t.Parallel()
		h := newHome(t)
		for flag, word := range map[string]string{"--stdin=nobody": "auto model ask deny", "--max-image-size=5": "at least 64 pixels"} {
			if got := h.runRepl(t, "", "mcp", flag); got.status != 2 || !strings.Contains(got.stderr, word) {
				t.Errorf("%s: got %v", flag, got)
			}
		}
	})
}
