//go:build linux

package clients

import (
	"strings"
	"testing"
)

// A model may make several calls in one turn, each meant to follow the one before. Whether a client
// makes them sequentially or all at once, all of them run in order.
func TestAgents_ParallelCalls(t *testing.T) {
	inputs := []string{"a = [1]", "import time\ntime.sleep(0.5)\na.append(2)", "a.append(3); a"}
	const want = "[1, 2, 3]"
	for _, a := range parallelAgents {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel() // starting takes most of the time
			calls := joinCalls(replCall(inputs[0]), replCall(inputs[1]), replCall(inputs[2]))
			last := a.runAgent(t, agentOptions{}, calls...).waitResult(t, 2)
			if !strings.Contains(last.text, want) {
				t.Errorf("the last of the three calls got %q, want %q in it", last.text, want)
			}
		})
	}
	t.Run("gemini waits", func(t *testing.T) {
		t.Parallel()
		calls := joinCalls(replCall(inputs[0]), replCall(inputs[1]), replCall(inputs[2]))
		for _, c := range calls[1:] {
			c.arguments["wait_for_previous"] = true // an argument that the client offers with every tool
		}
		m := geminiCLI.runAgent(t, agentOptions{}, calls...)
		if last := m.waitResult(t, 2); !strings.Contains(last.text, want) {
			t.Errorf("the last of the three calls got %q, want %q in it", last.text, want)
		}
		if offered := string(m.toolDefinition("repl")); !strings.Contains(offered, "wait_for_previous") {
			t.Errorf("the client no longer offers the argument: %s", offered)
		}
	})
}

// Codex hides the tools of servers behind a search if it knows the model. Qwen Code always does.
// The search must find the words of the tools of repl mcp.
func TestAgents_ToolSearch(t *testing.T) {
	for _, test := range []struct {
		agent   agentProgram
		options agentOptions
		more    string // the search's argument for the maximum number of tools
	}{
		{codexCLI, agentOptions{model: "gpt-5.5"}, "limit"},
		{qwenCode, agentOptions{}, "max_results"},
	} {
		t.Run(test.agent.name, func(t *testing.T) {
			t.Parallel()
			m := test.agent.runAgent(t, test.options,
				toolCall{tool: searchTool, arguments: jsonObject{"query": "run python code in a repl", test.more: 8}},
				replCall("6 * 7"))
			found := m.waitResult(t, 0).text
			for _, tool := range []string{"repl", "repl_output", "repl_interrupt", "repl_reset", "repl_sessions"} {
				if !strings.Contains(found, test.agent.toolName(tool)) {
					t.Errorf("the search did not find %s: %s", tool, found)
				}
			}
			if got := m.waitResult(t, 1).text; !strings.Contains(got, "42") {
				t.Errorf("the model received %q, want 42", got)
			}
		})
	}
}
