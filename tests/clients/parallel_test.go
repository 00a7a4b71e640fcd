//go:build linux

package clients

import (
	"strings"
	"testing"
)

// A model may make several calls in one turn, each of which was meant to follow the
// one before. Whether a client makes them one after the other or all at once, every
// one of them runs, in their order.
func TestAgents_ParallelCalls(t *testing.T) {
	inputs := []string{"a = [1]", "import time\ntime.sleep(0.5)\na.append(2)", "a.append(3); a"}
	const want = "[1, 2, 3]"
	for _, a := range parallelAgents {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel() // they mostly start
			calls := joinCalls(replCall(inputs[0]), replCall(inputs[1]), replCall(inputs[2]))
			last := a.runAgent(t, agentOptions{}, calls...).waitResult(t, 2)
			if !strings.Contains(last.text, want) {
				t.Errorf("the last of the three is told %q, want %q in it", last.text, want)
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
			t.Errorf("the last of the three is told %q, want %q in it", last.text, want)
		}
		if offered := string(m.toolDefinition("repl")); !strings.Contains(offered, "wait_for_previous") {
			t.Errorf("the client does not offer the argument any more: %s", offered)
		}
	})
}

// Codex hides the tools of servers behind a search when it knows the model. Qwen Code always
// does. The search has to find the words of our tools.
func TestAgents_ToolSearch(t *testing.T) {
	for _, test := range []struct {
		agent   agentProgram
		options agentOptions
		more    string // the search's argument for how many tools it may find
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
					t.Errorf("%s is not among what was found: %s", tool, found)
				}
			}
			if got := m.waitResult(t, 1).text; !strings.Contains(got, "42") {
				t.Errorf("the model is told %q, want 42", got)
			}
		})
	}
}
