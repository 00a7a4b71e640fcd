package supervisor_test

import (
	"testing"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/session/sessiontest"
	"github.com/turnstone-repl/turnstone/workers"
)

func TestSession_Contract(t *testing.T) {
	t.Parallel()
	sessiontest.Run(t, func(t *testing.T, prepare ...workers.Preparation) session.Session {
		spec := fakeSpec(nil)
		spec.Preparations, spec.Dir = prepare, t.TempDir()
		return openSession(t, nil, spec)
	})
}
