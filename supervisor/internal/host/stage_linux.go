package host

import (
	"math/bits"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// stageExecutable returns a path to this very program, which works even after its file
// was replaced or deleted.
func stageExecutable() (string, error) { return "/proc/self/exe", nil }

// maxrssUnit is the unit of Rusage.Maxrss in bytes.
const maxrssUnit = 1024

// ignoredSignals returns the signals that this process ignores. A signal for which the
// runtime has set a handler is not among them.
func ignoredSignals() []os.Signal {
	var signals []os.Signal
	for line := range strings.Lines(readFile("/proc/self/status")) { // in a pid namespace we have another number
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

// workerAttributes gives the worker a process group of its own, and ends it with the
// stage.
func workerAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// forgetImage gives back the pages of the program that the start has read. They are
// most of a stage's resident set and of no use while it waits; the kernel reads them
// from the file again when they are needed. Only mappings without any private page
// are given back: code, and constants unless a loader has relocated them.
func forgetImage() {
	var start, end uint64
	readOnly := false
	for line := range strings.Lines(readFile("/proc/self/smaps")) {
		f := strings.Fields(line)
		switch {
		case len(f) >= 6 && !strings.HasSuffix(f[0], ":"): // 400000-8c2000 r-xp 00000000 fe:00 1234 /path
			from, to, _ := strings.Cut(f[0], "-")
			start, _ = strconv.ParseUint(from, 16, 64)
			end, _ = strconv.ParseUint(to, 16, 64)
			readOnly = f[1][1] == '-' && f[4] != "0"
		case len(f) == 3 && f[0] == "Anonymous:" && f[1] == "0" && readOnly:
			unix.Syscall(unix.SYS_MADVISE, uintptr(start), uintptr(end-start), unix.MADV_DONTNEED)
		}
	}
}
