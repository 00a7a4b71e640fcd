// Package paths compares paths and resolves symbolic links. It starts no goroutines.
package paths

import "path/filepath"

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
