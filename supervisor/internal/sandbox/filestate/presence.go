package filestate

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// A Presence says whether a name exists, as far as that is known. The values are ordered: min
// combines conditions that are all needed, max conditions of which one is enough.
type Presence int

// The presences of a name, in their order. Unknown means that a lookup failed.
const (
	Missing Presence = iota
	Unknown
	Present
)

// PresenceOf checks whether a path exists. A session can cause any error but those for missing
// files, for example by directories that cannot be read or paths that are too long. Such errors
// mean unknown, and what depends on them is refused.
func PresenceOf(path string) Presence {
	_, err := os.Lstat(path)
	return PresenceOfError(err)
}

// PresenceOfError derives the presence from the error of a call.
func PresenceOfError(err error) Presence {
	switch {
	case err == nil:
		return Present
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return Missing
	}
	return Unknown
}

// IsPresent reports whether a path is known to exist.
func IsPresent(path string) bool { return PresenceOf(path) == Present }
