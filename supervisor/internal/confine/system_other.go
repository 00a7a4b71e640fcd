//go:build !linux

package confine

import (
	"errors"
	"io/fs"
	"os"

	"github.com/turnstone-repl/turnstone/workers"
)

// TrialProgram is a program that does nothing, to be confined.
const TrialProgram = ""

// stampOf returns what tells whether a file has changed; nothing for one that is not there.
func stampOf(name string) stamp {
	st, err := os.Stat(name)
	if err != nil {
		return stamp{}
	}
	return stamp{size: st.Size(), modified: st.ModTime().UnixNano(), changed: st.ModTime().UnixNano()}
}

func sameFilesystem(a, b string) bool { return false }

// Mechanisms are the mechanisms that are tried for a user who accepts this one, in order.
func Mechanisms(workers.SandboxMechanism) []workers.SandboxMechanism {
	return []workers.SandboxMechanism{""}
}

// CheckSupported says why no worker can be confined in this way here.
func CheckSupported(workers.SandboxMechanism) error {
	return errors.New("sandboxing is not supported on this system: use the sandbox level full (--sandbox full)")
}

// CheckConnect says why no stage may connect in its worker's place here.
func CheckConnect() error { return errors.ErrUnsupported }

// fileIdentity is for systems on which a session makes repositories of its own.
func fileIdentity(string) string { return "" }

func localIdentity(name string) string { return fileIdentity(name) }

// lstatType is Lstat for the type of a file.
func lstatType(path string) (fs.FileMode, error) {
	st, err := os.Lstat(path)
	if err != nil {
		return 0, err
	}
	return st.Mode().Type(), nil
}

// isWritable reports whether the user may make names in a directory.
func isWritable(string) bool { return true }

// openNoLinks opens a file to read, where there are no sessions that could put a link in its path.
func openNoLinks(path string) (*os.File, error) { return os.OpenFile(path, nonblockingRead, 0) }

// isOwned reports whether a directory is the user's.
func isOwned(string) bool { return true }
