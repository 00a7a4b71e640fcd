package monitor

import (
	"bufio"
	"bytes"
	"math/bits"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"github.com/turnstone-repl/turnstone/supervisor/internal/procinfo"
	"golang.org/x/sys/unix"
)

// Executable returns a path to this program that works even after its file was replaced or deleted.
func Executable() (string, error) { return "/proc/self/exe", nil }

// ignoredSignals returns the signals that this process ignores. A signal for which the
// runtime has set a handler is not among them.
func ignoredSignals() []os.Signal {
	var signals []os.Signal
	for line := range strings.Lines(procinfo.ReadFile("/proc/self/status")) { // not by pid, which is another one in a pid namespace
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

// surviveSignals makes this process as robust against signals as process 1 of a pid namespace.
// Programs in a sandbox may send every signal to the monitor. The Go runtime would mistake a sent
// SIGSEGV or the like for its own fault, and print its stacks. Go leaves signals 32 to 34 to C
// libraries. While the main thread runs a signal handler, the kernel does not drop them, and one of
// them would end the process.
func surviveSignals() {
	signal.Notify(make(chan os.Signal, 1), // never read
		unix.SIGILL, unix.SIGTRAP, unix.SIGABRT, unix.SIGBUS, unix.SIGFPE, unix.SIGSEGV, unix.SIGSTKFLT, unix.SIGSYS)
	for sig := uintptr(32); sig <= 34; sig++ {
		ignoreByDefault(sig)
	}
}

// ignoreByDefault ignores a signal that has no handler. os/signal does not change those that C libraries use.
func ignoreByDefault(sig uintptr) {
	type action struct{ handler, flags, restorer, mask uintptr } // the kernel's; handler 0 is the default, 1 ignores
	const setSize = 8
	var now action
	_, _, no := unix.RawSyscall6(unix.SYS_RT_SIGACTION, sig, 0, uintptr(unsafe.Pointer(&now)), setSize, 0, 0)
	if no == 0 && now.handler == 0 {
		_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&action{handler: 1})), 0, setSize, 0, 0)
	}
}

// workerAttributes gives the worker its own process group, and ends it with the monitor.
func workerAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// releaseImagePages gives back the pages of the program that the start has read. They are
// most of a monitor's resident set and useless while it waits; the kernel reads them from the
// file again when they are needed. Only mappings without any private page are given back:
// code, and constants unless a loader has relocated them.
func releaseImagePages() {
	maps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer maps.Close()
	var start, end uint64
	readOnly := false
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		line := lines.Bytes()
		switch {
		case line[0] >= '0' && line[0] <= '9' || line[0] >= 'a' && line[0] <= 'f': // 400000-8c2000 r-xp 00000000 fe:00 1234 /path
			from, rest, _ := bytes.Cut(line, []byte{'-'})
			to, rest, _ := bytes.Cut(rest, []byte{' '})
			start, end = parseHex(from), parseHex(to)
			file := len(bytes.SplitN(rest, []byte{' '}, 5)) > 3 && rest[len(rest)-1] != ' '
			readOnly = rest[1] == '-' && file
		case readOnly && bytes.HasPrefix(line, []byte("Anonymous:")) && bytes.HasSuffix(line, []byte(" 0 kB")):
			unix.Syscall(unix.SYS_MADVISE, uintptr(start), uintptr(end-start), unix.MADV_DONTNEED)
		}
	}
}

func parseHex(digits []byte) (n uint64) {
	for _, d := range digits {
		n = n<<4 | uint64(d&0xf)
		if d >= 'a' {
			n += 9
		}
	}
	return n
}

// resumeOutput resumes suspended output, like tcflow(TCOON).
func resumeOutput(fd int) error {
	const on = 1 // TCOON
	return unix.IoctlSetInt(fd, unix.TCXONC, on)
}
