//go:build unix

package page

import (
	"errors"
	"syscall"
)

// isAddressInUse reports whether another program listens there.
func isAddressInUse(err error) bool { return errors.Is(err, syscall.EADDRINUSE) }
