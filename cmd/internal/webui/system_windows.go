package webui

import (
	"errors"

	"golang.org/x/sys/windows"
)

// isAddressInUse reports whether another program listens there.
func isAddressInUse(err error) bool { return errors.Is(err, windows.WSAEADDRINUSE) }
