package install

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/paths"
	"github.com/turnstone-repl/turnstone/internal/testkit/testexec"
	"github.com/turnstone-repl/turnstone/internal/testkit/testmain"
)

// newTestHome returns a home directory without clients and a PATH without commands.
func newTestHome(t *testing.T) ConfigDirs {
	t.Helper()
	home := t.TempDir()
	t.Setenv("PATH", filepath.Join(home, "bin"))
	return ConfigDirs{
		Home: home, Config: filepath.Join(home, ".config"), XDG: filepath.Join(home, ".config"),
		Project: filepath.Join(home, "project"), Getenv: func(string) string { return "" },
	}
}

var testServer = ServerSpec{Name: "turnstone", Command: "/opt/bin/repl", Args: []string{"mcp", "--lang", "python"}}

func findClient(t *testing.T, name string) ClientConfig {
	t.Helper()
	c, ok := FindClient(name)
	if !ok {
		t.Fatalf("no client %s", name)
	}
	return c
}

func writeTestFile(t *testing.T, path, text string, mode fs.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func readTestFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func wantOutcome(t *testing.T, want InstallOutcome, apply func(context.Context, ConfigDirs, ServerSpec, Options) (Report, error), p ConfigDirs, s ServerSpec) Report {
	t.Helper()
	r, err := apply(t.Context(), p, s, Options{})
	if err != nil || r.Outcome != want {
		t.Fatalf("got %q and error %v, want %q", r.Outcome, err, want)
	}
	return r
}

func TestInstall(t *testing.T) {
	t.Run("the README names each client", func(t *testing.T) {
		readme := readTestFile(t, filepath.Join("..", "..", "..", "README.md"))
		for _, c := range Clients() {
			if !strings.Contains(readme, "`"+c.Name+"`") && !strings.Contains(readme, "repl install "+c.Name+"\n") {
				t.Errorf("README.md does not name %s", c.Name)
			}
		}
	})

	// The files are those that each client's documentation shows.
	t.Run("writes the file that each client reads", func(t *testing.T) {
		for name, want := range map[string]string{
			"claude":         `{"mcpServers":{"turnstone":{"type":"stdio","command":"/opt/bin/repl","args":["mcp","--lang","python"],"alwaysLoad":true}}}`,
			"gemini":         `{"mcpServers":{"turnstone":{"command":"/opt/bin/repl","args":["mcp","--lang","python"],"timeout":630000}}}`,
			"qwen":           `{"mcpServers":{"turnstone":{"command":"/opt/bin/repl","args":["mcp","--lang","python"],"timeout":630000}}}`,
			"copilot":        `{"mcpServers":{"turnstone":{"type":"local","command":"/opt/bin/repl","args":["mcp","--lang","python"],"tools":["*"]}}}`,
			"cline":          `{"mcpServers":{"turnstone":{"command":"/opt/bin/repl","args":["mcp","--lang","python"],"timeout":630}}}`,
			"continue":       `{"mcpServers":{"turnstone":{"command":"/opt/bin/repl","args":["mcp","--lang","python"]}}}`,
			"cursor":         `{"mcpServers":{"turnstone":{"type":"stdio","command":"/opt/bin/repl","args":["mcp","--lang","python"]}}}`,
			"vscode":         `{"servers":{"turnstone":{"type":"stdio","command":"/opt/bin/repl","args":["mcp","--lang","python"]}}}`,
			"zed":            `{"context_servers":{"turnstone":{"command":"/opt/bin/repl","args":["mcp","--lang","python"]}}}`,
			"windsurf":       `{"mcpServers":{"turnstone":{"command":"/opt/bin/repl","args":["mcp","--lang","python"]}}}`,
			"opencode":       `{"mcp":{"turnstone":{"type":"local","command":["/opt/bin/repl","mcp","--lang","python"]}}}`,
			"claude-desktop": `{"mcpServers":{"turnstone":{"command":"/opt/bin/repl","args":["mcp","--lang","python"]}}}`,
			"codex":          `[mcp_servers.turnstone]command="/opt/bin/repl"args=["mcp","--lang","python"]env_vars=["VIRTUAL_ENV","CONDA_PREFIX",`,
		} {
			t.Run(name, func(t *testing.T) {
				p, c := newTestHome(t), findClient(t, name)
				r := wantOutcome(t, Added, c.Install, p, testServer)
				got := strings.NewReplacer(" ", "", "\n", "").Replace(readTestFile(t, r.File))
				if got != want && !(name == "codex" && strings.HasPrefix(got, want) && strings.HasSuffix(got, "tool_timeout_sec=630")) {
					t.Errorf("got %s\nwant %s", got, want)
				}
				wantOutcome(t, Unchanged, c.Install, p, testServer)
				wantOutcome(t, Removed, c.Uninstall, p, testServer)
				if paths.Exists(r.File) {
					t.Errorf("%s was left, although it had only our entry", r.File)
				}
				if by, _ := c.FindInstalled(p); by != "" {
					t.Errorf("%s was left, so the client looks installed", by)
				}
				wantOutcome(t, NotConfigured, c.Uninstall, p, testServer)
			})
		}
	})

	t.Run("keeps a directory that holds other files", func(t *testing.T) {
		p, c := newTestHome(t), findClient(t, "cline")
		mine := filepath.Join(p.Home, ".cline", "rules")
		writeTestFile(t, mine, "mine", 0o600)
		wantOutcome(t, Added, c.Install, p, testServer)
		wantOutcome(t, Removed, c.Uninstall, p, testServer)
		if !paths.Exists(mine) || paths.Exists(filepath.Join(p.Home, ".cline", "data")) {
			t.Error("our directory was left, or the user's was removed")
		}
	})

	t.Run("changes nothing in a dry run", func(t *testing.T) {
		p, c := newTestHome(t), findClient(t, "cursor")
		r, err := c.Install(t.Context(), p, testServer, Options{DryRun: true})
		if err != nil || r.Outcome != Added || !strings.Contains(r.Diff, `+     "turnstone": {`) {
			t.Errorf("got %+v, %v", r, err)
		}
		if left, _ := os.ReadDir(p.Home); len(left) > 0 {
			t.Errorf("the dry run created %v", left)
		}
	})

	// The diff must not show the secrets of other servers.
	t.Run("shows only the lines that change", func(t *testing.T) {
		p, c := newTestHome(t), findClient(t, "cursor")
		writeTestFile(t, c.file(p), "{\n  \"mcpServers\": {\n    \"a\": {\n      \"env\": {\"TOKEN\": \"secret\"}\n    }\n  }\n}\n", 0o600)
		r := wantOutcome(t, Added, c.Install, p, testServer)
		if strings.Contains(r.Diff, "secret") || !strings.HasPrefix(r.Diff, "@@ line 5\n+     },\n+     \"turnstone\": {\n") {
			t.Errorf("got\n%s", r.Diff)
		}
	})

	t.Run("writes project files below the project", func(t *testing.T) {
		p := newTestHome(t)
		for _, c := range Clients() {
			r, err := c.Install(t.Context(), p, testServer, Options{Project: true})
			if !c.HasProject() {
				if err == nil {
					t.Errorf("%s has no project file", c.Name)
				}
				continue
			}
			if err != nil || !strings.HasPrefix(r.File, p.Project+string(filepath.Separator)) {
				t.Errorf("%s: %q, %v", c.Name, r.File, err)
			}
		}
	})
}

func TestInstallEnv(t *testing.T) {
	t.Run("passes on the named variables", func(t *testing.T) {
		s := testServer
		s.Env = []string{"API_KEY", "REGION"}
		for name, want := range map[string]string{
			"gemini": `"env":{"API_KEY":"$API_KEY","REGION":"$REGION"}`,
			"cursor": `"env":{"API_KEY":"${env:API_KEY}","REGION":"${env:REGION}"}`,
			"codex":  `"TMPDIR","API_KEY","REGION"]`,
		} {
			t.Run(name, func(t *testing.T) {
				p, c := newTestHome(t), findClient(t, name)
				r := wantOutcome(t, Added, c.Install, p, s)
				if got := strings.NewReplacer(" ", "", "\n", "").Replace(readTestFile(t, r.File)); !strings.Contains(got, want) {
					t.Errorf("got %s\nwant %s", got, want)
				}
				wantOutcome(t, Unchanged, c.Install, p, s)
				wantOutcome(t, Unchanged, c.Install, p, testServer) // testServer names no variables, so the existing ones stay
				wantOutcome(t, Removed, c.Uninstall, p, testServer)
				if paths.Exists(r.File) {
					t.Errorf("%s was left:\n%s", r.File, readTestFile(t, r.File))
				}
			})
		}
	})

	// Entries made by the user stay.
	t.Run("adds a variable to the existing ones", func(t *testing.T) {
		p, c := newTestHome(t), findClient(t, "cursor")
		writeTestFile(t, c.file(p), `{"mcpServers": {"turnstone": {"type": "stdio", "command": "/opt/bin/repl", "args": ["mcp", "--lang", "python"], "env": {"MINE": "1"}}}}`, 0o600)
		s := testServer
		s.Env = []string{"API_KEY"}
		r := wantOutcome(t, Updated, c.Install, p, s)
		if got := readTestFile(t, r.File); !strings.Contains(got, `"MINE": "1"`) || !strings.Contains(got, `"API_KEY": "${env:API_KEY}"`) {
			t.Errorf("got %s", got)
		}
	})
}

func TestInstallPreserves(t *testing.T) {
	t.Run("keeps comments and layout of JSON", func(t *testing.T) {
		tests := []struct{ name, before, after string }{
			{
				"comments, order and indentation",
				"// mine\n{\n\t\"zoom\": 1, // c\n\t\"mcpServers\": {\n\t\t\"b\": {\"url\": \"x\"} // keep\n\t},\n\t\"a\": [1,  2]\n}\n",
				"// mine\n{\n\t\"zoom\": 1, // c\n\t\"mcpServers\": {\n\t\t\"b\": {\"url\": \"x\"}, // keep\n\t\t\"turnstone\": {\n\t\t\t\"command\": \"/opt/bin/repl\",\n" +
					"\t\t\t\"args\": [\n\t\t\t\t\"mcp\",\n\t\t\t\t\"--lang\",\n\t\t\t\t\"python\"\n\t\t\t]\n\t\t}\n\t},\n\t\"a\": [1,  2]\n}\n",
			},
			{
				"a single line stays a single line",
				`{"a":1}`,
				`{"a":1, "mcpServers": {"turnstone": {"command": "/opt/bin/repl", "args": ["mcp", "--lang", "python"]}}}`,
			},
			{
				"a trailing comma, CRLF and a byte order mark",
				"\xef\xbb\xbf{\r\n    \"mcpServers\": {\r\n    },\r\n}",
				"\xef\xbb\xbf{\r\n    \"mcpServers\": {\r\n        \"turnstone\": {\r\n            \"command\": \"/opt/bin/repl\",\r\n            \"args\": [\r\n" +
					"                \"mcp\",\r\n                \"--lang\",\r\n                \"python\"\r\n            ]\r\n        }\r\n    },\r\n}",
			},
			{
				"a comment at the end of one line of members",
				"{\"a\": 1 // one\n}",
				"{\"a\": 1, // one\n  \"mcpServers\": {\"turnstone\": {\"command\": \"/opt/bin/repl\", \"args\": [\"mcp\", \"--lang\", \"python\"]}}\n}",
			},
			{
				"an escaped key is the same key",
				"{\"mcp\\u0053ervers\": {}}",
				`{"mcp\u0053ervers": {"turnstone": {"command": "/opt/bin/repl", "args": ["mcp", "--lang", "python"]}}}`,
			},
			{"white space alone", " \n", "{\n  \"mcpServers\": {\n    \"turnstone\": {\n      \"command\": \"/opt/bin/repl\",\n      \"args\": [\n        \"mcp\",\n        \"--lang\",\n        \"python\"\n      ]\n    }\n  }\n}\n"},
		}
		for _, test := range tests {
			t.Run(test.name, func(t *testing.T) {
				p, c := newTestHome(t), findClient(t, "windsurf")
				file := c.file(p)
				writeTestFile(t, file, test.before, 0o640)
				before, err := os.Stat(file)
				if err != nil {
					t.Fatal(err)
				}
				r := wantOutcome(t, Added, c.Install, p, testServer)
				if got := readTestFile(t, file); got != test.after {
					t.Fatalf("got\n%q\nwant\n%q", got, test.after)
				}
				if info, err := os.Stat(file); err != nil || info.Mode() != before.Mode() {
					t.Errorf("got mode %v (%v), want %v", info.Mode(), err, before.Mode())
				}
				if got := readTestFile(t, r.Backup); got != test.before {
					t.Errorf("got backup %q", got)
				}
				wantOutcome(t, Unchanged, c.Install, p, testServer)
				moved := testServer
				moved.Command = "/usr/local/bin/repl"
				wantOutcome(t, Updated, c.Install, p, moved)
				wantOutcome(t, Removed, c.Uninstall, p, moved)
				if got := readTestFile(t, file); got != test.before {
					t.Errorf("after uninstall it is %q, want %q", got, test.before)
				}
				if paths.Exists(backupPath(file)) {
					t.Error("the backup was left, although it equals the file")
				}
			})
		}
	})

	t.Run("keeps comments and layout of TOML", func(t *testing.T) {
		for name, before := range map[string]string{
			"comments":           "# mine\nmodel = \"x\"   # why\n\n[mcp_servers.other] # o\ncommand = \"y\"\nargs = [ # list\n  \"a\",\n]\n\n# the end\n",
			"no end of line":     "model = 'x'",
			"CRLF and a mark":    "\xef\xbb\xbfmodel = 'x'\r\n[tui]\r\na = 1\r\n",
			"our name in text":   "x = \"\"\"\n[mcp_servers.turnstone]\ncommand = 'no'\n\"\"\"\n",
			"dotted keys":        "mcp_servers.other.command = 'y'\n",
			"blank lines at end": "a = 1\n\n\n",
			"an empty table":     "[mcp_servers]\n",
			"empty":              "",
		} {
			t.Run(name, func(t *testing.T) {
				p, c := newTestHome(t), findClient(t, "codex")
				file := c.file(p)
				writeTestFile(t, file, before, 0o600)
				wantOutcome(t, Added, c.Install, p, testServer)
				added := readTestFile(t, file)
				if !strings.HasPrefix(added, before) {
					t.Errorf("the existing text has changed:\n%s", added)
				}
				if strings.Count(added, "\r\n") > 0 && strings.Count(added, "\n") != strings.Count(added, "\r\n") {
					t.Errorf("got mixed line ends: %q", added)
				}
				wantOutcome(t, Unchanged, c.Install, p, testServer)
				approving := testServer
				approving.AutoApprove, approving.Args = true, []string{"mcp", "--dir", `C:\x "y" ` + "\x7f\n"}
				wantOutcome(t, Updated, c.Install, p, approving)
				if got := readTestFile(t, file); !strings.Contains(got, `default_tools_approval_mode = "approve"`) {
					t.Errorf("got an approval setting:\n%s", got)
				}
				wantOutcome(t, Unchanged, c.Install, p, defaultedServer(approving))
				wantOutcome(t, Removed, c.Uninstall, p, testServer)
				if got := readTestFile(t, file); got != before {
					t.Errorf("after uninstall it is %q, want %q", got, before)
				}
			})
		}
	})

	t.Run("keeps the user's settings of an entry", func(t *testing.T) {
		p, c := newTestHome(t), findClient(t, "codex")
		file := c.file(p)
		wantOutcome(t, Added, c.Install, p, testServer)
		mine := strings.Replace(readTestFile(t, file), "tool_timeout_sec = 630", "tool_timeout_sec = 90 # mine\nstartup_timeout_sec = 5", 1) + "\n[mcp_servers.turnstone.env]\nA = \"1\"\n\n[tui]\nb = 1\n"
		writeTestFile(t, file, mine, 0o600)
		wantOutcome(t, Unchanged, c.Install, p, testServer)
		moved := testServer
		moved.Command = "/new/repl"
		wantOutcome(t, Updated, c.Install, p, moved)
		if got, want := readTestFile(t, file), strings.Replace(mine, "/opt/bin/repl", "/new/repl", 1); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
		wantOutcome(t, Removed, c.Uninstall, p, testServer)
		if got := readTestFile(t, file); got != "[tui]\nb = 1\n" {
			t.Errorf("got %q, want only the other table", got)
		}
	})

	t.Run("removes only its own entry from a file that changed", func(t *testing.T) {
		entry := `"turnstone": {"command": "/opt/bin/repl", "args": ["mcp"]}`
		for _, test := range []struct{ before, after string }{
			{"{\n  \"mcpServers\": {\n    \"a\": {},\n    " + entry + "\n  }\n}\n", "{\n  \"mcpServers\": {\n    \"a\": {}\n  }\n}\n"},
			{"{\n  \"mcpServers\": {\n    " + entry + ",\n    \"a\": {} // c\n  }\n}\n", "{\n  \"mcpServers\": {\n    \"a\": {} // c\n  }\n}\n"},
			{"{\"mcpServers\": {" + entry + ", \"a\": 1}}", "{\"mcpServers\": { \"a\": 1}}"},
			{"{\"mcpServers\": {\"a\": 1, " + entry + "}}", "{\"mcpServers\": {\"a\": 1}}"},
			{"{\"mcpServers\": {" + entry + "}}", "{\"mcpServers\": {}}"},
			{"{\"mcpServers\": {\n  \"a\": 1,\n  " + entry + ",\n}}", "{\"mcpServers\": {\n  \"a\": 1,\n}}"},
			{"{\"mcpServers\": {\"a\": 1, // c\n" + entry + "}}", "{\"mcpServers\": {\"a\": 1 // c\n}}"},
			{"{\"mcpServers\": {// c\n" + entry + ", \"a\": 1}}", "{\"mcpServers\": {// c\n \"a\": 1}}"},
			{"{\"mcpServers\": {" + entry + " /* x */ , // y\n}}", "{\"mcpServers\": { /* x */  // y\n}}"},
		} {
			p, c := newTestHome(t), findClient(t, "windsurf")
			writeTestFile(t, c.file(p), test.before, 0o600)
			r := wantOutcome(t, Removed, c.Uninstall, p, testServer)
			if got := readTestFile(t, c.file(p)); got != test.after {
				t.Errorf("from %q\ngot  %q\nwant %q", test.before, got, test.after)
			}
			if got := readTestFile(t, r.Backup); got != test.before {
				t.Errorf("got backup %q", got)
			}
		}
	})

	t.Run("writes through a symbolic link", func(t *testing.T) {
		p, c := newTestHome(t), findClient(t, "cursor")
		real := filepath.Join(p.Home, "dotfiles", "cursor.json")
		writeTestFile(t, real, "{}\n", 0o600)
		file := c.file(p)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		makeSymlink(t, real, file)
		wantOutcome(t, Added, c.Install, p, testServer)
		if to, err := os.Readlink(file); err != nil || to != real {
			t.Errorf("the link points to %q (%v)", to, err)
		}
		if !strings.Contains(readTestFile(t, real), "turnstone") {
			t.Error("the target of the link has not changed")
		}
		if err := os.Remove(real); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Install(t.Context(), p, testServer, Options{}); err == nil || !strings.Contains(err.Error(), "which does not exist") {
			t.Errorf("dangling link: got %v", err)
		}
	})

	t.Run("keeps the form of an OpenCode file", func(t *testing.T) {
		p, c := newTestHome(t), findClient(t, "opencode")
		file := filepath.Join(p.XDG, "opencode", "opencode.jsonc")
		writeTestFile(t, file, `{"mcp": {"servers": {"x": {"type": "local", "command": ["y"]}}}}`, 0o600)
		wantOutcome(t, Added, c.Install, p, testServer)
		want := `{"mcp": {"servers": {"x": {"type": "local", "command": ["y"]}, "turnstone": {"type": "local", "command": ["/opt/bin/repl", "mcp", "--lang", "python"]}}}}`
		if got := readTestFile(t, file); got != want {
			t.Errorf("got %s", got)
		}
	})
}

// defaultedServer returns a server without the options that must be set explicitly.
func defaultedServer(s ServerSpec) ServerSpec {
	s.AutoApprove = false
	return s
}

func TestInstallErrors(t *testing.T) {
	t.Run("reports the position of a syntax error", func(t *testing.T) {
		for _, test := range []struct{ client, text, says string }{
			{"cursor", "{\n  \"a\": 1\n  \"b\": 2\n}", "line 3, column 3"},
			{"cursor", "{\"a\": 1", "unexpected EOF"},
			{"cursor", "[1]", "must be an object"},
			{"cursor", "{\"mcpServers\": []}", `"mcpServers" is not a table`},
			{"cursor", "{\"mcpServers\": {\"turnstone\": 1}}", `"mcpServers.turnstone" is not a table`},
			{"cursor", "{\n\"mcpServers\": {},\n\"mcpServers\": {}}", `"mcpServers" appears twice, at line 2, column 1 and line 3, column 1`},
			{"cursor", "\xff\xfe{\x00}\x00", "UTF-16"},
			{"cursor", "{\"a\": \"\xff\"}", "not UTF-8"},
			{"cursor", "{\"a\": \x00}", "NUL"},
			{"cursor", strings.Repeat(`{"a":`, 20_000), "nested deeper"},
			{"cursor", `{"mcpServers": {"turnstone": {"command": "npx", "args": ["other"]}}}`, "--name"},
			{"cursor", `{"mcpServers": {"turnstone": {"url": "https://x"}}}`, "a different one (https://x)"},
			{"codex", "a = 1\nb 2\n", "line 2, column 3"},
			{"codex", "mcp_servers = { other = { command = 'x' } }\n", "line 1, column 1: mcp_servers is an inline table"},
			{"codex", "[[mcp_servers]]\n", `"mcp_servers" is not a table`},
			{"codex", "[mcp_servers]\nturnstone = { command = '/x/repl', args = ['mcp'] }\n", "change it by hand"},
			{"codex", "a = " + strings.Repeat("[", 20_000), "nested deeper"},
		} {
			p, c := newTestHome(t), findClient(t, test.client)
			writeTestFile(t, c.file(p), test.text, 0o600)
			_, err := c.Install(t.Context(), p, testServer, Options{})
			if err == nil || !strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), c.file(p)) {
				t.Errorf("%.60q: got error %v, want one that names the file and says %q", test.text, err, test.says)
			}
			if got := readTestFile(t, c.file(p)); got != test.text {
				t.Errorf("%.60q: the file has changed: %.200q", test.text, got)
			}
			if left, err := filepath.Glob(filepath.Join(filepath.Dir(c.file(p)), "*")); err != nil || len(left) != 1 {
				t.Errorf("files were left behind: %v", left)
			}
		}
	})

	t.Run("rejects a path that is not a regular file", func(t *testing.T) {
		p, c := newTestHome(t), findClient(t, "cursor")
		if err := os.MkdirAll(c.file(p), 0o755); err != nil { // a directory instead of a file
			t.Fatal(err)
		}
		if _, err := c.Install(t.Context(), p, testServer, Options{}); err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("got %v", err)
		}
	})

	t.Run("does not touch a read-only file", func(t *testing.T) {
		p, c := newTestHome(t), findClient(t, "cursor")
		writeTestFile(t, c.file(p), "{}", 0o444)
		_, err := c.Install(t.Context(), p, testServer, Options{})
		if err == nil || !strings.Contains(err.Error(), "read-only") {
			t.Errorf("got %v", err)
		}
	})
}

