package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/turnstone-repl/turnstone/internal/testkit/sandboxcheck"
	"github.com/turnstone-repl/turnstone/internal/text"
)

// withOutsideDirs moves the project of a home to where a sandbox shows the machine's files. It
// creates directories next to it, which the sandbox must not write. It returns their names for code
// and for users.
func (h *home) withOutsideDirs(t *testing.T, names ...string) (relative, absolute []string) {
	t.Helper()
	sandboxcheck.RequireNamespaces(t)
	base := sandboxcheck.TempDir(t)
	h.wantsSandbox = true
	h.dir = filepath.Join(base, "project")
	if err := os.Mkdir(h.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		dir := filepath.Join(base, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		relative, absolute = append(relative, "../"+name), append(absolute, dir)
	}
	return relative, absolute
}

func TestPermission(t *testing.T) {
	t.Parallel()

	t.Run("the user answers at the terminal", func(t *testing.T) {
		t.Parallel()
		h := newDaemonHome(t)
		there, dirs := h.withOutsideDirs(t, "yes", "always", "no")
		p := h.startAtPrompt(t, "--lang", "python", "--sandbox", "workspace")
		try := func(dir, answer, shown string) {
			t.Helper()
			p.enterLine(`open("` + dir + `/x", "w").write("done")`)
			p.waitText("Allow it to write ")
			p.waitText("y (in this session), a (always in this workspace) or n: ")
			p.typeKeys(answer)
			p.waitText(shown)
			p.waitText(">>> ")
		}
		p.typeKeys("1 +") // typed ahead; not an answer
		p.typeKeys("\x7f\x7f\x7f")
		try(there[0], "maybe\ry\r", "4")
		try(there[1], "a\r", "4")
		try(there[2], "n\r", "Read-only file system")
		p.enterLine(`open("` + there[2] + `/y", "w")`) // a refusal is remembered
		p.waitText("Read-only file system")
		p.waitText(">>> ")
		p.enterLine(`open("` + there[0] + `/y", "w").write("again")`) // so is a grant
		p.waitText("5")
		p.typeKeys(ctrlD)
		p.waitExit(0)
		for i, want := range []bool{true, true, false} {
			if fileExists(filepath.Join(dirs[i], "x")) != want {
				t.Errorf("%s: written %v, want %v", dirs[i], !want, want)
			}
		}
		for i, want := range []string{"EROFS", "went on", "EROFS"} { // only what was allowed always applies later
			got := h.runRepl(t, "", "--lang", "python", "--sandbox", "workspace", "-e", `
import errno
try: open("`+there[i]+`/z", "w"); print("went on")
except OSError as e: print(errno.errorcode[e.errno])`)
			if strings.TrimSpace(got.stdout) != want {
				t.Errorf("%s: a later session got %v, want %s", there[i], got, want)
			}
		}
	})

	// The client cannot ask its user, so the reply contains the command by which the user decides.
	t.Run("the user answers in another terminal", func(t *testing.T) {
		t.Parallel()
		h := newDaemonHome(t)
		there, dirs := h.withOutsideDirs(t, "asked", "given", "never $(touch ran) it's")
		h.startDaemon(t)
		a := h.newMCPClient(t, "--daemon", "--name", "bot")
		held := func(dir string) (reply string) {
			t.Helper()
			got := a.callRepl(`x = 41; open("` + dir + `/x", "w").write("done")`)
			if !strings.Contains(got, "waiting for a permission") || !strings.Contains(got, "only the user may allow it, not you; tell them to run this in a terminal: repl grant bot") {
				t.Fatalf("got %q", got)
			}
			return got
		}
		held(there[0])
		p := h.startTerminal(t, "grant", "bot")
		p.waitText("Allow it to write " + text.QuoteName(dirs[0]) + "?")
		p.waitText("or n: ")
		p.typeKeys("y\r")
		p.waitExit(0)
		if got := a.callTool("repl_output", map[string]any{"wait_ms": 30_000}); !strings.Contains(got, "4") || !fileExists(filepath.Join(dirs[0], "x")) {
			t.Errorf("after a yes: got %q", got)
		}
		p = h.startTerminal(t, "grant", "bot", "--write", dirs[1]) // no call has asked for it
		p.waitExit(0)
		if got := a.callRepl(`open("` + there[1] + `/x", "w").write("kept"), x + 1`); !strings.HasSuffix(got, "(4, 42)") {
			t.Errorf("after a grant: got %q", got)
		}
		_, command, _ := strings.Cut(held(there[2]), "in a terminal: ")
		command, _, _ = strings.Cut(command, " (or with --deny")
		pasted := exec.Command("sh", "-c", `repl() { printf '<%s>' "$@"; }; `+command)
		pasted.Dir = t.TempDir()
		if got, err := pasted.CombinedOutput(); err != nil || string(got) != "<grant><bot><--write><"+dirs[2]+">" || fileExists(filepath.Join(pasted.Dir, "ran")) {
			t.Errorf("a shell reads %s as %s, %v", command, got, err)
		}
		if got := h.runRepl(t, "y\n", "grant", "bot"); got.status != 2 || !strings.Contains(got.stderr, "needs a user at a terminal") {
			t.Errorf("a program answered: %v", got)
		}
		p = h.startTerminal(t, "grant", "bot", "--deny")
		p.waitExit(0)
		if got := a.callTool("repl_output", map[string]any{"wait_ms": 30_000}); !strings.Contains(got, "Read-only file system") || fileExists(filepath.Join(dirs[2], "x")) {
			t.Errorf("after a no: got %q", got)
		}
		got := h.runRepl(t, "", "sandbox", "bot").stdout
		for _, want := range []string{
			"granted: write " + text.QuoteName(dirs[0]), "granted: write " + text.QuoteName(dirs[1]),
			"refused: create " + text.QuoteName(dirs[2]+"/x"),
		} {
			if !strings.Contains(got, want+"\n") {
				t.Errorf("repl sandbox says %q, want %q in it", got, want)
			}
		}
	})

	// While a call waits, an interrupt ends it; when it waits again, it continues after a grant.
	// R's call is repeated by the kernel and then refused, and R may report that first.
	t.Run("an interrupt ends a call that waits for it", func(t *testing.T) {
		t.Parallel()
		for lang, code := range map[string]struct{ open, interrupted, or, after string }{
			"python": {`f = open("DIR/x", "w"); print(f.write("done"))`, "KeyboardInterrupt", "KeyboardInterrupt", "4"},
			"r":      {`f <- file("DIR/x", "w"); cat("done", file = f); close(f); cat("went on\n")`, "interrupted", "Read-only file system", "went on"},
		} {
			t.Run(lang, func(t *testing.T) {
				t.Parallel()
				if lang == "r" {
					newRHome(t) // or the test is skipped
				}
				h := newDaemonHome(t)
				there, dirs := h.withOutsideDirs(t, lang)
				h.startDaemon(t)
				a := startMCPClient(t, h.command(t, "mcp", "--daemon", "--name", "bot", "--lang", lang), func() {})
				hold := func() {
					t.Helper()
					got := a.callRepl(strings.ReplaceAll(code.open, "DIR", there[0]))
					for strings.Contains(got, "[running") {
						got = a.callTool("repl_output", map[string]any{"wait_ms": 1000})
					}
					if !strings.Contains(got, "waiting for a permission") {
						t.Fatalf("got %q", got)
					}
				}
				hold()
				if got := a.callTool("repl_interrupt", nil); !strings.Contains(got, code.interrupted) && !strings.Contains(got, code.or) || lang == "python" && strings.Contains(got, "Read-only file system") || strings.Contains(got, "waiting") || fileExists(filepath.Join(dirs[0], "x")) {
					t.Errorf("after an interrupt: got %q", got)
				}
				hold()
				h.startTerminal(t, "grant", "bot", "--write", dirs[0]).waitExit(0)
				if got := a.callTool("repl_output", map[string]any{"wait_ms": 30_000}); !strings.Contains(got, code.after) || !fileExists(filepath.Join(dirs[0], "x")) {
					t.Errorf("after a yes: got %q", got)
				}
			})
		}
	})

	// A client built with the SDK asks its user.
	t.Run("the user of an MCP client answers", func(t *testing.T) {
		t.Parallel()
		h := newDaemonHome(t)
		there, dirs := h.withOutsideDirs(t, "here", "always", "no", "declined")
		var questions []string
		answer := map[string]*mcp.ElicitResult{
			dirs[0]: {Action: "accept", Content: map[string]any{"answer": "allow in this session"}},
			dirs[1]: {Action: "accept", Content: map[string]any{"answer": "always allow in this workspace"}},
			dirs[2]: {Action: "accept", Content: map[string]any{"answer": "no"}},
			dirs[3]: {Action: "decline"},
		}
		client := mcp.NewClient(&mcp.Implementation{Name: "e2e", Version: "1"}, &mcp.ClientOptions{
			ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
				questions = append(questions, r.Params.Message)
				for dir, result := range answer {
					if strings.Contains(r.Params.Message, "Allow it to write "+text.QuoteName(dir)+"?") {
						return result, nil
					}
				}
				return nil, fmt.Errorf("an unknown question: %s", r.Params.Message)
			},
		})
		c, err := client.Connect(t.Context(), &mcp.CommandTransport{Command: h.command(t, "mcp", "--lang", "python")}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for i, want := range []string{"4", "4", "Read-only file system", "Read-only file system"} {
			result, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "repl", Arguments: map[string]any{"input": `open("` + there[i] + `/x", "w").write("done")`, "timeout_ms": 30_000}})
			if err != nil {
				t.Fatal(err)
			}
			got := result.Content[0].(*mcp.TextContent).Text
			if !strings.HasSuffix(got, want) && !strings.Contains(got, want+":") || fileExists(filepath.Join(dirs[i], "x")) != (i < 2) {
				t.Errorf("%s: got %q, want %q", dirs[i], got, want)
			}
		}
		if len(questions) != 4 {
			t.Errorf("the user was asked %q", questions)
		}
		later := h.runRepl(t, "", "--lang", "python", "--sandbox", "workspace", "-e", `open("`+there[1]+`/y", "w").write("x")`)
		if later.status != 0 || !fileExists(filepath.Join(dirs[1], "y")) {
			t.Errorf("a saved grant does not hold later: %v", later)
		}
	})
}
