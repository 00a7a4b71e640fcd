//go:build unix

package workdir

import (
	"errors"
	"syscall"
)

// nonblockFlag makes opening a pipe return without waiting for its other end.
const nonblockFlag = syscall.O_NONBLOCK

func isReadOnly(err error) bool { return errors.Is(err, syscall.EROFS) }

// partFault says why a part of a path does not name a file of its own; "" if it does.
func partFault(string) string { return "" }
