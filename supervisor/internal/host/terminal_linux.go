package host

import "golang.org/x/sys/unix"

// The ioctl requests, which differ between systems.
const (
	ioctlGetModes    = unix.TCGETS
	ioctlSetModes    = unix.TCSETS
	ioctlUnreadInput = unix.TIOCINQ
)

// needsPushAfterText is false: with EXTPROC, readers get text without a newline at once.
const needsPushAfterText = false

func discardInput(fd int) error { return unix.IoctlSetInt(fd, unix.TCFLSH, unix.TCIFLUSH) }

// resumeOutput resumes suspended output, like tcflow(TCOON).
func resumeOutput(fd int) error {
	const on = 1 // TCOON
	return unix.IoctlSetInt(fd, unix.TCXONC, on)
}
