package cmdkit

import (
	"fmt"
	"os"
	"os/user"
	"path"
	"strconv"

	"github.com/turnstone-repl/turnstone/internal/userdirs"
)

// CommandAuthor returns the author of a command's turns. It differs from the user's own name,
// because a script may run the command while the user watches.
func CommandAuthor(command string) string { return CurrentAuthor() + " (" + command + ")" }

// CurrentAuthor returns the author of this user's turns.
func CurrentAuthor() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return "uid " + strconv.Itoa(os.Getuid())
}

// StateDir returns the directory for files that outlive the command, or "" without a home directory.
func StateDir() string { return userdirs.ProgramState(os.Getenv) }

// WorkingDir returns the working directory of this process, for a session of the daemon, whose own
// directory differs. It returns an error if the directory is gone or not accessible.
func WorkingDir() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("the working directory, where the session would start, is gone or not accessible: %w; change to another one", err)
	}
	return dir, nil
}

// RequireAbsolute rejects a relative path for a remote.
func RequireAbsolute(name, dir string) error {
	if path.IsAbs(dir) || len(dir) > 2 && dir[1] == ':' && (dir[2] == '\\' || dir[2] == '/') {
		return nil
	}
	return UsageErrorf("%s %s: use an absolute path at the remote", name, dir)
}
