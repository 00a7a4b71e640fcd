package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestProgram_OnWindows(t *testing.T) {
	file := filepath.Join(t.TempDir(), "größer.py")
	if err := os.WriteFile(file, []byte("import sys\nprint('file', sys.argv[1:])\nsys.exit(4)\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		stdin string
		args  []string
		out   string
		err   string
		code  int
	}{
		"an expression":     {"", []string{"-e", "print(6 * 7, 'größer')"}, "42 größer\n", "", 0},
		"an error":          {"", []string{"-e", "1/0"}, "", "ZeroDivisionError", 1},
		"an exit":           {"", []string{"-e", "import sys; sys.exit(3)"}, "", "", 3},
		"a file":            {"", []string{file}, "file []\n", "", 4},
		"a pipe":            {"x = 20\nprint(x * 2)\n", nil, "40\n", "", 0},
		"a child's output":  {"", []string{"-e", "import os; _ = os.system('echo child')"}, "child", "", 0},
		"a file and a pipe": {"Ada\n", []string{"-e", "print('hello', input())"}, "hello Ada\n", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := newHome(t).run(t, c.stdin, append([]string{"--lang", "python"}, c.args...)...)
			if !strings.Contains(r.stdout, c.out) || !strings.Contains(r.stderr, c.err) || r.status != c.code {
				t.Errorf("got %v; want %q, %q, %d", r, c.out, c.err, c.code)
			}
		})
	}
}

func TestProgram_RIsNotThereOnWindowsAndSaysSo(t *testing.T) {
	r := newHome(t).run(t, "", "--lang", "r", "-e", "1")
	if r.stdout != "" || strings.Count(r.stderr, "\n") != 1 || !strings.Contains(r.stderr, "Windows") || r.status == 0 {
		t.Errorf("got %v; want one line that says so", r)
	}
}

func TestMCP_OnWindows(t *testing.T) {
	cmd := newHome(t).command(t, "mcp", "--lang", "python")
	a := speak(t, cmd, func() {
		stuck := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
		t.Cleanup(func() { stuck.Stop() })
	})
	for _, c := range []struct{ input, want string }{
		{"6*7", "42"},
		{"name = input('name? ')", "waiting for input"},
		{"Ada", ""},
		{"name", "Ada"},
	} {
		got := string(a.request("tools/call", map[string]any{"name": "repl", "arguments": map[string]any{"input": c.input}}))
		if !strings.Contains(got, c.want) || strings.Contains(got, `"isError":true`) {
			t.Errorf("%q: got %s, want %q in it", c.input, got, c.want)
		}
	}
	if err := a.in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("at the end of its input: %v", err)
	}
}
