//go:build linux

package clients

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// countTokens estimates the tokens of a text as four bytes each. Codex does the same when it
// truncates the output of its own tools.
func countTokens(text string) int { return (len(text) + 3) / 4 }

// tokenTasks are frequent tasks of agents, as Python code.
var tokenTasks = []struct {
	name   string
	code   string
	atMost int // tokens of the reply of repl mcp; justify a change that raises it
}{
	{"first expression", "1 + 1", 70}, // including the line about the sandbox
	{"expression", "1 + 1", 20},
	{"help page", "help(str)", 2700},
	{"traceback", "def f(n):\n    return 1 / n if n == 0 else f(n - 1)\nf(20)", 300},
	{"progress bar", "import sys, time\nfor i in range(1, 2001):\n    sys.stderr.write(f'\\r{i * 100 // 2000:3d}%|{\"#\" * (i * 40 // 2000):40}| {i}/2000')\n    sys.stderr.flush()\n_ = sys.stderr.write('\\n')", 120},
	{"1 MB of lines", "for i in range(20000):\n    print(f'line {i:6d} that no user reads, in {20000:6d}')", 2700},
}

// The same code runs in Codex through repl mcp and through its own command tool, to compare the
// costs.
func TestTokens_CodexReplies(t *testing.T) {
	var replCalls, execCalls []toolCall
	for _, task := range tokenTasks {
		replCalls = append(replCalls, replCall(task.code))
		execCalls = append(execCalls, toolCall{tool: execTool, arguments: map[string]any{"cmd": "python3 - <<'END'\n" + printedCode(task.code) + "\nEND"}})
	}
	replModel := codexCLI.runAgent(t, agentOptions{}, replCalls...)
	execModel := codexCLI.runAgent(t, agentOptions{}, execCalls...)
	var table strings.Builder
	fmt.Fprintf(&table, "%-14s %8s %8s\n", "", "repl", execTool)
	for i, task := range tokenTasks {
		a, b := replModel.seenResults()[i].text, execModel.seenResults()[i].text
		fmt.Fprintf(&table, "%-14s %8d %8d\n", task.name, countTokens(a), countTokens(b))
		if countTokens(a) > task.atMost {
			t.Errorf("%s costs %d tokens, want at most %d: %.300q", task.name, countTokens(a), task.atMost, a)
		}
		if !utf8.ValidString(a) {
			t.Errorf("%s is not text: %.300q", task.name, a)
		}
	}
	definitions := 0
	for _, tool := range []string{"repl", "repl_output", "repl_interrupt", "repl_reset", "repl_sessions"} {
		definitions += countTokens(string(replModel.toolDefinition(tool)))
	}
	fmt.Fprintf(&table, "%-14s %8d %8d\n", "definitions", definitions, countTokens(string(replModel.toolDefinition(execTool))))
	t.Logf("approximate tokens received by Codex's model\n%s", table.String())
}

// execTool is Codex's tool for commands.
const execTool = "exec_command"

// printedCode returns code that prints the value of its last line, as a REPL would.
func printedCode(code string) string {
	if strings.ContainsAny(code, "\n(") {
		return code
	}
	return "print(" + code + ")"
}
