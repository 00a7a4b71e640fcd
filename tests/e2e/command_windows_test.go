package e2e_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// repl starts the command, which TURNSTONE_TEST_REPL names: where these tests run,
// there may be no Go to build it with.
func repl(t *testing.T, stdin string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	path := os.Getenv("TURNSTONE_TEST_REPL")
	if path == "" {
		t.Skip("TURNSTONE_TEST_REPL does not name a repl.exe")
	}
	ctx := t.Context()
	cmd := exec.CommandContext(ctx, path, args...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

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
			out, errs, code := repl(t, c.stdin, append([]string{"--lang", "python"}, c.args...)...)
			if !strings.Contains(out, c.out) || !strings.Contains(errs, c.err) || code != c.code {
				t.Errorf("got %q, %q, exit status %d; want %q, %q, %d", out, errs, code, c.out, c.err, c.code)
			}
		})
	}
}

func TestProgram_RIsNotThereOnWindowsAndSaysSo(t *testing.T) {
	out, errs, code := repl(t, "", "--lang", "r", "-e", "1")
	if out != "" || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, "Windows") || code == 0 {
		t.Errorf("got %q, %q, exit status %d; want one line that says so", out, errs, code)
	}
}

func TestMCP_OnWindows(t *testing.T) {
	path := os.Getenv("TURNSTONE_TEST_REPL")
	if path == "" {
		t.Skip("TURNSTONE_TEST_REPL does not name a repl.exe")
	}
	cmd := exec.CommandContext(t.Context(), path, "mcp", "--lang", "python")
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
	stuck := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
	defer stuck.Stop()
	answers := json.NewDecoder(out)
	ask := func(request string) string {
		t.Helper()
		if _, err := io.WriteString(in, request+"\n"); err != nil {
			t.Fatal(err)
		}
		var answer json.RawMessage
		if err := answers.Decode(&answer); err != nil {
			t.Fatal(err)
		}
		return string(answer)
	}
	ask(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`)
	if _, err := io.WriteString(in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	for id, c := range []struct{ input, want string }{
		{"6*7", "42"},
		{"name = input('name? ')", "waiting for input"},
		{"Ada", ""},
		{"name", "Ada"},
	} {
		request, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id + 2, "method": "tools/call",
			"params": map[string]any{"name": "repl", "arguments": map[string]any{"input": c.input}}})
		if err != nil {
			t.Fatal(err)
		}
		if got := ask(string(request)); !strings.Contains(got, c.want) || strings.Contains(got, `"isError":true`) {
			t.Errorf("%q: got %s, want %q in it", c.input, got, c.want)
		}
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("at the end of its input: %v", err)
	}
}
