//go:build unix

package webui

import (
	"errors"
	"syscall"
)

// isAddressInUse reports whether another program listens there.
func isAddressInUse(err error) bool { return errors.Is(err, syscall.EADDRINUSE) }
