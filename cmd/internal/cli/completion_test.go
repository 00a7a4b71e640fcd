package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/cmd/internal/languages"
	"github.com/turnstone-repl/turnstone/internal/testkit/kernelspecs"
)

func TestCompleteWord(t *testing.T) {
	t.Setenv("TURNSTONE_SOCKET", t.TempDir()+"/none")
	for _, test := range []struct{ before, word, want string }{
		{"", "in", ":files input interrupt install"},
		{"", "--la", "--lang"},
		{"", "zzz", ":files"},
		{"--lang", "", "python r"},
		{"--lang", "p", "python"},
		{"--lang", "--dir", ""}, // --dir is the value of --lang
		{"", "--lang=p", "--lang=python"},
		{"--lang =", "p", "python"}, // as bash splits it
		{"--dir", "x", ":dirs"},
		{"--lang r script.R", "--l", ":files"}, // --l is an argument of the program
		{"--lang r --", "--l", ":files"},
		{"mcp", "--s", "--sandbox --sandbox-fallback --session-dir --session-idle-timeout --socket --stdin"},
		{"mcp --stdin", "", "auto model ask deny"},
		{"mcp --daemon", "--na", "--name"}, // the value of --daemon is optional
		{"mcp --daemon =", "", "auto"},
		{"mcp", "", ""},
		{"install", "c", "claude codex copilot cline continue cursor claude-desktop"},
		{"install codex --scope", "", "user project"},
		{"install --scope project codex", "z", "zed"},
		{"service", "", "install uninstall print"},
		{"service print", "", "systemd launchd"},
		{"service print launchd", "", ""},
		{"daemon", "s", "status stop"},
		{"daemon status", "", ""},
		{"worker", "", "check"},
		{"worker check", "x", ":files"},
		{"worker check ./w", "--t", ":files"},
		{"worker check --dialect", "", "python r"},
		{"export --format", "", "py ipynb txt R"},
		{"recover --format", "n", "notebook"},
		{"completion", "", "bash zsh fish powershell"},
		{"help", "se", "sessions serve service"},
		{"attach", "", ""}, // no daemon runs
		{"attach --lock-holder", "x", ""},
	} {
		var got []string
		for _, o := range completeWord(strings.Fields(test.before), test.word) {
			if !strings.HasPrefix(o.Word, languages.JupyterPrefix) || test.word != "" { // the kernels that this machine has
				got = append(got, o.Word)
			}
		}
		if !slices.Equal(got, strings.Fields(test.want)) && strings.Join(got, " ") != test.want {
			t.Errorf("repl %s %q: got %q, want %q", test.before, test.word, got, test.want)
		}
	}
}

func TestCompletionScripts(t *testing.T) {
	for _, shell := range shellNames() {
		if status, out, err := runLine(t, "completion", shell); status != 0 || !strings.Contains(out, "completion") || err != "" {
			t.Errorf("%s: got status %d and %q", shell, status, err)
		}
	}
	for _, args := range [][]string{{"completion"}, {"completion", "tcsh"}, {"completion", "../cli.go"}} {
		if status, out, err := runLine(t, args...); status != cmdkit.StatusUsage || out != "" || !strings.Contains(err, "bash, zsh") {
			t.Errorf("%q: got status %d, %q and %q", args, status, out, err)
		}
	}
}

func TestCompleteWord_Kernels(t *testing.T) {
	kernelspecs.Install(t, map[string]string{"turnstone-basic": kernelspecs.Usable(t), "turnstone-bad": `{}`})
	offers := map[string]string{}
	for _, o := range completeWord([]string{"--lang"}, "jupyter:turnstone") {
		offers[o.Word] = o.Description
	}
	if len(offers) != 1 || offers["jupyter:turnstone-basic"] != "Basic" {
		t.Error(offers)
	}
}
