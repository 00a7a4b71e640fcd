package mcpserver

import (
	"errors"
	"testing"

	"github.com/turnstone-repl/turnstone/supervisor"
)

func TestView_ARefusedCallLearnsWhoseTurnItWasThoughThatEndsMeanwhile(t *testing.T) {
	v := newView("main", "fake", "")
	first := v.own(&call{})
	_, owner, err := v.start(&call{}, func() (Turn, error) {
		v.disown(first) // while the refusal is on its way
		return nil, supervisor.ErrBusy
	})
	if owner != first || !errors.Is(err, supervisor.ErrBusy) {
		t.Errorf("got %v, %v", owner, err)
	}
}
