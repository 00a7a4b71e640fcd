package linkpath

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/turnstone-repl/turnstone/internal/paths"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/filestate"
)

// RealOrAbsent is like paths.RealOrEmpty, but also resolves a path of which only the first part
// exists.
func RealOrAbsent(path string) string {
	if found := paths.RealOrEmpty(path); found != "" || !filepath.IsAbs(path) {
		return found
	}
	return filepath.Join(RealOrAbsent(filepath.Dir(path)), filepath.Base(path))
}

// IsDir reports whether a path leads to a directory.
func IsDir(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
}

// IsInAny reports whether a path is one of these directories, or below one.
func IsInAny(path string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(d string) bool { return paths.Contains(d, path) })
}

// LinkChain returns the symbolic links in a path, followed by its final target, which may not
// exist. The target is "" for a loop.
func LinkChain(path string) (chain []string) {
	at, left := "/", strings.Split(filepath.Clean(path), "/")
	for len(left) > 0 {
		next := filepath.Join(at, left[0]) // at has no links, so Join is right for ".." as well
		left = left[1:]
		to, err := os.Readlink(next)
		if err != nil {
			at = next
			continue
		}
		if chain = append(chain, next); len(chain) > MaxLinks {
			return append(chain, "") // a loop
		}
		if filepath.IsAbs(to) {
			at = "/"
		}
		left = append(strings.Split(to, "/"), left...)
	}
	return append(chain, at)
}

// ReadSettingsFile reads a file that a session may have created. It may be of any type, such as a
// pipe into which nothing is ever written. It returns nil unless it is a regular file of at most
// MaxSettingsBytes.
func ReadSettingsFile(path string) []byte { return ReadText(os.OpenFile(path, nonblockingRead, 0)) }

// nonblockingRead are the flags to open a file for reading without waiting for a writer.
const nonblockingRead = os.O_RDONLY | syscall.O_NONBLOCK

// ReadText reads a file that was opened with nonblockingRead, and closes it.
func ReadText(f *os.File, err error) []byte {
	if err != nil {
		return nil
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(f, MaxSettingsBytes+1))
	if err != nil || len(text) > MaxSettingsBytes {
		return nil
	}
	return text
}

// HasLinkIn reports whether a link in a path is in one of these directories.
func HasLinkIn(path string, dirs []string) bool {
	chain := LinkChain(path)
	return slices.ContainsFunc(chain[:len(chain)-1], func(link string) bool { return IsInAny(filepath.Dir(link), dirs) })
}

// IsReplaceable reports whether programs of the user can replace a path.
func IsReplaceable(path string) bool {
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		if filestate.IsWritable(dir) {
			return true
		}
		if dir == filepath.Dir(dir) {
			return false
		}
	}
}

// IsBelowUserDir reports whether the user owns a directory above a path.
func IsBelowUserDir(path string) bool {
	for dir := filepath.Dir(path); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if filestate.IsOwned(dir) {
			return true
		}
	}
	return false
}

// MaxLinks bounds the links in one path, like the kernel.
const MaxLinks = 40

// GlobPaths returns the paths below a directory that match a pattern.
func GlobPaths(dir, pattern string) (found []string) {
	if !filepath.IsAbs(dir) {
		return nil
	}
	names, _ := fs.Glob(os.DirFS(dir), pattern)
	for _, name := range names {
		found = append(found, filepath.Join(dir, name))
	}
	return found
}

// ParentInfos returns the file information of a path and all directories above it, as far as they
// exist.
func ParentInfos(path string) (all []fs.FileInfo) {
	for ; ; path = filepath.Dir(path) {
		if st, err := os.Stat(path); err == nil {
			all = append(all, st)
		}
		if path == "/" || path == "." {
			return all
		}
	}
}

// IsAnyOf reports whether a path leads to one of these files. That takes one system call; resolving
// the path would take one for each part of it.
func IsAnyOf(files []fs.FileInfo, path string) bool {
	st, err := os.Stat(path)
	return err == nil && slices.ContainsFunc(files, func(f fs.FileInfo) bool { return os.SameFile(f, st) })
}

// MaxSettingsBytes bounds the size of a settings file that is read.
const MaxSettingsBytes = 1 << 20
