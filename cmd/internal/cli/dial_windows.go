package cli

import (
	"errors"

	"github.com/turnstone-repl/turnstone/client"
)

// lastingSocket is the usual pipe: no login owns it.
func lastingSocket(getenv func(string) string) string { return client.DefaultSocket(getenv) }

// startByLogin fails: Windows has no login shells.
func startByLogin([]string) error {
	return errors.New("--login: there are no login shells on Windows")
}
