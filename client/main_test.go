package client_test

import (
	"os"
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/parallel"
	"github.com/turnstone-repl/turnstone/tests/states"
)

func TestMain(m *testing.M) {
	parallel.AllowParallel()
	os.Exit(states.RunIsolated(m.Run))
}
