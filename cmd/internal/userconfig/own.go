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

// configPath is a file beside sandbox.toml; "" when there is no home directory.
func configPath(getenv func(string) string, name string) string {
	beside := DefaultSandboxFile(getenv)
	if beside == "" {
		return ""
	}
	return filepath.Join(filepath.Dir(string(beside)), name)
}

// readPrivateFile reads a file that must be the user's alone, since it has commands and permissions; nil
// when it is not there.
func readPrivateFile(path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) { // /dev/null in place of a directory means no settings
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
