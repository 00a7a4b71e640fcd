//go:build !linux

package confine

import (
	"errors"
	"io/fs"
	"os"

	"github.com/turnstone-repl/turnstone/workers"
)

// Trial is a program that does nothing, to be confined.
const Trial = ""

// stampOf returns what tells whether a file has changed; nothing for one that is not there.
func stampOf(name string) stamp {
	st, err := os.Stat(name)
	if err != nil {
		return stamp{}
	}
	return stamp{size: st.Size(), modified: st.ModTime().UnixNano(), changed: st.ModTime().UnixNano()}
}

func sameFilesystem(a, b string) bool { return false }

// Ways are the mechanisms that are tried for a user who accepts this one, in order.
func Ways(workers.SandboxMechanism) []workers.SandboxMechanism { return []workers.SandboxMechanism{""} }

// Supported says why no worker can be confined in this way here.
func Supported(workers.SandboxMechanism) error {
	return errors.New("sandboxing is not supported on this system: use the sandbox level full (--sandbox full)")
}

// MayConnect says why no stage may connect in its worker's place here.
func MayConnect() error { return errors.ErrUnsupported }

// identity is for systems on which a session makes repositories of its own.
func identity(string) string { return "" }

func calmIdentity(name string) string { return identity(name) }

// typeOf is Lstat for the type of a file.
func typeOf(path string) (fs.FileMode, error) {
	st, err := os.Lstat(path)
	if err != nil {
		return 0, err
	}
	return st.Mode().Type(), nil
}

// isWritable reports whether the user may make names in a directory.
func isWritable(string) bool { return true }

// openUnlinked opens a file to read, where there are no sessions that could put a link in its path.
func openUnlinked(path string) (*os.File, error) { return os.OpenFile(path, readAtOnce, 0) }

// isOwned reports whether a directory is the user's.
func isOwned(string) bool { return true }
