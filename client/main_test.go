package client_test

import (
	"os"
	"testing"

	"github.com/turnstone-repl/turnstone/tests/states"
	"github.com/turnstone-repl/turnstone/tests/waits"
)

func TestMain(m *testing.M) {
	waits.AllowParallel()
	os.Exit(states.RunIsolated(m.Run))
}
