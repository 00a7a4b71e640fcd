package supervisor_test

import (
	"testing"

	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/session/sessiontest"
)

func TestSession_KeepsThePromisesOfTheInterface(t *testing.T) {
	sessiontest.Run(t, func(t *testing.T) session.Session { return open(t, nil, fake(nil)) })
}
