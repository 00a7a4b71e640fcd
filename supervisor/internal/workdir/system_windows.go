package workdir

import (
	"errors"

	"golang.org/x/sys/windows"
)

// nonblockFlag is zero because Windows has no pipes in directories.
const nonblockFlag = 0

func isReadOnly(err error) bool { return errors.Is(err, windows.ERROR_WRITE_PROTECT) }

// partFault says why a part of a path does not name a file of its own; "" if it does.
func partFault(part string) string { return windowsFault(part) }
