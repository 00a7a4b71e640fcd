//go:build linux || darwin

package monitorproto

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// NewExit returns how a process ended, from what the kernel says when it is reaped.
func NewExit(status syscall.WaitStatus, u *syscall.Rusage) Exit {
	e := Exit{
		Code:      status.ExitStatus(),
		PeakRSS:   int64(u.Maxrss) * maxrssUnit,
		UserCPU:   time.Duration(u.Utime.Nano()),
		SystemCPU: time.Duration(u.Stime.Nano()),
	}
	if status.Signaled() {
		e.Code, e.Signal = -1, unix.SignalName(status.Signal())
	}
	return e
}