func TestInstallClaude(t *testing.T) {
	t.Run("warns that a running Claude may undo the edit", func(t *testing.T) {
		p, c := newTestHome(t), findClient(t, "claude")
		if r := wantOutcome(t, Added, c.Install, p, testServer); !strings.Contains(r.Note, "claude is not on PATH") {
			t.Errorf("got note %q", r.Note)
		}
	})

	t.Run("uses the claude command for the file it rewrites", func(t *testing.T) {
		p, c := newTestHome(t), findClient(t, "claude")
		file := c.file(p)
		calls := filepath.Join(p.Home, "calls")
		installFakeClient(t, p, "claude", fakeClient{File: file, Calls: calls})
		r := wantOutcome(t, Added, c.Install, p, testServer)
		if len(r.Commands) != 1 || r.Diff != "" || r.Backup != "" {
			t.Errorf("got %+v", r)
		}
		wantOutcome(t, Unchanged, c.Install, p, testServer)
		writeTestFile(t, file, strings.Replace(readTestFile(t, file), `"alwaysLoad"`, `"env": {"A": "1"}, "alwaysLoad"`, 1), 0o600)
		moved := testServer
		moved.Command = "/new/repl"
		wantOutcome(t, Updated, c.Install, p, moved)
		if got := readTestFile(t, file); !strings.Contains(got, `"env":{"A":"1"}`) || !strings.Contains(got, "/new/repl") {
			t.Errorf("the user's settings were lost: %s", got)
		}
		wantOutcome(t, Removed, c.Uninstall, p, testServer)
		if got := strings.Count(readTestFile(t, calls), "\n"); got != 4 {
			t.Errorf("claude was called %d times, want 4", got)
		}

		installFakeClient(t, p, "claude", fakeClient{DoesNothing: true})
		if _, err := c.Install(t.Context(), p, testServer, Options{}); err == nil || !strings.Contains(err.Error(), "does not show the change") {
			t.Errorf("got %v", err)
		}
		installFakeClient(t, p, "claude", fakeClient{Failure: "no"})
		if _, err := c.Install(t.Context(), p, testServer, Options{}); err == nil || !strings.Contains(err.Error(), "exit status 3: no") {
			t.Errorf("got %v", err)
		}
	})
}

