//go:build linux

package clients

import (
	"strings"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
)

// Esc in Claude Code and Codex cancels the call, which interrupts the code. Gemini does not inform
// the server, so the code continues. The next call is queued behind it and reports that after 5 s,
// further calls at once.
func TestAgents_Escape(t *testing.T) {
	wants := map[string][]string{
		"claude": {"so far", "KeyboardInterrupt", "x is 42"},
		"codex":  {"so far", "KeyboardInterrupt", "x is 42"},
		"gemini": {"so far", "[your input was NOT run: an earlier call is not answered yet; running ", "repl_interrupt"},
	}
	ready := map[string]string{"claude": "auto mode on", "codex": "stub default", "gemini": "Type your message"}
	for _, a := range mainAgents {
		t.Run(a.name, func(t *testing.T) {
			p := newTestHome(t)
			m := newFakeModel(t, a.dialect, a.toolName, replCall("x = 42"), replCall(slowCode))
			_, session := a.configure(t, p, m, agentOptions{})
			s := openTerminal(t, session)
			s.waitText(ready[a.name])
			s.typePrompt(m, "first")
			wait.Until(t, "the code has started", func() bool { return p.projectFileExists("started") })
			calls := len(m.seenResults())
			s.typeKeys(escape)
			s.waitText(interruptedTexts[a.name])
			m.addCall(replCall("print('x is', x)"))
			s.typePrompt(m, "second")
			got := m.waitResult(t, calls+1)
			t.Logf("%q", resultTexts(m.seenResults()))
			for _, want := range wants[a.name] {
				if !strings.Contains(got.text, want) {
					t.Errorf("the next reply is %q, want %q in it", got.text, want)
				}
			}
		})
	}
}

// interruptedTexts is the text that an agent shows after Esc.
var interruptedTexts = map[string]string{"claude": "Interrupted", "codex": "interrupted", "gemini": "cancelled"}
