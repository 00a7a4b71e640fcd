package remote

import (
	"errors"

	"github.com/turnstone-repl/turnstone/client"
)

// persistentSocket returns the default pipe, which belongs to no login.
func persistentSocket(getenv func(string) string) string { return client.DefaultSocket(getenv) }

// restartInLoginShell fails: Windows has no login shells.
func restartInLoginShell([]string) error {
	return errors.New("--login-env: Windows has no login shells")
}
