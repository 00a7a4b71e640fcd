package confine

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/workers"
)

// MayGive returns why no person is asked to let a session write dir, an absolute path without
// symbolic links. It is nil for a directory that a person may give. It only looks at the
// path, and takes microseconds.
func MayGive(s *workers.Sandbox, home, dir string) error {
	p := &planner{home: cmp.Or(real(home), home), temporary: []string{"/tmp", "/var/tmp"}}
	refused := func(why string) error {
		return fmt.Errorf("the sandbox never makes %s writable: it %s; name another directory", dir, why)
	}
	if why := p.tooWide(dir); why != "" {
		return refused(why)
	}
	for _, kernel := range []string{"/proc", "/sys", "/dev", "/run", "/var/run"} {
		if inside(dir, kernel) {
			return refused("belongs to the system")
		}
	}
	above := filesAbove(dir)
	for _, h := range append(p.defaultHidden(), s.Hidden...) {
		if inside(dir, filepath.Clean(h)) || isOneOf(above, h) {
			return refused("is hidden from sessions")
		}
	}
	for part := range strings.SplitSeq(dir, "/") {
		if part == ".git" || slices.Contains(protectedNames, part) {
			return refused("holds what programs outside the session run or believe")
		}
	}
	return nil
}

// filesAbove returns a path and all directories above it, as far as they are there.
func filesAbove(path string) (all []fs.FileInfo) {
	for ; ; path = filepath.Dir(path) {
		if st, err := os.Stat(path); err == nil {
			all = append(all, st)
		}
		if path == "/" || path == "." {
			return all
		}
	}
}

// isOneOf reports whether a path leads to one of these files. That is one question to the kernel,
// and resolving the path would be one for each part of it.
func isOneOf(files []fs.FileInfo, path string) bool {
	st, err := os.Stat(path)
	return err == nil && slices.ContainsFunc(files, func(f fs.FileInfo) bool { return os.SameFile(f, st) })
}
