//go:build unix

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/sandboxcheck"
)

// tinyBlock is the block of a file that needs the package tiny.
const tinyBlock = "# /// script\n# dependencies = [\"tiny\"]\n# ///\n"

// writeScript writes a file and returns its path.
func writeScript(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestScriptBlock(t *testing.T) {
	t.Parallel()

	t.Run("a file gets the packages that it asks for", func(t *testing.T) {
		t.Parallel()
		skipWithoutInstaller(t)
		h := withTinyPackage(t, newHome(t))
		code := "import tiny, sys; print(tiny.answer, *sys.argv[1:])\n"
		for name, text := range map[string]string{
			"plain.py":   tinyBlock + code,
			"windows.py": strings.ReplaceAll(tinyBlock+code, "\n", "\r\n"),
			"mark.py":    "\ufeff" + tinyBlock + code,
			"noending":   "#!/usr/bin/env repl\n" + tinyBlock + code,
		} {
			wantResult(t, h.runRepl(t, "", writeScript(t, name, text), "a", "b"), result{"42 a b\n", "", 0})
		}
		script := writeScript(t, "a.py", tinyBlock+code)
		wantResult(t, h.runRepl(t, "", "--memory", "2G", script), result{"42\n", "", 0}) // in a session
		if r := h.runRepl(t, "", "--no-script", script); r.status != 1 || !strings.Contains(r.stderr, "ModuleNotFoundError") {
			t.Errorf("without the block: %v", r)
		}
		wantResult(t, h.runRepl(t, "", "--with-script", script, "-e", "import tiny; tiny.answer"), result{"42\n", "", 0})
		wantResult(t, h.runRepl(t, "import tiny; print(tiny.answer)", "--with-script", script), result{"42\n", "", 0})
		other := writeScript(t, "b.py", "# /// script\n# dependencies = []\n# ///\nimport tiny; print(tiny.answer)\n")
		wantResult(t, h.runRepl(t, "", "--with", "tiny", other), result{"42\n", "", 0})
		wantResult(t, h.runRepl(t, "", "--with-script", script, other), result{"42\n", "", 0})
		h.wantNothingLeft(t)
	})

	t.Run("a wrong block is an error that names the line", func(t *testing.T) {
		t.Parallel()
		h := newHome(t)
		for _, c := range []struct{ text, want string }{
			{tinyBlock + "\n" + tinyBlock, ": line 5: a second block \"script\"; the first is in line 1, and a file may have only one; --no-script ignores the block\n"},
			{"# /// script\n# dependencies = [\n# ///\n", "is not valid TOML"},
			{"# /// script\n# dependencies = [\"./tiny\"]\n# ///\n", "\"./tiny\" is not a requirement"},
		} {
			script := writeScript(t, "a.py", c.text+"print('ran')\n")
			if r := h.runRepl(t, "", script); r.status != 2 || r.stdout != "" || !strings.HasPrefix(r.stderr, "repl: "+script) || !strings.Contains(r.stderr, c.want) {
				t.Errorf("%q: got %v", c.text, r)
			}
			wantResult(t, h.runRepl(t, "", "--no-script", script), result{"ran\n", "", 0})
		}
		unknown := writeScript(t, "u.py", "# /// script\n# dependencies = [\"nosuchthing\"]\n# ///\nprint('ran')\n")
		if r := withTinyPackage(t, h).runRepl(t, "", unknown); r.status != 1 || r.stdout != "" || !strings.Contains(r.stderr, "nosuchthing cannot be prepared") {
			t.Errorf("an unknown package: got %v", r)
		}
	})

	t.Run("parts without effect are reported in one line, and the file runs", func(t *testing.T) {
		t.Parallel()
		h := newHome(t)
		script := writeScript(t, "a.py", "# /// script\n# dependencies = []\n#\n# [tool.uv]\n# exclude-newer = \"2024-01-01T00:00:00Z\"\n# ///\nprint('ran')\n")
		wantResult(t, h.runRepl(t, "", script), result{"ran\n", "repl: " + script + ": [tool.uv] is ignored; it is for another program\n", 0})
		script = writeScript(t, "b.py", "# /// script\n# dependencies = [\"tiny\"]\nprint('ran')\n")
		if r := h.runRepl(t, "", script); r.status != 0 || r.stdout != "ran\n" || strings.Count(r.stderr, "\n") != 1 || !strings.Contains(r.stderr, "has no end line") {
			t.Errorf("got %v", r)
		}
	})

	t.Run("a version that is not there is an error with both versions", func(t *testing.T) {
		t.Parallel()
		h := newHome(t)
		script := writeScript(t, "a.py", "# /// script\n# requires-python = \">=3.99\"\n# ///\nprint('ran')\n")
		r := h.runRepl(t, "", script)
		if r.status != 1 || r.stdout != "" || !strings.Contains(r.stderr, "no Python >=3.99 found") || !strings.Contains(r.stderr, "is Python 3.") || !strings.Contains(r.stderr, "the block \"script\" requires Python >=3.99") {
			t.Errorf("got %v", r)
		}
		wantResult(t, h.runRepl(t, "", "--no-script", script), result{"ran\n", "", 0})
		script = writeScript(t, "b.py", "# /// script\n# requires-python = \">=3.8,<4\"\n# ///\nprint('ran')\n")
		wantResult(t, h.runRepl(t, "", script), result{"ran\n", "", 0})
	})

	t.Run("flags that do not go together are refused", func(t *testing.T) {
		t.Parallel()
		h := newHome(t)
		script, plain := writeScript(t, "a.py", tinyBlock), writeScript(t, "b.py", "1\n")
		for want, args := range map[string][]string{
			"use either --with-script or --no-script":             {"--with-script", script, "--no-script", "-e", "1"},
			"only Python files have a block \"script\"":           {"--lang", "r", "--with-script", script, "-e", "1"},
			"the file has no block \"script\", which starts with": {"--with-script", plain, "-e", "1"},
			"--with-script: stat ":                                {"--with-script", plain + "x", "-e", "1"},
			"--with-script: add --lang python":                    {"mcp", "--with-script", script},
			"use either -e or the file":                           {"exec", "main", script, "-e", "1"},
			"cannot read the code: stat ":                         {"exec", "main", script + "x"},
		} {
			if r := h.runRepl(t, "", args...); r.status != 2 || r.stdout != "" || !strings.Contains(r.stderr, want) {
				t.Errorf("%q: got %v", args, r)
			}
		}
	})

	t.Run("the configuration of an agent names the file by its full path", func(t *testing.T) {
		t.Parallel()
		h := newHome(t)
		script := writeScript(t, "a.py", tinyBlock)
		r := h.runRepl(t, "", "install", "cursor", "--dry-run", "--lang", "python", "--with-script", script)
		if r.status != 0 || !strings.Contains(strings.Join(strings.Fields(strings.NewReplacer(",", " ", "+", " ").Replace(r.stdout)), " "), `"--with-script" "`+script+`"`) {
			t.Errorf("got %v", r)
		}
		if r := h.runRepl(t, "", "install", "cursor", "--dry-run", "--with-script", script); r.status != 2 || !strings.Contains(r.stderr, "--with-script: add --lang python") {
			t.Errorf("without a language: got %v", r)
		}
	})

	t.Run("a program in a sandbox installs nothing unless the user says so", func(t *testing.T) {
		t.Parallel()
		skipWithoutInstaller(t)
		if why := sandboxcheck.WhyNoNamespaces(); why != "" {
			t.Skip(why)
		}
		h := withTinyPackage(t, newHome(t))
		script := writeScript(t, "a.py", tinyBlock+"import tiny; print(tiny.answer)\n")
		r := h.runRepl(t, "", "--sandbox", "read-only", script)
		if r.status != 2 || r.stdout != "" || !strings.Contains(r.stderr, "asks for packages (tiny), and installing them may run code outside of the sandbox; add --with-script "+script) {
			t.Errorf("got %v", r)
		}
		if r := h.runRepl(t, "", "exec", "main", "--sandbox", "read-only", script); r.status != 2 || !strings.Contains(r.stderr, "outside of the sandbox") {
			t.Errorf("exec: got %v", r)
		}
	})

	t.Run("sessions of the daemon get them, too", func(t *testing.T) {
		t.Parallel()
		skipWithoutInstaller(t)
		h := withTinyPackage(t, newDaemonHome(t))
		h.startDaemon(t)
		script := writeScript(t, "a.py", "\ufeff# /// script\n# requires-python = \">=3.8\"\n# dependencies = [\"tiny\"]\n# ///\nimport tiny\nprint(tiny.answer)\n")
		wantResult(t, h.runRepl(t, "", "exec", "main", script), result{"42\n", newSessionNotice("main"), 0})
		wantResult(t, h.runRepl(t, "", "exec", "main", script), result{"42\n", "", 0})
		wantResult(t, h.runRepl(t, "", "exec", "plain", "-e", "1+1"), result{"2\n", newSessionNotice("plain"), 0})
		if r := h.runRepl(t, "", "exec", "plain", script); r.status != 1 || !strings.Contains(r.stderr, "plain already exists, without tiny") {
			t.Errorf("an existing session: got %v", r)
		}
		other := writeScript(t, "b.py", "# /// script\n# requires-python = \">=3.99\"\n# ///\nprint('ran')\n")
		if r := h.runRepl(t, "", "exec", "plain", other); r.status != 1 || !strings.Contains(r.stderr, "plain already exists and runs Python 3.") || !strings.Contains(r.stderr, ", not Python >=3.99") {
			t.Errorf("an existing session: got %v", r)
		}
		if r := h.runRepl(t, "", "exec", "new", other); r.status != 1 || !strings.Contains(r.stderr, "no Python >=3.99 found") {
			t.Errorf("a new session: got %v", r)
		}
		wantResult(t, h.runRepl(t, "", "exec", "plain", "--no-script", other), result{"ran\n", "", 0})
		wantResult(t, h.runRepl(t, "", "exec", "third", "--with-script", script, "-e", "import tiny; tiny.answer"), result{"42\n", newSessionNotice("third"), 0})
		if r := h.runRepl(t, tinyBlock+"import tiny", "exec", "fourth"); r.status != 1 || !strings.Contains(r.stderr+r.stdout, "ModuleNotFoundError") {
			t.Errorf("an input installed packages: %v", r)
		}
	})

	t.Run("a server of an agent gives its sessions what a file asks for, and an input nothing", func(t *testing.T) {
		t.Parallel()
		skipWithoutInstaller(t)
		for _, more := range [][]string{nil, {"--daemon"}} {
			t.Run(strings.Join(more, " "), func(t *testing.T) {
				t.Parallel()
				h := withTinyPackage(t, newDaemonHome(t))
				if more != nil {
					h.startDaemon(t)
				}
				script := writeScript(t, "a.py", tinyBlock)
				a := newAgent(t, h, append([]string{"--with-script", script}, more...)...)
				if got := a.callRepl("import tiny; tiny.answer"); !strings.HasSuffix(got, "42") {
					t.Errorf("got %q", got)
				}
				if got := a.callRepl("# /// script\n# dependencies = [\"nosuchthing\"]\n# ///\nprint('ran')"); got != "ran" {
					t.Errorf("got %q", got)
				}
				_ = a.in.Close()
				_ = a.cmd.Wait()
			})
		}
	})
}
