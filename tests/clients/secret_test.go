//go:build linux

package clients

import (
	"strings"
	"testing"
	"time"

	"github.com/turnstone-repl/turnstone/internal/testkit/wait"
)

// Claude Code and Codex ask their user for a secret, bypassing the model. Gemini cannot, so its
// model gets advice for the user.
func TestAgents_Secret(t *testing.T) {
	const secret = "hunter2"
	for _, test := range []struct {
		agent agentProgram
		args  []string
		ready string
		form  string // shown when the user is asked
		want  string // in the texts that the model gets
	}{
		{claudeCode, nil, "auto mode on", "Type something", "7"},
		{codexCLI, []string{"-c", "approval_policy='on-request'"}, "stub default", "enter to submit", "7"},
		{codexCLI, nil, "stub default", "", "the question was declined"}, // here the user must not be asked
		{geminiCLI, nil, "Type your message", "", "this client cannot ask"},
	} {
		t.Run(test.agent.name, func(t *testing.T) {
			p := newTestHome(t)
			m := newFakeModel(t, test.agent.dialect, test.agent.toolName, replCall("import getpass; len(getpass.getpass('vault: '))"))
			_, session := test.agent.configure(t, p, m, agentOptions{})
			session.Args = append(session.Args, test.args...)
			s := openTerminal(t, session)
			s.waitText(test.ready)
			s.typePrompt(m, "first")
			if test.form != "" {
				s.waitText(`REPL session "main"`)
				s.waitText(test.form)
				s.typeKeys(secret)
				s.waitText(secret)
				// Claude Code ignores a return soon after it has drawn the button.
				for range 10 {
					<-time.After(keyDelay)
					s.typeKeys("\r")
					if wait.Within(time.Second, func() bool { return len(m.seenResults()) > 0 }) {
						break
					}
				}
			}
			got := m.waitResult(t, 0).text
			t.Logf("%q", got)
			if !strings.Contains(got, test.want) {
				t.Errorf("the model received %q, want %q in it", got, test.want)
			}
			if strings.Contains(got, secret) {
				t.Errorf("the model received the secret: %q", got)
			}
		})
	}
}
