package backend_test

import (
	"testing"

	"github.com/turnstone-repl/turnstone/internal/testkit/fakeworker"
	"github.com/turnstone-repl/turnstone/internal/testkit/sandboxcheck"
	"github.com/turnstone-repl/turnstone/internal/testkit/testmain"
	"github.com/turnstone-repl/turnstone/supervisor"
)

func TestMain(m *testing.M) {
	testmain.Run(m, testmain.Options{
		Monitor:  supervisor.MonitorMain,
		Programs: []testmain.Program{fakeworker.Program},
		RunAll:   sandboxcheck.RunTests,
	})
}
