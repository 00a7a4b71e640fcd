package page

import (
	"errors"

	"golang.org/x/sys/windows"
)

// isTaken reports whether another program listens there.
func isTaken(err error) bool { return errors.Is(err, windows.WSAEADDRINUSE) }
