package host

import (
	"math/bits"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// stageExecutable starts this very program again, even when its file was
// replaced or deleted meanwhile.
func stageExecutable() (string, error) { return "/proc/self/exe", nil }

// maxrssUnit is the unit of Rusage.Maxrss in bytes.
const maxrssUnit = 1024

// ignoredSignals is what this process ignores, so far as the runtime has not
// put a handler there already.
func ignoredSignals() []os.Signal {
	var signals []os.Signal
	for line := range strings.Lines(readProc(os.Getpid(), "status")) {
		if mask, ok := strings.CutPrefix(line, "SigIgn:"); ok {
			set, _ := strconv.ParseUint(strings.TrimSpace(mask), 16, 64)
			for ; set != 0; set &= set - 1 {
				signals = append(signals, syscall.Signal(1+bits.TrailingZeros64(set)))
			}
		}
	}
	return signals
}

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
