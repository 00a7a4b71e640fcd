package cli

import (
	"fmt"
	"os"
	"os/user"
	"path"
	"path/filepath"
	"strconv"

	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/internal/userdirs"
)

// commandAuthor returns the author of a command's turns. It differs from the user's own name,
// because a script may run the command while the user watches.
func commandAuthor(command string) string { return currentAuthor() + " (" + command + ")" }

// currentAuthor returns the author of this user's turns.
func currentAuthor() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return "uid " + strconv.Itoa(os.Getuid())
}

// stateDir returns the directory for files that outlive the command, or "" without a home directory.
func stateDir() string {
	home, _ := os.UserHomeDir()
	dir := userdirs.State(os.Getenv, home)
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, "turnstone")
}

// workingDir returns the working directory for a session of the daemon, which has another one.
func workingDir() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("the working directory, where the session would start, is gone or not accessible: %w; change to another one", err)
	}
	return dir, nil
}

// requireAbsolute rejects a relative path for a remote.
func requireAbsolute(name, dir string) error {
	if path.IsAbs(dir) || len(dir) > 2 && dir[1] == ':' && (dir[2] == '\\' || dir[2] == '/') {
		return nil
	}
	return cmdkit.UsageErrorf("%s %s: use an absolute path at the remote", name, dir)
}
