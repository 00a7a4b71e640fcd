package supervisor

import (
	"fmt"

	"github.com/turnstone-repl/turnstone/session"
)

// startError says why a session's worker could not be started.
func startError(name string, cause error) error {
	return &session.Error{Kind: session.KindStart, Message: fmt.Sprintf("session %q did not start: %v", name, cause), Cause: cause}
}
