package terminal

import "golang.org/x/sys/unix"

// The requests for the modes of a terminal.
const (
	getModes = unix.TCGETS
	setModes = unix.TCSETS
)
