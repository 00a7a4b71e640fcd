package client

import (
	"os"
	"path/filepath"
	"strconv"
)

// DefaultSocket is where the daemon of this user listens: REPL_SOCKET, or
// turnstone/daemon.sock in XDG_RUNTIME_DIR, or the same in a directory of the
// user's own among the temporary files. getenv is os.Getenv.
func DefaultSocket(getenv func(string) string) string {
	if path := getenv("REPL_SOCKET"); path != "" {
		return path
	}
	if dir := getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "turnstone", "daemon.sock")
	}
	return filepath.Join(os.TempDir(), "turnstone-"+strconv.Itoa(os.Getuid()), "daemon.sock")
}
