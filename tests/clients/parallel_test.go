//go:build linux

package clients

import (
	"strings"
	"testing"
)

// A model may make several calls in one turn, each of which was meant to follow the
// one before. Whether a client makes them one after the other or all at once, every
// one of them runs, in their order.
func TestAgents_CallsOfOneTurnRunInOrder(t *testing.T) {
	inputs := []string{"a = [1]", "import time\ntime.sleep(0.5)\na.append(2)", "a.append(3); a"}
	const want = "[1, 2, 3]"
	for _, a := range parallel {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel() // they mostly start
			calls := together(run(inputs[0]), run(inputs[1]), run(inputs[2]))
			last := a.runs(t, options{}, calls...).result(t, 2)
			if !strings.Contains(last.text, want) {
				t.Errorf("the last of the three is told %q, want %q in it", last.text, want)
			}
		})
	}
	t.Run("gemini waits", func(t *testing.T) {
		t.Parallel()
		calls := together(run(inputs[0]), run(inputs[1]), run(inputs[2]))
		for _, c := range calls[1:] {
			c.arguments["wait_for_previous"] = true // an argument that the client offers with every tool
		}
		m := geminiCLI.runs(t, options{}, calls...)
		if last := m.result(t, 2); !strings.Contains(last.text, want) {
			t.Errorf("the last of the three is told %q, want %q in it", last.text, want)
		}
		if offered := string(m.offered("repl")); !strings.Contains(offered, "wait_for_previous") {
			t.Errorf("the client does not offer the argument any more: %s", offered)
		}
	})
}

// Codex hides the tools of servers behind a search when it knows the model. Qwen Code always
// does. The search has to find the words of our tools.
func TestAgents_FindOurToolsBySearch(t *testing.T) {
	for _, test := range []struct {
		agent   agent
		options options
		more    string // the search's argument for how many tools it may find
	}{
		{codex, options{model: "gpt-5.5"}, "limit"},
		{qwenCode, options{}, "max_results"},
	} {
		t.Run(test.agent.name, func(t *testing.T) {
			t.Parallel()
			m := test.agent.runs(t, test.options,
				call{tool: searchTool, arguments: object{"query": "run python code in a repl", test.more: 8}},
				run("6 * 7"))
			found := m.result(t, 0).text
			for _, tool := range []string{"repl", "repl_output", "repl_interrupt", "repl_reset", "repl_sessions"} {
				if !strings.Contains(found, test.agent.tool(tool)) {
					t.Errorf("%s is not among what was found: %s", tool, found)
				}
			}
			if got := m.result(t, 1).text; !strings.Contains(got, "42") {
				t.Errorf("the model is told %q, want 42", got)
			}
		})
	}
}
