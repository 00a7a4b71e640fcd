package supervisor

import (
	"errors"

	"golang.org/x/sys/windows"
)

// nonblockFlag is zero because Windows has no pipes in directories.
const nonblockFlag = 0

// isInUse reports whether a file could not be removed because a program has it open.
func isInUse(err error) bool { return errors.Is(err, windows.ERROR_SHARING_VIOLATION) }
