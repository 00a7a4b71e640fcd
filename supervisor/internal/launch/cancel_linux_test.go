package launch_test

import (
	"context"
	"errors"
	"testing"

	"github.com/turnstone-repl/turnstone/supervisor/internal/launch"
)

func TestStartCanceled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p, err := launch.Start(&launch.StartConfig{Path: findProgram(t, "sleep"), Args: []string{"1000"}, Context: ctx})
	if err == nil {
		p.Close()
	}
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}
