package host

import "golang.org/x/sys/unix"

// The requests that are spelled differently on each system.
const (
	getModes    = unix.TIOCGETA
	setModes    = unix.TIOCSETA
	queuedInput = 0x4004667f // FIONREAD of <sys/filio.h>: bytes of complete lines
)

// textNeedsPush is true: a reader of lines gets text without a newline only after a
// VEOF. After text, a VEOF is not an end of file.
const textNeedsPush = true

func discardInput(fd int) error {
	const input = 1 // FREAD of <sys/fcntl.h>
	return unix.IoctlSetPointerInt(fd, unix.TIOCFLUSH, input)
}

// startOutput lets output go on that was stopped, as tcflow(TCOON).
func startOutput(fd int) error { return unix.IoctlSetInt(fd, unix.TIOCSTART, 0) }
