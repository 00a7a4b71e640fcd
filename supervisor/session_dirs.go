package supervisor

import (
	"fmt"
	"os"
	"slices"

	"github.com/turnstone-repl/turnstone/supervisor/internal/privatedir"
)

// lockFileName is a file in a session's directory. The session's program keeps it locked for as
// long as it lives.
const lockFileName = "lock"

// discardedSuffix marks a directory that is being removed.
const discardedSuffix = ".discarded"

// discardDir renames a session's directory and then removes it. This program may be killed at any
// moment. Without the new name, a directory that has lost its lock file would look as if it were
// still being created.
func discardDir(dir string) error {
	discarded := dir + discardedSuffix
	if err := os.Rename(dir, discarded); err != nil {
		return removeTree(dir)
	}
	return removeTree(discarded)
}

// discardSessionDir removes the directory of a closed session. On Windows, a reader of its events
// can keep it open; then it is removed when the next session is closed, or with the supervisor.
func (sup *Supervisor) discardSessionDir(dir string) error {
	err := discardDir(dir)
	sup.mu.Lock()
	defer sup.mu.Unlock()
	sup.dirsInUse = slices.DeleteFunc(sup.dirsInUse, func(dir string) bool { return removeTree(dir) == nil })
	if isInUse(err) {
		sup.dirsInUse = append(sup.dirsInUse, dir, dir+discardedSuffix)
		return nil
	}
	return err
}

// checkPrivateDir rejects a directory that another OS user could have prepared.
func checkPrivateDir(dir string) error {
	info, err := os.Lstat(dir)
	switch {
	case err != nil:
		return fmt.Errorf("supervisor: %w", err)
	case !info.IsDir():
		return fmt.Errorf("supervisor: %s is not a directory", dir)
	case !privatedir.IsOwnedByUser(info):
		return fmt.Errorf("supervisor: %s belongs to another user; choose another directory with TMPDIR (or Options.Dir)", dir)
	case privatedir.IsWritableByOthers(info):
		return fmt.Errorf("supervisor: other users may write to %s; remove that permission (chmod go-w) or choose another directory with TMPDIR (or Options.Dir)", dir)
	}
	return nil
}