func TestInstallConcurrent(t *testing.T) {
	t.Run("notices that another program wrote the file", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "x.json")
		writeTestFile(t, file, "{}", 0o600)
		s, err := readFile(file)
		if err != nil {
			t.Fatal(err)
		}
		writeTestFile(t, file, `{"theirs": 1}`, 0o600)
		if err := s.replaceFile([]byte("ours")); !errors.Is(err, errChanged) {
			t.Errorf("got %v, want errChanged", err)
		}
		if err := s.removeFile(); !errors.Is(err, errChanged) {
			t.Errorf("got %v, want errChanged", err)
		}
		if got := readTestFile(t, file); got != `{"theirs": 1}` {
			t.Errorf("their change was lost: %s", got)
		}
	})

	t.Run("tries again when another program wrote the file", func(t *testing.T) {
		p, c := newTestHome(t), findClient(t, "cursor")
		for _, others := range []int{1, maxInstallAttempts} {
			writeTestFile(t, c.file(p), "{}", 0o600)
			n := 0
			_, err := c.applyPlan(t.Context(), p, testServer, Options{}, func(ch *configChange) error {
				if n++; n <= others { // between the read and the rename
					writeTestFile(t, c.file(p), fmt.Sprintf(`{"theirs": %d}`, n), 0o600)
				}
				return ch.planInstall()
			})
			switch got := readTestFile(t, c.file(p)); {
			case others == 1 && (err != nil || !strings.HasPrefix(got, `{"theirs": 1, "mcpServers"`)):
				t.Errorf("one change: got %v and %s", err, got)
			case others == maxInstallAttempts && (!errors.Is(err, errChanged) || got != fmt.Sprintf(`{"theirs": %d}`, maxInstallAttempts)):
				t.Errorf("a change each time: got %v and %s", err, got)
			}
		}
	})

	t.Run("loses no entry when many install at once", func(t *testing.T) {
		p, c := newTestHome(t), findClient(t, "cursor")
		writeTestFile(t, c.file(p), "{}", 0o600)
		const many = 6
		errs := make(chan error, many)
		for i := range many {
			go func() {
				s := testServer
				s.Name = fmt.Sprintf("n%d", i)
				_, err := c.Install(t.Context(), p, s, Options{})
				errs <- err
			}()
		}
		for range many {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		if got := strings.Count(readTestFile(t, c.file(p)), `"command"`); got != many {
			t.Errorf("got %d of %d entries", got, many)
		}
	})
}

