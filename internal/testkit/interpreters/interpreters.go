// Package interpreters selects the Python interpreters for the tests of the Python worker. It
// starts no goroutines.
package interpreters

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const (
	allEnv  = "TURNSTONE_ALL_PYTHONS"  // 1 selects every interpreter
	moreEnv = "TURNSTONE_TEST_PYTHONS" // PATH:PATH adds interpreters to python3 and those of pyenv
)

// An InstalledPython is an installed CPython that the worker supports.
type InstalledPython struct {
	Path    string
	Version string // "3.13.0", followed by a t for a free-threaded build

	versionNumber [3]int
}

// TestsAll reports whether the tests run on each interpreter.
func TestsAll() bool { return os.Getenv(allEnv) == "1" }

// Selected returns the interpreters to test on, the oldest first. If TestsAll is true, these are
// all installed ones. Otherwise they are the oldest and the newest, with a line that names the
// others.
func Selected() (test []InstalledPython, others string, err error) {
	test, err = Installed()
	if TestsAll() || len(test) < 3 {
		return test, "", err
	}
	last := len(test) - 1
	var left []string
	for _, i := range test[1:last] {
		left = append(left, i.Version)
	}
	others = fmt.Sprintf("not tested here: Python %s; %s=1 tests all", strings.Join(left, ", "), allEnv)
	return []InstalledPython{test[0], test[last]}, others, nil
}

// Installed returns python3, the interpreters of pyenv and those listed in the environment, each
// once and the oldest first. It starts each of them.
func Installed() ([]InstalledPython, error) {
	var paths []string
	if home, err := os.UserHomeDir(); err == nil {
		paths, _ = filepath.Glob(filepath.Join(home, ".pyenv", "versions", "3.*", "bin", "python"))
	}
	paths = append(paths, filepath.SplitList(os.Getenv(moreEnv))...)
	if _, err := exec.LookPath("python3"); err == nil {
		paths = append(paths, "python3")
	}
	var found []InstalledPython
	seen := map[string]bool{}
	for _, path := range paths {
		i, file, err := queryInterpreter(path)
		if err != nil {
			return nil, err
		}
		if !seen[file] && slices.Compare(i.versionNumber[:], []int{3, 8}) >= 0 {
			found = append(found, i)
		}
		seen[file] = true
	}
	slices.SortStableFunc(found, func(a, b InstalledPython) int {
		return cmp.Or(slices.Compare(a.versionNumber[:], b.versionNumber[:]), strings.Compare(a.Version, b.Version))
	})
	return found, nil
}

// queryInterpreter starts an interpreter. It also returns its file, with all links resolved.
func queryInterpreter(path string) (i InstalledPython, file string, err error) {
	const question = "import os, sys; print(sys.executable, os.path.realpath(sys.executable), *sys.version_info[:3], getattr(sys, 'abiflags', ''), sep='\\n')"
	out, err := exec.Command(path, "-c", question).Output()
	if err != nil {
		return i, "", fmt.Errorf("%s does not report its version: %w", path, err)
	}
	lines := strings.Split(strings.ReplaceAll(string(out), "\r", ""), "\n")
	if len(lines) < 6 {
		return i, "", fmt.Errorf("%s reports %q as its version", path, out)
	}
	i.Path, i.Version = lines[0], strings.Join(lines[2:5], ".")
	if _, err := fmt.Sscanf(i.Version, "%d.%d.%d", &i.versionNumber[0], &i.versionNumber[1], &i.versionNumber[2]); err != nil {
		return i, "", fmt.Errorf("%s has the version %s: %w", path, i.Version, err)
	}
	if strings.Contains(lines[5], "t") {
		i.Version += "t"
	}
	return i, lines[1], nil
}
