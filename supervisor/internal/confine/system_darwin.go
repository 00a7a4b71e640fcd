package confine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/workers"
)

// Trial is a program that does nothing, to be confined.
const Trial = "/usr/bin/true"

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
func Ways(accepted workers.Mechanism) []workers.Mechanism { return []workers.Mechanism{accepted} }

// Supported says why no worker can be confined in this way here.
func Supported(by workers.Mechanism) error {
	if by != workers.Seatbelt {
		return fmt.Errorf("a sandbox: %w without a word of yours: that of macOS has never been tried with this program. Accepting seatbelt takes it all the same; the sandbox full does without one", errors.ErrUnsupported)
	}
	_, err := os.Stat(seatbeltProgram)
	return err
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
func isWritable(dir string) bool { return unix.Access(dir, unix.W_OK) == nil }

// openUnlinked opens a file to read, if there is no symbolic link in its path.
func openUnlinked(path string) (*os.File, error) {
	return os.OpenFile(path, readAtOnce|unix.O_NOFOLLOW_ANY, 0)
}

// isOwned reports whether a directory is the user's, who can then make it writable.
func isOwned(dir string) bool {
	var st unix.Stat_t
	return unix.Stat(dir, &st) != nil || int(st.Uid) == unix.Geteuid()
}
