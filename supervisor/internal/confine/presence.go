package confine

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// A presence says whether a name exists, as far as that is known. The values are ordered: min
// combines conditions that are all needed, max conditions of which one is enough.
type presence int

const (
	missing presence = iota
	unknown
	present
)

// presenceOf checks whether a path exists. A session can cause any error but those for missing
// files, for example by directories that cannot be read or paths that are too long. Such errors
// mean unknown, and what depends on them is refused.
func presenceOf(path string) presence {
	_, err := os.Lstat(path)
	return presenceOfError(err)
}

// presenceOfError derives the presence from the error of a call.
func presenceOfError(err error) presence {
	switch {
	case err == nil:
		return present
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return missing
	}
	return unknown
}

// isPresent reports whether a path is known to exist.
func isPresent(path string) bool { return presenceOf(path) == present }
