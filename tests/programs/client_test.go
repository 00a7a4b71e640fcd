//go:build linux

package programs

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/internal/testkit/replbin"
	"github.com/turnstone-repl/turnstone/internal/testkit/sandboxcheck"
)

// maxShownArguments and maxShownReply bound the texts of one call in a transcript, in bytes.
const maxShownArguments, maxShownReply = 1000, 3000

// A user is the client of one server, which has one session.
type user struct {
	t         *testing.T
	lang, dir string

	in     io.WriteCloser
	out    *bufio.Scanner
	lastID int
	calls  []string // the calls of repl, with their replies
	polls  []string // the calls of other tools after the last one of repl
}

// newUser starts a server with sessions in one language. Python is that of the installed packages.
// The model may answer secrets: no person is there.
func newUser(t *testing.T, lang string) *user {
	t.Helper()
	installed := programsDir(t)
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	u := &user{t: t, lang: lang, dir: t.TempDir()}
	args := []string{"mcp", "--stdin", "model", "--lang", "python", "--python", filepath.Join(installed, "python"), "--allow-read", installed}
	if lang == "r" {
		if _, err := exec.LookPath("R"); err != nil {
			t.Skip("R is not installed")
		}
		args = []string{"mcp", "--stdin", "model", "--lang", "r"}
	}
	if sandboxcheck.WhyNoNamespaces() != "" || sandboxcheck.WhyNoLayers(home) != "" {
		args = append(args, "--sandbox", "full")
	}
	cmd := exec.CommandContext(t.Context(), replbin.Path(), args...)
	cmd.Dir, cmd.Stderr = u.dir, os.Stderr
	cmd.Env = append(os.Environ(),
		"TURNSTONE_SOCKET=", "TURNSTONE_VIA=", "TURNSTONE_REMOTE=", "XDG_RUNTIME_DIR="+t.TempDir(), "TMPDIR="+t.TempDir(),
		"XDG_CONFIG_HOME="+t.TempDir(), "XDG_STATE_HOME="+t.TempDir(), "XDG_CACHE_HOME="+t.TempDir(),
		"VIRTUAL_ENV=", "CONDA_PREFIX=", "PYTHONSTARTUP=", "PYTHONPATH=",
		"CI=") // in CI, the spinner of @clack/prompts draws nothing
	if u.in, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = u.in.Close()
		_ = cmd.Wait()
	})
	u.out = bufio.NewScanner(out)
	u.out.Buffer(nil, 1<<22)
	return u
}

// call calls a tool, and returns the text of its reply or its error.
func (u *user) call(tool string, arguments map[string]any) string {
	u.t.Helper()
	text, err := json.Marshal(arguments)
	if err != nil {
		u.t.Fatal(err)
	}
	return u.callWith(tool, string(text))
}

// callWith is call with arguments that are already JSON, or are meant to be broken.
func (u *user) callWith(tool, arguments string) string {
	u.t.Helper()
	u.lastID++
	_, err := fmt.Fprintf(u.in, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s,`+
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`+"\n", u.lastID, tool, arguments)
	if err != nil {
		u.t.Fatalf("%v\n%s", err, u.transcript())
	}
	reply := u.readReply()
	record := fmt.Sprintf("%s %s\n%s", tool, shortenMiddle(arguments, maxShownArguments), shortenMiddle(reply, maxShownReply))
	if tool == "repl" {
		u.calls, u.polls = append(u.calls, record), nil
	} else {
		u.polls = append(u.polls, record)
	}
	return reply
}

// readReply reads up to the next reply.
func (u *user) readReply() string {
	u.t.Helper()
	for u.out.Scan() {
		var m struct {
			ID     any
			Result *struct{ Content []struct{ Text string } }
			Error  json.RawMessage
		}
		if err := json.Unmarshal(u.out.Bytes(), &m); err != nil {
			u.t.Fatalf("got %q, %v", u.out.Text(), err)
		}
		if m.Error != nil {
			return "error: " + string(m.Error)
		}
		if m.Result != nil {
			var texts []string
			for _, c := range m.Result.Content {
				texts = append(texts, c.Text)
			}
			return strings.Join(texts, "\n")
		}
	}
	u.t.Fatalf("the server has ended: %v\n%s", u.out.Err(), u.transcript())
	return ""
}

// repl calls the tool repl with one argument, input or keys.
func (u *user) repl(timeout time.Duration, argument, text string) string {
	u.t.Helper()
	return u.call("repl", map[string]any{argument: text, "timeout_ms": timeout.Milliseconds()})
}

// output waits for new output.
func (u *user) output(most time.Duration) string {
	u.t.Helper()
	return u.call("repl_output", map[string]any{"wait_ms": most.Milliseconds()})
}

func (u *user) screen() string {
	u.t.Helper()
	return u.call("repl_output", map[string]any{"screen": true})
}

// transcript returns the calls without the settings of prepare, and of other tools the last two.
func (u *user) transcript() string {
	const mostPolls = 2
	calls := u.calls[min(1, len(u.calls)):]
	return strings.Join(append(calls, u.polls[max(0, len(u.polls)-mostPolls):]...), "\n---\n")
}

func shortenMiddle(text string, most int) string {
	if len(text) > most {
		return text[:most/2] + "\n[...]\n" + text[len(text)-most/2:]
	}
	return text
}
