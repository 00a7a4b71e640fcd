// Package paths compares paths, resolves symbolic links and reports whether a file exists. It
// starts no goroutines.
package paths

import (
	"os"
	"path/filepath"
)

// Real returns path without symbolic links, as [filepath.EvalSymlinks] does: a relative path stays
// relative, and an empty one is the current directory, ".". It fails if nothing is there.
func Real(path string) (string, error) { return filepath.EvalSymlinks(path) }

// RealOrSame returns path without symbolic links, or path itself if they cannot be resolved. It is
// for a path that is compared or shown whether or not something is there.
func RealOrSame(path string) string {
	if found, err := Real(path); err == nil {
		return found
	}
	return path
}

// RealOrEmpty returns path without symbolic links, or "" if they cannot be resolved or path is
// empty. It is for a path that counts only if something is there.
func RealOrEmpty(path string) string {
	if path == "" {
		return ""
	}
	if found, err := Real(path); err == nil {
		return found
	}
	return ""
}

// Exists reports whether something is at path, or where a symbolic link there leads. Something that
// cannot be seen does not count.
func Exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
