package confine

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// A presence is what is known about a name. Of two that are both needed the lower one holds, and of two that
// are each enough the higher one.
type presence int

const (
	missing presence = iota
	unknown
	present
)

// presenceOf asks whether something has a path. A session can bring about any other error than those of
// nothing: directories that cannot be read, and paths that are too long. So they say nothing, and what
// depends on the answer is refused.
func presenceOf(path string) presence {
	_, err := os.Lstat(path)
	return presenceOfError(err)
}

// presenceOfError is presenceOf by the error of a call.
func presenceOfError(err error) presence {
	switch {
	case err == nil:
		return present
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return missing
	}
	return unknown
}

// isPresent reports whether something is known to have a path.
func isPresent(path string) bool { return presenceOf(path) == present }
