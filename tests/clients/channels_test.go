//go:build linux

package clients

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// runOffline runs a command of a client in a network namespace from which nothing can be sent, and returns its
// output.
func runOffline(t *testing.T, p testHome, argv ...string) string {
	t.Helper()
	c := p.newCommand(append([]string{"/usr/bin/unshare", "--map-root-user", "--net"}, argv...),
		"PATH="+filepath.Dir(nodeCommand(t, "")[0])+":/usr/bin:/bin",
		"DISABLE_TELEMETRY=1", "DISABLE_AUTOUPDATER=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1")
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%q: %v\n%s", argv, err, out)
	}
	return string(out)
}

// TestPlugins runs the validators of the clients on the files of the tree. Its names are in release/.
func TestPlugins(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	plugin := filepath.Join(root, "plugins", "turnstone")
	claude := installedFile(t, "@anthropic-ai/claude-code-linux-*/claude")

	t.Run("Claude Code accepts the marketplace and the plugin, and installs it", func(t *testing.T) {
		p := newTestHome(t)
		for _, dir := range []string{root, plugin} {
			if out := runOffline(t, p, claude, "plugin", "validate", dir); !strings.Contains(out, "Validation passed") {
				t.Errorf("%s: %s", dir, out)
			}
		}
		runOffline(t, p, claude, "plugin", "marketplace", "add", root)
		runOffline(t, p, claude, "plugin", "install", "turnstone@turnstone")
		if out := runOffline(t, p, claude, "plugin", "details", "turnstone"); !strings.Contains(out, "Skills (1)") || !strings.Contains(out, "MCP servers (1)") {
			t.Errorf("%s", out)
		}
	})

	t.Run("Claude Code refuses a plugin without a name", func(t *testing.T) {
		p, dir := newTestHome(t), t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(plugin)); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, ".claude-plugin", "plugin.json"), []byte(`{"version": "0.1.0"}`), 0o644); err != nil {
			t.Fatal(err)
		}
		c := p.newCommand([]string{"/usr/bin/unshare", "--map-root-user", "--net", claude, "plugin", "validate", dir})
		if out, err := c.CombinedOutput(); err == nil {
			t.Errorf("%s", out)
		}
	})

	t.Run("Codex installs the plugin, and has its server", func(t *testing.T) {
		p := newTestHome(t)
		codex := installedFile(t, "@openai/codex-linux-*/vendor/*/bin/codex")
		runOffline(t, p, codex, "plugin", "marketplace", "add", root)
		runOffline(t, p, codex, "plugin", "add", "turnstone@turnstone")
		out := runOffline(t, p, codex, "mcp", "list")
		if row := strings.Join(strings.Fields(out), " "); !strings.Contains(row, "turnstone uvx turnstone-repl mcp - - enabled") {
			t.Errorf("%s", out)
		}
	})

	t.Run("Gemini CLI accepts the extension", func(t *testing.T) {
		gemini := nodeCommand(t, installedFile(t, "@google/gemini-cli/bundle/gemini.js"), "extensions", "validate", root)
		if out := runOffline(t, newTestHome(t), gemini...); !strings.Contains(out, "successfully validated") {
			t.Errorf("%s", out)
		}
	})

	t.Run("the skill is valid by its specification", func(t *testing.T) {
		program := filepath.Join(os.Getenv(clientsEnv), "python", "bin", "agentskills")
		if out := runOffline(t, newTestHome(t), program, "validate", filepath.Join(plugin, "skills", "turnstone")); !strings.Contains(out, "Valid skill") {
			t.Errorf("%s", out)
		}
	})
}
