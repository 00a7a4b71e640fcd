package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/languages"
	"github.com/turnstone-repl/turnstone/internal/securefile"
	"github.com/turnstone-repl/turnstone/internal/testkit/kernelspecs"
)

// runLine runs a command line that starts no runtime.
func runLine(t *testing.T, args ...string) (status int, out, err string) {
	t.Helper()
	var o, e strings.Builder
	status = dispatchCommand(cmdkit.Streams{In: os.Stdin, Out: &o, Err: &e}, args)
	return status, o.String(), e.String()
}

func TestUsageErrors(t *testing.T) {
	dir := t.TempDir()
	tests := []struct {
		args []string
		says string
	}{
		{[]string{"--nonsense"}, "unknown option --nonsense (see repl help)"},
		{[]string{"--lnag", "r"}, "unknown option --lnag; did you mean --lang?"},
		{[]string{"-e", "1", "-c", "2"}, "use either -e, or -c or -m, not both"},
		{[]string{"-c"}, "-c needs a value"},
		{[]string{"-i", "x.py"}, "-i needs a terminal"},
		{[]string{"-v"}, "unknown option -v; repl version"},
		{[]string{"exec", "--wiat", "1s", "x"}, "unknown option --wiat; did you mean --wait? (see repl help exec)"},
		{[]string{"exec", "x", "-e", "'\xe9'"}, "not UTF-8"},
		{[]string{"input", "x", "-e", "\xe9"}, "not UTF-8"},
		{[]string{"exec"}, "repl: exec needs the name of a session"},
		{[]string{"daemon"}, "repl: daemon needs one of status, health"},
		{[]string{"--lang", "pyhton", "-e", "1"}, `unknown language "pyhton"; did you mean python?`},
		{[]string{"-e"}, "-e needs a value"},
		{[]string{"-e", "1", "file.py"}, "use either -e or the file"},
		{[]string{"--lang", "cobol", "-e", "1"}, `unknown language "cobol" (have python, r)`},
		{[]string{"--dir", filepath.Join(dir, "missing"), "-e", "1"}, "not a directory"},
		{[]string{"--python", filepath.Join(dir, "missing"), "-e", "1"}, "does not exist"},
		{[]string{"docter"}, "did you mean repl doctor?"},
		{[]string{"python"}, `"python" is neither a command nor a file; did you mean repl --lang python?`},
		{[]string{"R"}, `did you mean repl --lang r?`},
		{[]string{"allow", "main"}, `"allow" is neither a command nor a file; did you mean repl grant?`},
		{[]string{"help", "ctl"}, `no help topic "ctl"; did you mean repl help daemon?`},
		{[]string{"frobnicate"}, `"frobnicate" is neither a command nor a file`},
		{[]string{dir}, "is a directory"},
		{[]string{"mcp", "extra"}, "takes no argument"},
		{[]string{"mcp", "--lang", "cobol"}, "unknown language"},
		{[]string{"mcp", "--dir", filepath.Join(dir, "missing")}, "not a directory"},
		{[]string{"mcp", "--python", filepath.Join(dir, "missing")}, "does not exist"},
		{[]string{"mcp", "--dir", dir, "--lang", "python", "--python", "missing/python"}, "does not exist"},
		{[]string{"mcp", "--http", "8080"}, "an address and a port"},
		{[]string{"mcp", "--http", "0.0.0.0:0"}, "--http-host NAME"},
		{[]string{"mcp", "--http", ":0"}, "--http-host NAME"},
		{[]string{"mcp", "--http", "example.org:80"}, "--http-host NAME"},
		{[]string{"mcp", "--http", "127.0.0.1:0", "--http-host", "http://example.org"}, "without a port"},
		{[]string{"mcp", "--http", "127.0.0.1:0", "--session-idle-timeout", "1m"}, "15m"},
		{[]string{"mcp", "--session-idle-timeout", "1h"}, "add --http"},
		{[]string{"mcp", "--token-file", "x"}, "add --http"},
		{[]string{"doctor", "--nope"}, "-nope"},
		{[]string{"install"}, "repl: install needs a client: claude, codex"},
		{[]string{"install", "cursr"}, "did you mean cursor? The clients are claude, codex"},
		{[]string{"install", "emacs", "--dry-run"}, `unknown client "emacs"; the clients are claude, codex`},
		{[]string{"install", "--all", "codex"}, "use either --all or codex"},
		{[]string{"install", "codex", "--scope", "global"}, "user or project"},
		{[]string{"install", "codex", "--name", "a b"}, "letters, digits"},
		{[]string{"install", "codex", "--lang", "cobol"}, "unknown language"},
		{[]string{"install", "codex", "--dir", filepath.Join(dir, "missing")}, "not a directory"},
		{[]string{"install", "--auto-approve", "cursor"}, "does not support this"},
		{[]string{"version", "extra"}, "takes no argument"},
		{[]string{"help", "mpc"}, `no help topic "mpc"; did you mean repl help mcp? try repl help,`},
		{[]string{"help", "nonsense"}, `no help topic "nonsense"; try repl help, repl help commands, repl help sessions`},
		{[]string{"--init", "missing.py", "-e", "1"}, "--init missing.py: no such file"},
		{[]string{"--env-file", "missing", "-e", "1"}, "--env-file: open missing"},
		{[]string{"mcp", "--init", "cli_test.go"}, "name the language of the file with --lang"},
		{[]string{"mcp", "--lang", "r", "--init", "cli_test.go", "--daemon"}, "do not work with --daemon"},
		{[]string{"install", "claude", "--env", "A"}, "Claude Code does not support this"},
		{[]string{"install", "codex", "--env", "A=1"}, "only the name of a variable"},
		{[]string{"worker"}, "repl worker check"},
		{[]string{"worker", "chek"}, "repl worker check"},
		{[]string{"worker", "check"}, "needs the command of a worker"},
		{[]string{"worker", "check", filepath.Join(dir, "missing")}, "cannot run"},
		{[]string{"worker", "check", "--timeout", "soon", "x"}, "soon"},
		{[]string{"worker", "check", "--dialect", "cobol", "x"}, "unknown language"},
	}
	for _, test := range tests {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			status, out, err := runLine(t, test.args...)
			if status != 2 || out != "" {
				t.Errorf("got status %d and output %q, want 2 and none", status, out)
			}
			if !strings.HasPrefix(err, "repl: ") || strings.Count(err, "\n") != 1 || !strings.Contains(err, test.says) {
				t.Errorf("got %q, want one line that says %q", err, test.says)
			}
		})
	}
}

