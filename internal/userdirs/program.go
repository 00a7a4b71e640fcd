package userdirs

import "path/filepath"

// ProgramState returns the directory for what this program notes for later, or "" without a home directory.
// It ignores a HOME that belongs to another user, as after su or sudo: the files would be missing there, or
// in the way of that user. A volume that belongs to root, and that this user may write, counts as their own.
func ProgramState(getenv func(string) string) string {
	dir := State(getenv, "")
	if dir == "" {
		dir = State(getenv, ownHome(getenv))
	}
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, "turnstone")
}
