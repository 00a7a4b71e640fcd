package install

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/turnstone-repl/turnstone/cmd/internal/installsource"
)

// SelfCommand returns the command with which clients should start this program, so that it survives
// an upgrade. It prefers the name on PATH, often a symbolic link, then the path by which this
// program was started, then the file itself. If the file is in the cache of uvx or npx, it returns
// their command. argv0 is os.Args[0].
func SelfCommand(argv0 string) ([]string, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("cannot find the file of this program: %w", err)
	}
	return commandWords(exe, argv0, filepath.SplitList(os.Getenv("PATH")))
}

func commandWords(exe, argv0 string, path []string) ([]string, error) {
	if runner := installsource.Find(exe).Runner; runner != nil {
		return runner, nil
	}
	command, err := stablePath(exe, argv0, path)
	return []string{command}, err
}

func stablePath(exe, argv0 string, path []string) (string, error) {
	for _, part := range strings.Split(filepath.ToSlash(exe), "/") {
		if strings.HasPrefix(part, "go-build") {
			return "", errors.New("this program was built by go run, which deletes it at its end; build or install it first (go install ./cmd/repl), and run install from there")
		}
	}
	self, err := os.Stat(exe)
	if err != nil {
		return "", fmt.Errorf("the file of this program no longer exists, because it was upgraded or removed; run install from the new one (%w)", err)
	}
	var candidates []string
	for _, dir := range path {
		if filepath.IsAbs(dir) { // a relative directory would depend on where the client starts
			candidates = append(candidates, filepath.Join(dir, filepath.Base(argv0)), filepath.Join(dir, filepath.Base(exe)))
		}
	}
	if strings.ContainsRune(filepath.ToSlash(argv0), '/') {
		if abs, err := filepath.Abs(argv0); err == nil {
			candidates = append(candidates, abs)
		}
	}
	for _, c := range candidates {
		if info, err := os.Stat(c); err == nil && os.SameFile(info, self) {
			return c, nil
		}
	}
	return exe, nil
}