// makeSymlink makes a symbolic link or skips the test: Windows requires a privilege, and Wine makes
// unreadable links.
func makeSymlink(t *testing.T, to, link string) {
	t.Helper()
	err := os.Symlink(to, link)
	if err == nil {
		_, err = os.Readlink(link)
	}
	if err != nil {
		t.Skipf("symbolic links need a privilege on Windows, and Wine cannot read them: %v", err)
	}
}

// A fakeClient configures the test binary as a client's command.
type fakeClient struct {
	File        string // the configuration that it writes
	Calls       string // gets a line for each call
	Failure     string // its message before it fails; "" if it succeeds
	DoesNothing bool   // it does nothing and reports success
}

const fakeVariable = "TURNSTONE_TEST_FAKE"

func TestMain(m *testing.M) {
	testmain.Run(m, testmain.Options{
		Programs: []testmain.Program{{Variable: fakeVariable, Main: func(text string) (status int) {
			var f fakeClient
			if err := json.Unmarshal([]byte(text), &f); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 2
			}
			return f.runFake(os.Args[1:])
		}}},
		Serial: true,
	})
}

func (f fakeClient) runFake(args []string) int {
	if f.Failure != "" {
		fmt.Fprintln(os.Stderr, f.Failure)
		return 3
	}
	if f.DoesNothing {
		return 0
	}
	calls, err := os.OpenFile(f.Calls, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		fmt.Fprintln(calls, args)
		err = calls.Close()
	}
	text := `{"n": 1, "mcpServers": {}}`
	switch {
	case len(args) == 6 && args[1] == "add-json":
		text = fmt.Sprintf(`{"n": 1, "mcpServers": {"%s": %s}}`, args[4], args[5])
	case len(args) == 2 && args[0] == "--add-mcp":
		text = fmt.Sprintf(`{"servers": {"turnstone": %s}}`, args[1])
	}
	err = errors.Join(err, os.MkdirAll(filepath.Dir(f.File), 0o755), os.WriteFile(f.File, []byte(text), 0o600))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// installFakeClient puts a command on PATH, in the form that npm uses.
func installFakeClient(t *testing.T, p ConfigDirs, name string, f fakeClient) {
	t.Helper()
	self := testexec.OwnPath()
	text, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(fakeVariable, string(text))
	path := filepath.Join(p.Home, "bin", name)
	if filepath.Separator == '\\' {
		writeTestFile(t, path+".cmd", "@ECHO off\r\n\""+self+"\" %*\r\n", 0o755)
		return
	}
	writeTestFile(t, path, "#!/bin/sh\nexec '"+self+"' \"$@\"\n", 0o755)
}

func TestInstallVSCode(t *testing.T) {
	p, c := newTestHome(t), findClient(t, "vscode")
	file := c.file(p)
	installFakeClient(t, p, "code", fakeClient{File: file, Calls: filepath.Join(p.Home, "calls")})
	if r := wantOutcome(t, Added, c.Install, p, testServer); len(r.Commands) != 1 || r.Commands[0][1] != "--add-mcp" {
		t.Errorf("got %+v", r)
	}
	wantOutcome(t, Unchanged, c.Install, p, testServer)
	if r := wantOutcome(t, Removed, c.Uninstall, p, testServer); len(r.Commands) != 0 {
		t.Errorf("code has no command to remove an entry: %v", r.Commands)
	}
	if r := wantOutcome(t, Added, c.Install, p, testServer); len(r.Commands) != 0 || r.Backup == "" {
		t.Errorf("code would rewrite the file: %+v", r)
	}
}

func TestFindClients(t *testing.T) {
	t.Run("reports the path that proves a client is installed", func(t *testing.T) {
		p := newTestHome(t)
		for _, c := range Clients() {
			if by, looked := c.FindInstalled(p); by != "" || len(looked) == 0 {
				t.Errorf("%s: found by %q in an empty home", c.Name, by)
			}
		}
		writeTestFile(t, filepath.Join(p.Home, ".cursor", "x"), "", 0o600)
		if by, _ := findClient(t, "cursor").FindInstalled(p); by != filepath.Join(p.Home, ".cursor") {
			t.Errorf("got %q", by)
		}
	})

	t.Run("finds its own entries under any name", func(t *testing.T) {
		p, c := newTestHome(t), findClient(t, "cursor")
		writeTestFile(t, c.file(p), `{"mcpServers": {"py": {"command": "/a/repl", "args": ["mcp"], "timeout": 500}, "x": {"command": "npx", "args": ["mcp"]}, "y": {"command": "repl"}}}`, 0o600)
		file, entries, err := c.FindEntries(p, false)
		if err != nil || file != c.file(p) || len(entries) != 1 || entries[0].Name != "py" {
			t.Fatalf("got %v, %v", entries, err)
		}
		if s, ok := entries[0].TimeoutSeconds(); !ok || s != 0.5 {
			t.Errorf("the timeout is %v s", s)
		}
	})

	t.Run("recognizes an entry that starts uvx", func(t *testing.T) {
		p := ConfigDirs{Home: t.TempDir(), Getenv: func(string) string { return "" }}
		c := findClient(t, "windsurf")
		byRunner := ServerSpec{Name: "turnstone", Command: "uvx", Args: []string{"turnstone-repl", "mcp"}}
		if _, err := c.Install(t.Context(), p, byRunner, Options{}); err != nil {
			t.Fatal(err)
		}
		if _, entries, err := c.FindEntries(p, false); err != nil || len(entries) != 1 || !entries[0].UsesRunner() {
			t.Fatalf("%+v, %v", entries, err)
		}
		if r, err := c.Install(t.Context(), p, testServer, Options{}); err != nil || r.Outcome != Updated {
			t.Errorf("permanent installation afterwards: %v, %v", r.Outcome, err)
		}
		if r, err := c.Uninstall(t.Context(), p, byRunner, Options{}); err != nil || r.Outcome != Removed {
			t.Errorf("removed: %v, %v", r.Outcome, err)
		}
		for _, foreign := range [][]string{{"other", "mcp"}, {"turnstone-repl-other", "mcp"}, {"turnstone-repl", "serve"}, {"turnstone-repl"}} {
			if (ServerEntry{Command: "uvx", Args: foreign}).isOurs("") {
				t.Errorf("uvx %q counts as ours", foreign)
			}
		}
	})
}

func TestSelfCommand(t *testing.T) {
	t.Run("picks a path that survives an upgrade", func(t *testing.T) {
		dir := t.TempDir()
		exe, bin := filepath.Join(dir, "v1", "repl"), filepath.Join(dir, "bin")
		writeTestFile(t, exe, "", 0o755)
		writeTestFile(t, filepath.Join(dir, "other", "repl"), "", 0o755)
		if err := os.MkdirAll(bin, 0o755); err != nil {
			t.Fatal(err)
		}
		link := filepath.Join(bin, "repl")
		makeSymlink(t, exe, link)
		for _, test := range []struct {
			argv0 string
			path  []string
			want  string
		}{
			{"repl", []string{filepath.Join(dir, "other"), bin}, link},
			{exe, []string{bin}, link},
			{link, nil, link},
			{"repl", []string{"bin", ""}, exe},
		} {
			if got, err := stablePath(exe, test.argv0, test.path); err != nil || got != test.want {
				t.Errorf("%v: got %q, %v", test, got, err)
			}
		}
	})

	t.Run("returns the uvx or npx command inside their caches", func(t *testing.T) {
		dir := t.TempDir()
		for path, want := range map[string][]string{
			filepath.Join(dir, "uv", "archive-v0", "x1", "bin", "repl"):                                     {"uvx", "turnstone-repl"},
			filepath.Join(dir, "_npx", "ab", "node_modules", "@turnstone-repl", "linux-x64", "bin", "repl"): {"npx", "-y", "turnstone-repl"},
		} {
			writeTestFile(t, path, "", 0o755)
			if got, err := commandWords(path, path, []string{filepath.Dir(path)}); err != nil || !slices.Equal(got, want) {
				t.Errorf("%s: %q, %v", path, got, err)
			}
		}
	})

	t.Run("rejects a temporary path", func(t *testing.T) {
		dir := t.TempDir()
		for path, says := range map[string]string{
			filepath.Join(dir, "go-build123", "b001", "exe", "repl"): "go run",
			filepath.Join(dir, "gone"):                               "upgraded or removed",
		} {
			if _, err := stablePath(path, "repl", nil); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: got %v", path, err)
			}
		}
	})
}

