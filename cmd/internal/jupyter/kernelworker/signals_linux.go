package kernelworker

import (
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// wakingSignal is a signal of the GNU C library, which handles it in every process with threads. Its
// handler returns at once if another process sent the signal.
const wakingSignal syscall.Signal = 33

// ignoresInterrupts reports whether a process ignores SIGINT, as ipykernel does while it runs no code.
func ignoresInterrupts(pid int) bool { return hasSignal(pid, "SigIgn", stopSignal) }

// wakeMainThread ends a sleep or a poll of a process's main thread with EINTR. It has no other effect.
// It does nothing if the process does not handle wakingSignal. A read or a wait for a child or a lock
// goes on.
func wakeMainThread(pid int) {
	if hasSignal(pid, "SigCgt", wakingSignal) {
		_ = unix.Tgkill(pid, pid, wakingSignal) // a process that has ended needs none
	}
}

// hasSignal reports whether a signal is in a set of a process that /proc shows.
func hasSignal(pid int, set string, signal syscall.Signal) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(text), "\n"+set+":")
	mask, err := strconv.ParseUint(strings.TrimSpace(after[:strings.IndexByte(after+"\n", '\n')]), 16, 64)
	return err == nil && mask>>(signal-1)&1 == 1
}
