package host

import "golang.org/x/sys/unix"

// The requests that are spelled differently on each system.
const (
	getModes    = unix.TCGETS
	setModes    = unix.TCSETS
	queuedInput = unix.TIOCINQ
)

// textNeedsPush is false: with EXTPROC, readers get text without a newline at once.
const textNeedsPush = false

func discardInput(fd int) error { return unix.IoctlSetInt(fd, unix.TCFLSH, unix.TCIFLUSH) }

// startOutput lets output go on that was stopped, as tcflow(TCOON).
func startOutput(fd int) error {
	const on = 1 // TCOON
	return unix.IoctlSetInt(fd, unix.TCXONC, on)
}
