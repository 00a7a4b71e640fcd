package pty

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
