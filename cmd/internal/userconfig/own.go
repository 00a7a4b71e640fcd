package userconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/turnstone-repl/turnstone/internal/securefile"
)

// configPath returns a file next to sandbox.toml, or "" without a home directory.
func configPath(getenv func(string) string, name string) string {
	sandboxFile := DefaultSandboxFile(getenv)
	if sandboxFile == "" {
		return ""
	}
	return filepath.Join(filepath.Dir(string(sandboxFile)), name)
}

// readPrivateFile reads a file that only the user may be able to write, because it has commands and
// permissions. It returns nil if the file does not exist.
func readPrivateFile(path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) { // /dev/null instead of a directory means no settings
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if len(text) > maxFileBytes {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, maxFileBytes)
	}
	return text, securefile.Check(path)
}
