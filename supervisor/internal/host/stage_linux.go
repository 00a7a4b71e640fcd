package host

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// stageExecutable starts this very program again, even when its file was
// replaced or deleted meanwhile.
func stageExecutable() (string, error) { return "/proc/self/exe", nil }

// maxrssUnit is the unit of Rusage.Maxrss in bytes.
const maxrssUnit = 1024

// clearSignalMask unblocks everything on this thread, whose mask a fork inherits.
func clearSignalMask() error {
	return unix.PthreadSigmask(unix.SIG_SETMASK, &unix.Sigset_t{}, nil)
}

// adoptOrphans makes this process the parent of every descendant that loses
// its own, so that neither setsid nor a double fork escapes.
func adoptOrphans() error {
	return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// workerAttributes: a process group of its own, and no life without the stage.
func workerAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
