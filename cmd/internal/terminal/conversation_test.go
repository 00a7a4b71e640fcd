package terminal

import (
	"context"
	"testing"

	"github.com/turnstone-repl/turnstone/supervisor"
)

// slowParser does not say in time, for some times.
type slowParser struct {
	Session
	silent int
}

func (s *slowParser) Info() supervisor.Info { return supervisor.Info{State: supervisor.StateIdle} }

func (s *slowParser) Parse(context.Context, string) (supervisor.ParseStatus, error) {
	if s.silent--; s.silent >= 0 {
		return supervisor.ParseUnknown, nil
	}
	return supervisor.ParseIncomplete, nil
}

func TestConversation_HalfAnInputIsNotRunOnABusyMachine(t *testing.T) {
	for silent, whole := range map[int]bool{0: false, 1: false, 3: false, 4: true} {
		c := conversation{session: &slowParser{silent: silent}}
		if got := c.whole(t.Context(), "def f():"); got != whole {
			t.Errorf("silent %d times: whole is %t", silent, got)
		}
	}
}
