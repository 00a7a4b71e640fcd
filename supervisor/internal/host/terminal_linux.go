package host

import "golang.org/x/sys/unix"

// The requests that are spelled differently on each system.
const (
	ioctlGetModes    = unix.TCGETS
	ioctlSetModes    = unix.TCSETS
	ioctlUnreadInput = unix.TIOCINQ
)

// needsPushAfterText is false: with EXTPROC, readers get text without a newline at once.
const needsPushAfterText = false

func discardInput(fd int) error { return unix.IoctlSetInt(fd, unix.TCFLSH, unix.TCIFLUSH) }

// resumeOutput lets output go on that was stopped, as tcflow(TCOON).
func resumeOutput(fd int) error {
	const on = 1 // TCOON
	return unix.IoctlSetInt(fd, unix.TCXONC, on)
}
