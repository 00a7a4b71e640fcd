package install

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/turnstone-repl/turnstone/cmd/internal/installsource"
)

// SelfCommand returns the words with which clients should start this program, which stay valid after
// an upgrade. That is the name on PATH, often a symbolic link, otherwise the path by which it
// was started, otherwise the file itself. If that lies in the cache of uvx or npx, it is their
// command. argv0 is os.Args[0].
func SelfCommand(argv0 string) ([]string, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("cannot tell where this program is: %w", err)
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
			return "", errors.New("this program was built by go run, and its file does not stay: build or install it first (go install ./cmd/repl), and run install from there")
		}
	}
	self, err := os.Stat(exe)
	if err != nil {
		return "", fmt.Errorf("the file of this program is gone, so it was upgraded or removed meanwhile: run install from the new one (%w)", err)
	}
	var candidates []string
	for _, dir := range path {
		if filepath.IsAbs(dir) { // another directory would be another program
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
