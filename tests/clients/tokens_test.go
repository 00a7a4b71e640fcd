//go:build linux

package clients

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// tokens approximates what a text costs a model: four bytes are one. Codex counts
// so when it cuts the output of its own tools.
func tokens(text string) int { return (len(text) + 3) / 4 }

// tasks are what agents do over and over, as code in Python.
var tasks = []struct {
	name   string
	code   string
	atMost int // tokens of our reply; a change that costs more has to say why
}{
	{"first expression", "1 + 1", 70}, // with what the sandbox holds
	{"expression", "1 + 1", 20},
	{"help page", "help(str)", 2700},
	{"traceback", "def f(n):\n    return 1 / n if n == 0 else f(n - 1)\nf(20)", 300},
	{"progress bar", "import sys, time\nfor i in range(1, 2001):\n    sys.stderr.write(f'\\r{i * 100 // 2000:3d}%|{\"#\" * (i * 40 // 2000):40}| {i}/2000')\n    sys.stderr.flush()\n_ = sys.stderr.write('\\n')", 120},
	{"1 MB of lines", "for i in range(20000):\n    print(f'line {i:6d} of what nobody reads, in {20000:6d}')", 2700},
}

// The same code runs in Codex through our tool and through its own for commands, to compare
// the costs.
func TestTokens_OfOurRepliesAgainstCodexsOwnTool(t *testing.T) {
	var ours, own []call
	for _, task := range tasks {
		ours = append(ours, run(task.code))
		own = append(own, call{tool: execTool, arguments: map[string]any{"cmd": "python3 - <<'END'\n" + printed(task.code) + "\nEND"}})
	}
	mine := codex.runs(t, options{}, ours...)
	theirs := codex.runs(t, options{}, own...)
	var table strings.Builder
	fmt.Fprintf(&table, "%-14s %8s %8s\n", "", "repl", execTool)
	for i, task := range tasks {
		a, b := mine.seen()[i].text, theirs.seen()[i].text
		fmt.Fprintf(&table, "%-14s %8d %8d\n", task.name, tokens(a), tokens(b))
		if tokens(a) > task.atMost {
			t.Errorf("%s costs %d tokens, at most %d are fine: %.300q", task.name, tokens(a), task.atMost, a)
		}
		if !utf8.ValidString(a) {
			t.Errorf("%s is not text: %.300q", task.name, a)
		}
	}
	definitions := 0
	for _, tool := range []string{"repl", "repl_output", "repl_interrupt", "repl_reset", "repl_sessions"} {
		definitions += tokens(string(mine.offered(tool)))
	}
	fmt.Fprintf(&table, "%-14s %8d %8d\n", "definitions", definitions, tokens(string(mine.offered(execTool))))
	t.Logf("approximate tokens that Codex's model gets\n%s", table.String())
}

// execTool is Codex's tool for commands.
const execTool = "exec_command"

// printed is code that prints the value of its last line, as a REPL would.
func printed(code string) string {
	if strings.ContainsAny(code, "\n(") {
		return code
	}
	return "print(" + code + ")"
}
