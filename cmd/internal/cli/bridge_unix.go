//go:build unix

package cli

import (
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/turnstone-repl/turnstone/internal/daemonlock"
)

// persistentSocket is where a daemon listens that a login starts which may be about to end: in no
// directory that goes with the login.
func persistentSocket(getenv func(string) string) string {
	if named := getenv("TURNSTONE_SOCKET"); named != "" {
		return named
	}
	return daemonlock.PersistentSocketPaths(getenv)[0]
}

// restartInLoginShell begins this command anew in a login shell, so that the daemon which it starts has
// the environment of a login. It returns only with an error.
func restartInLoginShell(args []string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	words := append([]string{"sh", "-lc", `exec "$0" "$@"`, self, "bridge"}, withoutLoginFlag(args)...)
	return syscall.Exec("/bin/sh", words, os.Environ())
}

// withoutLoginFlag leaves out --login-env in all its forms: with it, the command would begin anew for ever.
func withoutLoginFlag(args []string) []string {
	return slices.DeleteFunc(slices.Clone(args), func(a string) bool {
		name, _, _ := strings.Cut(a, "=")
		return name == "--login-env" || name == "-login-env"
	})
}