func TestHelpPages(t *testing.T) {
	_, text, _ := runLine(t, "help")
	all := ""
	for _, topic := range []string{"repl", "commands", "sessions"} {
		_, page, _ := runLine(t, "help", topic)
		all += page
		lines := strings.Split(strings.TrimSuffix(page, "\n"), "\n")
		for i, line := range lines {
			if len(line) > 80 {
				t.Errorf("%s: line %d has %d characters, want at most 80: %q", topic, i+1, len(line), line)
			}
		}
		if len(lines) > 60 {
			t.Errorf("%s has %d lines, want a page of 60", topic, len(lines))
		}
	}
	for _, c := range visibleCommands() {
		if !strings.Contains(all, "\n  repl "+c.Name) {
			t.Errorf("help does not show repl %s", c.Name)
		}
	}
	for _, way := range []string{"-h", "-help", "--help"} {
		if status, out, _ := runLine(t, way); status != 0 || out != text {
			t.Errorf("repl %s: got status %d, want the same page", way, status)
		}
	}
	for line, shown := range map[string]string{
		"worker --help": "repl worker [FLAG ...] check COMMAND", "mcp --help": "  --daemon[=auto]", "help mcp": "  --daemon[=auto]",
		"attach --help": "  --watch ", "help attach": "  --watch ", "exec --help": "\n  --socket PATH",
	} {
		if status, out, _ := runLine(t, strings.Fields(line)...); status != 0 || !strings.Contains(out, shown) {
			t.Errorf("repl %s: got status %d and no %q", line, status, shown)
		}
	}
}

func TestVersion(t *testing.T) {
	for _, way := range []string{"version", "--version", "-V"} {
		status, out, _ := runLine(t, way)
		if status != 0 || !strings.HasPrefix(out, "repl ") || !strings.Contains(out, "(go1") {
			t.Errorf("repl %s: got status %d and %q", way, status, out)
		}
	}
}

func TestKernelWorkerCommand(t *testing.T) {
	kernelspecs.Install(t, map[string]string{"turnstone-basic": kernelspecs.Usable(t)})
	for _, args := range [][]string{{languages.KernelWorker}, {languages.KernelWorker, "turnstone-none"}} {
		if status, _, err := runLine(t, args...); status != cmdkit.StatusUsage || !strings.Contains(err, "Jupyter kernel") {
			t.Errorf("%v: %d, %q", args, status, err)
		}
	}
}

// A mistake in workers.toml must be reported: repl mcp must not just offer fewer languages.
func TestMCPCommand_WorkersFile(t *testing.T) {
	config := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", config)
	dir := filepath.Join(config, "turnstone")
	if err := securefile.MakeDir(dir); err != nil {
		t.Fatal(err)
	}
	f, err := securefile.CreateTemp(dir, "new-")
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteString("[workers.tcl]\ncommnd = [\"tclsh\"]\n")
	if err := errors.Join(err, f.Close(), securefile.Rename(f.Name(), filepath.Join(dir, "workers.toml"))); err != nil {
		t.Fatal(err)
	}
	if status, _, said := runLine(t, "mcp"); status != cmdkit.StatusUsage || !strings.Contains(said, "workers.tcl.commnd") {
		t.Errorf("got status %d and %q", status, said)
	}
}

func TestIsAskpassCall(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]bool{"ada@gpu1's password: ": true, "list": false, "--help": false, "": true} {
		if got := isAskpassCall([]string{args}); got != want {
			t.Errorf("%q: got %v", args, got)
		}
	}
	if isAskpassCall(nil) || isAskpassCall(strings.Fields("exec main")) {
		t.Error("words of the command line are treated as a question")
	}
}
