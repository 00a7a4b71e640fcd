//go:build unix

package page

import (
	"errors"
	"syscall"
)

// isTaken reports whether another program listens there.
func isTaken(err error) bool { return errors.Is(err, syscall.EADDRINUSE) }
