package cmdkit

import "syscall"

// Exit statuses of the command itself. The last two say that code has not finished, so that a script
// stops there.
const (
	StatusDone        = 0
	StatusFailed      = 1
	StatusUsage       = 2
	StatusUnreachable = 3 // no daemon answers
	StatusRunning     = 4 // the code is still running
	StatusWaiting     = 5 // the code waits for input
)

// StatusAlreadyServed is the exit status of a daemon whose socket is already in use. With this
// status, service managers do not start the daemon again and again.
const StatusAlreadyServed = 3

// signalNumbers maps the signals that can end a worker to their numbers, by the names in exit
// reports.
var signalNumbers = map[string]syscall.Signal{
	"SIGHUP": syscall.SIGHUP, "SIGINT": syscall.SIGINT, "SIGQUIT": syscall.SIGQUIT,
	"SIGILL": syscall.SIGILL, "SIGTRAP": syscall.SIGTRAP, "SIGABRT": syscall.SIGABRT,
	"SIGBUS": syscall.SIGBUS, "SIGFPE": syscall.SIGFPE, "SIGKILL": syscall.SIGKILL,
	"SIGSEGV": syscall.SIGSEGV, "SIGPIPE": syscall.SIGPIPE, "SIGALRM": syscall.SIGALRM,
	"SIGTERM": syscall.SIGTERM,
}

// ExitStatus returns the exit status that stands for the end of a worker: its exit code, or 128
// plus the number of the signal that ended it. It returns StatusFailed for an unknown signal or a
// negative code.
func ExitStatus(code int, signal string) int { return maskedExitStatus(code, signal, exitStatusMask) }

// maskedExitStatus is ExitStatus for systems whose exit statuses have only the bits of mask.
func maskedExitStatus(code int, signal string, mask int) int {
	if number, ok := signalNumbers[signal]; ok {
		return 128 + int(number)
	}
	if signal != "" || code < 0 {
		return StatusFailed
	}
	return code & mask
}
