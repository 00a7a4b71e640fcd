package terminal

import (
	"context"
	"testing"

	"github.com/turnstone-repl/turnstone/session"
)

// slowParser does not say in time, for some times.
type slowParser struct {
	session.Session
	silent int
}

func (s *slowParser) Info(context.Context) (session.Info, error) {
	return session.Info{State: session.StateIdle}, nil
}

func (s *slowParser) Parse(context.Context, string) (session.ParseStatus, error) {
	if s.silent--; s.silent >= 0 {
		return session.ParseUnknown, nil
	}
	return session.ParseIncomplete, nil
}

func TestConversation_HalfAnInputIsNotRunOnABusyMachine(t *testing.T) {
	for silent, whole := range map[int]bool{0: false, 1: false, 3: false, 4: true} {
		c := conversation{session: &slowParser{silent: silent}}
		if got := c.whole(t.Context(), "def f():"); got != whole {
			t.Errorf("silent %d times: whole is %t", silent, got)
		}
	}
}
