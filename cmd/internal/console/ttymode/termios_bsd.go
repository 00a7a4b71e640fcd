//go:build unix && !linux

package ttymode

import "golang.org/x/sys/unix"

// ioctl requests for the modes of a terminal.
const (
	getTermios = unix.TIOCGETA
	setTermios = unix.TIOCSETA
)

// parentOf returns the parent of a process, or 0.
func parentOf(pid int) int {
	p, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return 0
	}
	return int(p.Eproc.Ppid)
}
