// Package paths compares paths, resolves symbolic links and checks whether a path exists. It starts
// no goroutines.
package paths

import (
	"os"
	"path/filepath"
)

// Real returns path without symbolic links, as [filepath.EvalSymlinks] does: a relative path stays
// relative, and an empty one is the current directory, ".". It fails if the path does not exist.
func Real(path string) (string, error) { return filepath.EvalSymlinks(path) }

// RealOrSame returns path without symbolic links, or path itself if they cannot be resolved. It is
// for a path that is compared or shown whether or not it exists.
func RealOrSame(path string) string {
	if found, err := Real(path); err == nil {
		return found
	}
	return path
}

// RealOrEmpty returns path without symbolic links, or "" if they cannot be resolved or path is
// empty. It is for a path that counts only if it exists.
func RealOrEmpty(path string) string {
	if path == "" {
		return ""
	}
	if found, err := Real(path); err == nil {
		return found
	}
	return ""
}

// Exists reports whether path exists. If it is a symbolic link, the target counts. A path that
// cannot be examined does not count.
func Exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
