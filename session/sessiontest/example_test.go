package sessiontest_test

import (
	"testing"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/session/sessiontest"
	"github.com/turnstone-repl/turnstone/workers"
)

// A test of your implementation opens a session for each test of the suite, with the spec that the
// package comment describes.
func ExampleRun() {
	var openMine func(t *testing.T, prepare []workers.Preparation) session.Session

	testSession := func(t *testing.T) { // TestSession
		sessiontest.Run(t, func(t *testing.T, prepare ...workers.Preparation) session.Session {
			return openMine(t, prepare)
		})
	}
	_ = testSession
}
