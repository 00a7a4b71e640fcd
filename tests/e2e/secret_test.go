//go:build unix

package e2e

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSecret(t *testing.T) {
	t.Parallel()

	// A secret that a user typed stays between the user and the code. No reply, file, export or
	// process shows it, even if the code prints it.
	t.Run("appears nowhere after it was typed", func(t *testing.T) {
		t.Parallel()
		h := newDaemonHome(t)
		h.startDaemon(t)
		a := h.newMCPClient(t, "--daemon", "--name", "bot")
		secrets := []string{`S3CRET/"pw'\é`, "0f-th3-terminal"}
		a.callRepl("import getpass, json, subprocess, sys, urllib.parse; p = getpass.getpass('pw: ')")
		wantResult(t, h.runRepl(t, secrets[0]+"\n", "input", "bot"), result{"\n", "", 0})
		a.callTool("repl_output", map[string]any{"wait_ms": 30_000})
		if got := a.callRepl("p.startswith('S3CRET'), len(p)"); !strings.HasSuffix(got, "(True, 13)") {
			t.Errorf("the code has it: %q", got)
		}
		if got := a.callRepl(`subprocess.run(["sh", "-c", "printf 'pin? '; stty -echo; read -r x; stty echo; echo; echo got $x"])`); !strings.Contains(got, "secret") {
			t.Errorf("a program asks: %q", got)
		}
		h.runRepl(t, secrets[1]+"\n", "input", "bot")
		if got := a.callTool("repl_output", map[string]any{"wait_ms": 30_000}); !strings.Contains(got, "got [secret]") {
			t.Errorf("the program got it: %q", got)
		}
		for _, code := range []string{
			"p", "print(p)", "print({'user': 'me', 'password': p})", "print(json.dumps([p]))", "print(json.dumps([p], ensure_ascii=False))",
			"print('https://me:' + urllib.parse.quote(p, '') + '@host/')", "print(p.encode())", "raise ValueError(p)", "print(p, file=sys.stderr)",
			"for c in p: print(c, end='', flush=True)", "input(p + '? ')",
		} {
			if got := a.callRepl(code); !strings.Contains(got, "[secret]") {
				t.Errorf("%s: %q", code, got)
			}
		}
		h.runRepl(t, "yes\n", "input", "bot")
		a.callTool("repl_output", map[string]any{"wait_ms": 30_000})

		// Everything that anyone can look at.
		seen := map[string]string{"list": h.runRepl(t, "", "list").stdout, "events": h.runRepl(t, "", "events", "bot").stdout}
		for _, format := range []string{"py", "ipynb", "txt"} {
			seen[format] = h.runRepl(t, "", "export", "bot", "--format", format).stdout
		}
		maps.Copy(seen, readProcessInfo(t))
		for _, dir := range append([]string{h.dir, h.tmp}, h.envValue("XDG_STATE_HOME")) {
			err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
				if errors.Is(err, fs.ErrPermission) {
					return fs.SkipDir // the sandbox's placeholder for a hidden file cannot be read
				}
				if err == nil && d.Type().IsRegular() {
					var b []byte
					if b, err = os.ReadFile(path); errors.Is(err, fs.ErrPermission) {
						return nil
					}
					seen[path] = string(b)
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		}
		for where, text := range seen {
			for _, s := range []string{secrets[0], secrets[1], `S3CRET/\"pw`, `S3CRET%2F`} {
				if strings.Contains(text, s) {
					t.Errorf("%s has %q", where, s)
				}
			}
		}
		if text := seen["events"]; !strings.Contains(text, "[secret]") || !strings.Contains(seen["txt"], "[secret]") {
			t.Errorf("where it was is not seen: %q", text)
		}
	})

	// The same in R, where a secret is read with the terminal's echo off.
	t.Run("is redacted where R shows it", func(t *testing.T) {
		t.Parallel()
		h := newRHome(t)
		h.env = append(h.env, "TURNSTONE_SOCKET="+newSocketName(t))
		h.startDaemon(t)
		const secret = `S3CRET/"pw'\é`
		if r := h.runRepl(t, "", "exec", "stats", "--lang", "r", "-e", "ask <- function() { system('stty -echo'); on.exit(system('stty echo')); readline('pw? ') }; p <- ask()"); !strings.Contains(r.stderr, "waiting for input") {
			t.Fatalf("got %v", r)
		}
		h.runRepl(t, secret+"\n", "input", "stats")
		wantResult(t, h.runRepl(t, "", "exec", "stats", "-e", "nchar(p)"), result{"[1] 13\n", "", 0})
		for _, code := range []string{"p", "cat(p, '\\n')", "str(p)", "dput(list(p))", "data.frame(p)", "message(p)", "stop(p)", "URLencode(p, reserved = TRUE)", "setNames(1, p)"} {
			if r := h.runRepl(t, "", "exec", "stats", "-e", code); !strings.Contains(r.stdout, "[secret]") || strings.Contains(r.stdout, "S3CRET") {
				t.Errorf("%s: %v", code, r)
			}
		}
		for _, format := range []string{"R", "ipynb", "txt"} {
			if r := h.runRepl(t, "", "export", "stats", "--format", format); r.status != 0 || strings.Contains(r.stdout, "S3CRET") {
				t.Errorf("%s: %v", format, r)
			}
		}
	})
}
