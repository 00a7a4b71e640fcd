package pty

import "golang.org/x/sys/unix"

// The ioctl requests, which differ between systems.
const (
	ioctlGetModes    = unix.TIOCGETA
	ioctlSetModes    = unix.TIOCSETA
	ioctlUnreadInput = 0x4004667f // FIONREAD of <sys/filio.h>: bytes of complete lines
)

// needsPushAfterText is true: a program that reads lines gets text without a newline only after
// a VEOF. After text, a VEOF is not an end of file.
const needsPushAfterText = true

func discardInput(fd int) error {
	const input = 1 // FREAD of <sys/fcntl.h>
	return unix.IoctlSetPointerInt(fd, unix.TIOCFLUSH, input)
}
