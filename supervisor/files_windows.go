package supervisor

import (
	"errors"

	"golang.org/x/sys/windows"
)

// nonblockFlag is for systems that have pipes in directories.
const nonblockFlag = 0

// isInUse reports whether a file was not removed because a program has it open.
func isInUse(err error) bool { return errors.Is(err, windows.ERROR_SHARING_VIOLATION) }
