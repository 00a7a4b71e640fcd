package userdirs

import "path/filepath"

// ProgramState returns the directory for the saved state of this program, or "" without a home directory. It
// ignores a HOME that belongs to another user, as after su or sudo. There the files would be missing, or
// could block that user. A volume that belongs to root counts as the user's own if the user may write to it.
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
