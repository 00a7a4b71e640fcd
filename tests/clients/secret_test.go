//go:build linux

package clients

import (
	"strings"
	"testing"
	"time"
)

// Claude Code and Codex ask their user for a secret, past the model. Gemini cannot,
// and its model learns what its user can do.
func TestSecret_IsTypedByTheUserAndTheModelNeverSeesIt(t *testing.T) {
	const secret = "hunter2"
	for _, test := range []struct {
		agent agent
		args  []string
		ready string
		form  string // shown when the user is asked
		want  string // among the texts that the model gets
	}{
		{claude, nil, "auto mode on", "Type something", "7"},
		{codex, []string{"-c", "approval_policy='on-request'"}, "stub default", "enter to submit", "7"},
		{codex, nil, "stub default", "", "the question was declined"}, // for a user whom nobody may ask
		{geminiCLI, nil, "Type your message", "", "this client cannot ask"},
	} {
		t.Run(test.agent.name, func(t *testing.T) {
			p := newPlace(t)
			m := newModel(t, test.agent.dialect, test.agent.tool, run("import getpass; len(getpass.getpass('vault: '))"))
			_, session := test.agent.configure(t, p, m, options{})
			session.Args = append(session.Args, test.args...)
			s := open(t, session)
			s.sees(test.ready)
			s.says(m, "first")
			if test.form != "" {
				s.sees(`REPL session "main"`)
				s.sees(test.form)
				s.types(secret)
				s.sees(secret)
				// Claude Code does not take a return soon after it has drawn the button.
				for range 10 {
					<-time.After(keyPause)
					s.types("\r")
					if holds(time.Second, func() bool { return len(m.seen()) > 0 }) {
						break
					}
				}
			}
			got := m.result(t, 0).text
			t.Logf("%q", got)
			if !strings.Contains(got, test.want) {
				t.Errorf("the model is told %q, want %q in it", got, test.want)
			}
			if strings.Contains(got, secret) {
				t.Errorf("the model is told the secret: %q", got)
			}
		})
	}
}
