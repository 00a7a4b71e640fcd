//go:build linux

package clients

import (
	"strings"
	"testing"
)

// Esc in Claude Code and Codex cancels the call, which interrupts the code.
// Gemini's tells the server nothing, so the code goes on; the next call is held for the
// one before, and says so after 5 s, and further ones at once.
func TestEsc_InterruptsOrTheNextCallSaysWhatRuns(t *testing.T) {
	wants := map[string][]string{
		"claude": {"so far", "KeyboardInterrupt", "x is 42"},
		"codex":  {"so far", "KeyboardInterrupt", "x is 42"},
		"gemini": {"so far", "[your input was NOT run: an earlier call is not answered yet; running ", "repl_interrupt"},
	}
	ready := map[string]string{"claude": "auto mode on", "codex": "stub default", "gemini": "Type your message"}
	for _, a := range agents {
		t.Run(a.name, func(t *testing.T) {
			p := newPlace(t)
			m := newModel(t, a.dialect, a.tool, run("x = 42"), run(slow))
			_, session := a.configure(t, p, m, options{})
			s := open(t, session)
			s.sees(ready[a.name])
			s.says(m, "first")
			eventually(t, "the code has started", func() bool { return p.exists("started") })
			calls := len(m.seen())
			s.types(escape)
			s.sees(interrupted[a.name])
			m.then(run("print('x is', x)"))
			s.says(m, "second")
			got := m.result(t, calls+1)
			t.Logf("%q", texts(m.seen()))
			for _, want := range wants[a.name] {
				if !strings.Contains(got.text, want) {
					t.Errorf("the next reply is %q, want %q in it", got.text, want)
				}
			}
		})
	}
}

// interrupted is what an agent shows after Esc.
var interrupted = map[string]string{"claude": "Interrupted", "codex": "interrupted", "gemini": "cancelled"}
