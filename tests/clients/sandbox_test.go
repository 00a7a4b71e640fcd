//go:build linux

package clients

import (
	"strings"
	"testing"
)

// The user of Codex chooses the permissions of its commands. Our sessions must not have more.
func TestSandbox_Codex(t *testing.T) {
	const writes = `open("written", "w").close()`
	for mode, want := range map[string]struct {
		text    string
		written bool
	}{
		"read-only":          {"[sandbox read-only: ", false},
		"workspace-write":    {"[sandbox workspace: it writes ", true},
		"danger-full-access": {"[sandbox workspace: it writes ", true},
	} {
		t.Run(mode, func(t *testing.T) {
			p := newTestHome(t)
			m := newFakeModel(t, codexCLI.dialect, codexCLI.toolName, replCall(writes))
			once, _ := codexCLI.configure(t, p, m, agentOptions{})
			once.Args = append(once.Args, "-c", "sandbox_mode='"+mode+"'")
			if out, err := runToEnd(t, once); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			got := m.waitResult(t, 0).text
			if !strings.Contains(got, want.text) || strings.Contains(got, "the sandbox is limited to what Codex allows its own commands") == want.written {
				t.Errorf("the model received %q", got)
			}
			if got := p.projectFileExists("written"); got != want.written {
				t.Errorf("written: %v, want %v", got, want.written)
			}
		})
	}
}
