//go:build unix

package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/replbin"
	"github.com/turnstone-repl/turnstone/internal/testkit/sandboxcheck"
)

func TestInstall(t *testing.T) {
	t.Parallel()

	t.Run("passes the packages to the server", func(t *testing.T) {
		t.Parallel()
		h := newHomeWithoutClients(t)
		got := h.runRepl(t, "", "install", "cursor", "--dry-run", "--lang", "python", "--with", "b>=1", "--with", "A")
		words := strings.Join(strings.Fields(strings.NewReplacer("+", "", "|", "", ",", "").Replace(got.stdout)), " ")
		if got.status != 0 || !strings.Contains(words, `"mcp" "--lang" "python" "--with" "a" "--with" "b>=1"`) {
			t.Errorf("got %v", got)
		}
		if got := h.runRepl(t, "", "install", "cursor", "--dry-run", "--with", "a"); got.status != 2 || !strings.Contains(got.stderr, "name the language of the packages with --lang") {
			t.Errorf("got %v", got)
		}
	})

	// An installed entry must work: the test starts it exactly as the client would.
	t.Run("the entry starts a server", func(t *testing.T) {
		t.Parallel()
		h := newHomeWithoutClients(t)
		bin := filepath.Join(h.dir, "bin")
		if err := os.Mkdir(bin, 0o755); err != nil {
			t.Fatal(err)
		}
		link := filepath.Join(bin, "repl")
		if err := os.Symlink(replbin.Path(), link); err != nil {
			t.Fatal(err)
		}
		h.env = append(h.env, "PATH="+bin+":"+os.Getenv("PATH"))
		got := h.runRepl(t, "", "install", "cursor", "--lang", "python", "--dir", "bin")
		if got.status != 0 || !strings.HasPrefix(got.stdout, "Cursor: added \"turnstone\" to ") || !strings.Contains(got.stdout, "was not found on this machine") {
			t.Fatalf("got %v", got)
		}
		text, err := os.ReadFile(filepath.Join(h.homeDir(), ".cursor", "mcp.json"))
		if err != nil {
			t.Fatal(err)
		}
		var config struct {
			MCPServers map[string]struct {
				Command string
				Args    []string
			}
		}
		if err := json.Unmarshal(text, &config); err != nil {
			t.Fatal(err)
		}
		entry := config.MCPServers["turnstone"]
		if entry.Command != link || strings.Join(entry.Args, " ") != "mcp --dir "+bin+" --lang python" {
			t.Errorf("got %+v, want the name on PATH and absolute paths", entry)
		}
		server := exec.CommandContext(t.Context(), entry.Command, entry.Args...)
		server.Env = h.env
		in, err := server.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := server.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := in.Write([]byte(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}` + "\n")); err != nil {
			t.Fatal(err)
		}
		readUntil(t, out, `"protocolVersion":"2025-06-18"`)
		if err := in.Close(); err != nil {
			t.Fatal(err)
		}
		if err := server.Wait(); err != nil {
			t.Errorf("the server ended badly: %v", err)
		}
		again := h.runRepl(t, "", "install", "cursor", "--lang", "python", "--dir", "bin")
		if sandboxcheck.WhyNoNamespaces() != "" { // the report has this line, too
			again.stdout, _, _ = strings.Cut(again.stdout, "NOTE: sessions will be refused here")
		}
		wantResult(t, again, result{"Cursor: \"turnstone\" is already in " + filepath.Join(h.homeDir(), ".cursor", "mcp.json") + "\n", "", 0})
	})

	t.Run("all configures the clients that are found", func(t *testing.T) {
		t.Parallel()
		h := newHomeWithoutClients(t)
		h.env = append(h.env, "PATH="+t.TempDir())
		none := h.runRepl(t, "", "install", "--all")
		if none.status != 1 || !strings.Contains(none.stderr, "found no client") || strings.Count(none.stdout, ": not on this machine (looked for ") != 13 {
			t.Errorf("got %v", none)
		}
		for dir, text := range map[string]string{".codex": "a = 1\n", ".gemini": "a = 1\n"} {
			if err := os.Mkdir(filepath.Join(h.homeDir(), dir), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(h.homeDir(), dir, "config.toml"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		dry := h.runRepl(t, "", "install", "--all", "--dry-run")
		if dry.status != 0 || !strings.Contains(dry.stdout, "Codex: would add") || !strings.Contains(dry.stdout, "Gemini CLI: would add") {
			t.Errorf("got %v", dry)
		}
		if got := h.runRepl(t, "", "install", "--all"); got.status != 0 || !strings.Contains(got.stdout, "backup: ") {
			t.Errorf("got %v", got)
		}
		if got := h.runRepl(t, "", "install", "--all", "--uninstall"); got.status != 0 || strings.Count(got.stdout, "removed \"turnstone\" from") != 2 {
			t.Errorf("got %v", got)
		}
		text, err := os.ReadFile(filepath.Join(h.homeDir(), ".codex", "config.toml"))
		if err != nil || string(text) != "a = 1\n" {
			t.Errorf("got %q, %v", text, err)
		}
		if err := os.WriteFile(filepath.Join(h.homeDir(), ".codex", "config.toml"), []byte("a b\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		bad := h.runRepl(t, "", "install", "--all")
		if bad.status != 1 || !strings.Contains(bad.stdout, "Codex: FAILED: ") || !strings.Contains(bad.stdout, "line 1, column 3") || !strings.Contains(bad.stdout, "Gemini CLI: added") {
			t.Errorf("a failure is reported and the others are installed: got %v", bad)
		}
	})

	// Uninstalling removes everything that installing created. Otherwise a later --all would
	// mistake the rest for a client.
	t.Run("an uninstalled client is not found again", func(t *testing.T) {
		t.Parallel()
		h := newHomeWithoutClients(t)
		h.env = append(h.env, "PATH="+t.TempDir())
		for _, args := range [][]string{{"install", "codex"}, {"install", "codex", "--uninstall"}} {
			if got := h.runRepl(t, "", args...); got.status != 0 {
				t.Fatalf("got %v", got)
			}
		}
		if got := h.runRepl(t, "", "install", "--all"); got.status != 1 || !strings.Contains(got.stdout, "Codex: not on this machine") {
			t.Errorf("got %v", got)
		}
	})

	t.Run("reports a path of this machine in the file of a project", func(t *testing.T) {
		t.Parallel()
		h := newHomeWithoutClients(t)
		if got := h.runRepl(t, "", "install", "cursor", "--scope", "project"); got.status != 0 || !strings.Contains(got.stdout, "this file is shared with other machines, which may not have /") {
			t.Errorf("got %v", got)
		}
		if got := h.runRepl(t, "", "install", "cursor"); got.status != 0 || strings.Contains(got.stdout, "other machines") {
			t.Errorf("got %v", got)
		}
	})

	// go run removes its binary when the command ends.
	t.Run("refuses a temporary binary", func(t *testing.T) {
		t.Parallel()
		h := newHomeWithoutClients(t)
		dir := filepath.Join(h.dir, "go-build1", "b001", "exe")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Link(replbin.Path(), filepath.Join(dir, "repl")); err != nil {
			t.Skipf("no link across these directories: %v", err)
		}
		cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "repl"), "install", "cursor")
		cmd.Env = h.env
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "go install ./cmd/repl") {
			t.Errorf("got %q, %v", out, err)
		}
	})
}
