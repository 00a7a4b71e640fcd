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

// startDirectories are below a home directory and have what programs run when they start, or at the next
// login. So do the files with a dot there.
var startDirectories = []string{".config", ".local/bin", ".local/share/applications", ".local/share/systemd"}

// MayGive returns why no user is asked to let a session write a file or directory, an absolute path
// without symbolic links. It is nil for one that a user may give. path is the PATH of the user's
// programs. It only looks at the paths, and takes microseconds.
func MayGive(s *workers.Sandbox, home, path, dir string) error {
	p := &planner{home: cmp.Or(real(home), home), temporary: []string{"/tmp", "/var/tmp"}}
	refused := func(why string) error {
		return fmt.Errorf("the sandbox never makes %s writable: it %s; name another place", dir, why)
	}
	if why := p.tooWide(dir); why != "" {
		return refused(why)
	}
	for _, kernel := range []string{"/proc", "/sys", "/dev", "/run", "/var/run"} {
		if inside(dir, kernel) {
			return refused("belongs to the system")
		}
	}
	if why := runs(dir, p.home, path); why != "" {
		return fmt.Errorf("a running session is not given %s: it %s; name it when a session starts (--writable) if you mean that", dir, why)
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

// runs says why programs outside would run what is written into a directory, or "".
func runs(dir, home, path string) string {
	for _, d := range filepath.SplitList(path) {
		if !filepath.IsAbs(d) {
			continue
		}
		if found := real(d); found != "" && (inside(dir, found) || inside(found, dir)) {
			return "has programs of your PATH"
		}
	}
	for _, name := range startDirectories {
		if d := filepath.Join(home, name); home != "" && (inside(dir, d) || inside(d, dir)) {
			return "has what programs run when they start"
		}
	}
	if filepath.Dir(dir) == home && strings.HasPrefix(filepath.Base(dir), ".") && !isDir(dir) {
		return "is a file that programs read when they start"
	}
	for part := range strings.SplitSeq(dir, "/") {
		if part == "site-packages" || part == "dist-packages" {
			return "has packages that your programs import"
		}
	}
	return ""
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
