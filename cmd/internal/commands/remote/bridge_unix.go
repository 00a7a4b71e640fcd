//go:build unix

package remote

import (
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/turnstone-repl/turnstone/internal/daemonlock"
)

// persistentSocket returns the socket of a daemon that must outlive the current login. It is in a
// directory that stays when the login ends.
func persistentSocket(getenv func(string) string) string {
	if named := getenv("TURNSTONE_SOCKET"); named != "" {
		return named
	}
	return daemonlock.PersistentSocketPaths(getenv)[0]
}

// restartInLoginShell runs this command again in a login shell, so that the daemon it starts has
// the environment of a login. It returns only with an error.
func restartInLoginShell(args []string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	words := append([]string{"sh", "-lc", `exec "$0" "$@"`, self, "bridge"}, withoutLoginFlag(args)...)
	return syscall.Exec("/bin/sh", words, os.Environ())
}

// withoutLoginFlag removes --login-env in all its forms. With it, the command would restart itself
// without end.
func withoutLoginFlag(args []string) []string {
	return slices.DeleteFunc(slices.Clone(args), func(a string) bool {
		name, _, _ := strings.Cut(a, "=")
		return name == "--login-env" || name == "-login-env"
	})
}
