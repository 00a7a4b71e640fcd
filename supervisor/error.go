package supervisor

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/turnstone-repl/turnstone/internal/text"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/workers"
)

// closedError is the error for opening a session in a closed supervisor.
func closedError() error {
	return &session.Error{Kind: session.KindClosed, Message: "the supervisor is closed"}
}

// checkSpec returns why no worker can start from a spec, before anything is attempted. The error is
// session.ErrSpec for a mistake in the spec, and session.ErrStart if this machine lacks the
// runtime.
func checkSpec(name string, spec *workers.Spec) error {
	err := spec.Validate()
	if err == nil && spec.Dir != "" {
		if info, failed := os.Stat(spec.Dir); failed != nil {
			err = fmt.Errorf("working directory: %w", failed)
		} else if !info.IsDir() {
			err = fmt.Errorf("working directory: %s is not a directory", spec.Dir)
		}
	}
	if err == nil {
		_, err = os.Stat(spec.Path)
	}
	if err == nil {
		return nil
	}
	kind := session.KindSpec
	if _, missing := errors.AsType[*workers.MissingError](err); missing {
		kind = session.KindStart
	}
	return &session.Error{Kind: kind, Message: startErrorText(name, err), Cause: err}
}

// startError wraps the reason why a session's worker did not start.
func startError(name string, cause error) error {
	return &session.Error{Kind: session.KindStart, Message: startErrorText(name, cause), Cause: cause}
}

func startErrorText(name string, cause error) string {
	return fmt.Sprintf("session %q did not start: %v", name, cause)
}

func invalidNameError(name string) error {
	return session.Errorf(session.KindName, "%q is not a session name: use 1 to 64 letters, digits, dots, dashes and underscores", name)
}

func existsError(name string) error {
	return session.Errorf(session.KindExists, "a session named %q is open", name)
}

// fitValidText returns valid text of at most n bytes.
func fitValidText(s string, n int) string {
	s = strings.ToValidUTF8(s, "\uFFFD") // first, because the replacement can be longer
	if len(s) > n {
		s = text.ShortenBytes(s, n-len("…"))
	}
	return s
}
