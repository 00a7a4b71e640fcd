package console

import (
	"context"
	"testing"

	"github.com/turnstone-repl/turnstone/session"
)

// slowParser is a session that fails to answer in time for its first queries.
type slowParser struct {
	session.Session
	silentCalls int
}

func (s *slowParser) Info(context.Context) (session.Info, error) {
	return session.Info{State: session.StateIdle}, nil
}

func (s *slowParser) Parse(context.Context, string) (session.ParseStatus, error) {
	if s.silentCalls--; s.silentCalls >= 0 {
		return session.ParseUnknown, nil
	}
	return session.ParseIncomplete, nil
}

func TestIncompleteInput(t *testing.T) {
	for silent, whole := range map[int]bool{0: false, 1: false, 3: false, 4: true} {
		c := conversation{session: &slowParser{silentCalls: silent}}
		if got := c.isCompleteInput(t.Context(), "def f():"); got != whole {
			t.Errorf("silent %d times: complete is %t", silent, got)
		}
	}
}

func TestSignatureHint(t *testing.T) {
	for description, want := range map[string]string{
		"Signature: f(x, y=1)\nType: function\n\nAdds two numbers.\n\nMore.\n": "f(x, y=1)\nAdds two numbers.",
		"Signature: f()\nType: function\n":                                     "f()",
		"Type: int\nValue: 3\n\nint([x]) -> integer\n":                         "",
		"": "",
	} {
		if got := signatureHint(description); got != want {
			t.Errorf("of %q: got %q, want %q", description, got, want)
		}
	}
}
