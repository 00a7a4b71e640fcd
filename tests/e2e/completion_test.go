//go:build unix

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/replbin"
)

// completeInShell lets a shell complete a line, with the shell's own functions, and returns the
// completions.
func (h home) completeInShell(t *testing.T, shell, script string) []string {
	t.Helper()
	path, err := exec.LookPath(shell)
	if err != nil {
		t.Skipf("%s is not installed", shell)
	}
	cmd := exec.CommandContext(t.Context(), path, "-c", script)
	cmd.Dir, cmd.Env = h.dir, append(h.env[:len(h.env):len(h.env)], "PATH="+newPathWithRepl(t))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return strings.Fields(string(out))
}

// newPathWithRepl returns a PATH on which the command is called repl.
func newPathWithRepl(t *testing.T) string {
	t.Helper()
	bin := t.TempDir()
	if err := os.Symlink(replbin.Path(), filepath.Join(bin, "repl")); err != nil {
		t.Fatal(err)
	}
	return bin + ":" + os.Getenv("PATH")
}

// completeInBash completes the last word of a line that bash has split into words.
func (h home) completeInBash(t *testing.T, words ...string) []string {
	t.Helper()
	current := words[len(words)-1]
	if current == "=" {
		current = ""
	}
	quoted := "'" + strings.Join(words, "' '") + "'"
	return h.completeInShell(t, "bash", `source <(repl completion bash)
COMP_WORDS=(`+quoted+`) COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_repl repl '`+current+`' ''
printf '%s\n' "${COMPREPLY[@]}"`)
}

func TestCompletion_InBash(t *testing.T) {
	t.Parallel()
	h := newDaemonHome(t)
	h.startDaemon(t)
	wantResult(t, h.runRepl(t, "", "exec", "mine", "-e", "x = 1"), result{"", newSessionNotice("mine"), 0})
	for _, name := range []string{"a script.py", "b.py"} {
		if err := os.WriteFile(filepath.Join(h.dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for line, offered := range map[string]string{
		"repl|do":                    "doctor",
		"repl|attach|":               "mine",
		"repl|attach|--w":            "--watch",
		"repl|detach|--lock-holder|": "mine",
		"repl|--lang|":               "python r",
		"repl|mcp|--stdin|=|a":       "auto ask",
		"repl|mcp|--daemon|=":        "auto",
		"repl|install|claude|zed":    "zed",
		"repl|a ":                    "a script.py",
		"repl|--lang|r|--|b":         "b.py",
	} {
		words := h.completeInBash(t, strings.Split(line, "|")...)
		words = slices.DeleteFunc(words, func(word string) bool { return strings.HasPrefix(word, "jupyter:") }) // kernels of this machine
		if got := strings.Join(words, " "); got != offered {
			t.Errorf("%s: got %q, want %q", line, got, offered)
		}
	}
}

// The test types keys at the prompt of a shell.
func TestCompletion_AtAPrompt(t *testing.T) {
	t.Parallel()
	for shell, begin := range map[string]string{
		"bash": "bash --norc --noprofile -i",
		"zsh":  "zsh -f -i",
	} {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			path, err := exec.LookPath(shell)
			if err != nil {
				t.Skipf("%s is not installed", shell)
			}
			h := newDaemonHome(t)
			h.startDaemon(t)
			wantResult(t, h.runRepl(t, "", "exec", "mine", "-e", "x = 1"), result{"", newSessionNotice("mine"), 0})
			h.env = append(h.env, "PATH="+newPathWithRepl(t), "TERM=xterm", "HISTFILE=")
			p := h.startProgram(t, exec.CommandContext(t.Context(), path, strings.Fields(begin)[1:]...))
			if shell == "zsh" {
				p.typeKeys("autoload -U compinit; compinit -u -D\r")
			}
			p.typeKeys("source <(repl completion " + shell + "); PS1='rea''dy> '\r")
			p.waitText("ready> ")
			p.typeKeys("repl atta\t")
			p.waitText("ch ")
			p.typeKeys("m\t")
			p.waitText("ine ")
			p.typeKeys("--wa\t")
			p.waitText("tch ")
			p.typeKeys("\x15exit\r")
			_ = p.cmd.Wait()
		})
	}
}

func TestCompletion_InFish(t *testing.T) {
	t.Parallel()
	h := newDaemonHome(t)
	h.startDaemon(t)
	wantResult(t, h.runRepl(t, "", "exec", "mine", "-e", "x = 1"), result{"", newSessionNotice("mine"), 0})
	for line, offered := range map[string]string{
		"repl do":              "doctor",
		"repl attach ":         "mine",
		"repl attach --w":      "--watch",
		"repl mcp --stdin=au":  "--stdin=auto",
		"repl install claude-": "claude-desktop",
	} {
		got := h.completeInShell(t, "fish", `repl completion fish | source; complete -C '`+line+`' | string split -f1 \t; true`)
		if len(got) == 0 || got[0] != offered {
			t.Errorf("%s: got %q, want %q", line, got, offered)
		}
	}
}