func FuzzJSON_InstallAndUninstallAreTheIdentity(f *testing.F) {
	for _, s := range []string{"", "{}", "{\"a\":1}", "{\n // c\n \"mcpServers\": {\"x\": {}, // d\n },\n}", "{\"mcpServers\":{}}\r\n", "\xef\xbb\xbf{ /* x */ }", "{\"mcpServers\":{\"a\":1 // x\n}}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, before string) { checkRoundTrip(t, findClient(t, "windsurf"), before) })
}

func FuzzTOML_InstallAndUninstallAreTheIdentity(f *testing.F) {
	for _, s := range []string{"", "a=1", "[mcp_servers.x]\ny=1\n", "# c\r\n", "a = '''\n# x'''\n[b]\n", "mcp_servers.x.y=1\n\n\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, before string) { checkRoundTrip(t, findClient(t, "codex"), before) })
}

// checkRoundTrip checks that Install either rejects a file or can edit it. An edited file keeps its
// meaning, which put and remove verify. Installing twice equals installing once. Removing the entry
// leaves the other bytes, and all of them if there is a backup.
func checkRoundTrip(t *testing.T, c ClientConfig, before string) {
	p := ConfigDirs{Home: t.TempDir(), Getenv: func(string) string { return "" }}
	file := c.file(p)
	writeTestFile(t, file, before, 0o600)
	r, err := c.Install(t.Context(), p, testServer, Options{})
	if err != nil {
		if got := readTestFile(t, file); got != before {
			t.Fatalf("rejected (%v), but changed: %q", err, got)
		}
		return
	}
	if r.Outcome != Added {
		return
	}
	added := readTestFile(t, file)
	if r, err := c.Install(t.Context(), p, testServer, Options{}); err != nil || r.Outcome != Unchanged {
		t.Fatalf("the second time: %v, %v\n%q", r.Outcome, err, added)
	}
	tree, err := c.format.parse([]byte(added))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := removeVerified(c.format, []byte(added), c.entryKeys(tree, "turnstone")); err != nil {
		t.Fatalf("uninstall failed: %v\n%q", err, added)
	}
	if _, err := c.Uninstall(t.Context(), p, testServer, Options{}); err != nil {
		t.Fatal(err)
	}
	if got := readTestFile(t, file); got != before {
		t.Fatalf("after uninstall it is %q, want %q", got, before)
	}
	if left, _ := os.ReadDir(filepath.Dir(file)); !slices.ContainsFunc(left, func(e fs.DirEntry) bool { return e.Name() == filepath.Base(file) }) || len(left) != 1 {
		t.Fatalf("files were left: %v", left)
	}
}
