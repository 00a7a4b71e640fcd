package monitorproto

import (
	"fmt"
	"time"
)

// Exit says how a worker ended, and what it used.
type Exit struct {
	Code   int    // exit status; -1 when a signal ended it
	Signal string // "SIGKILL"; "" when it exited
	OOM    bool   // the kernel's out-of-memory killer ended it
	// MonitorKilled means that the monitor was killed, and the kernel then killed the worker.
	// Code, Signal and usage are inferred, not reported.
	MonitorKilled      bool
	MemoryLimit        int64 // bytes; Limits.Memory if it was reached, otherwise 0
	PeakRSS            int64 // bytes; the worker or a child it waited for, whichever was larger
	UserCPU, SystemCPU time.Duration
}

// String describes an exit as a shell would: "exit status 3", "killed by SIGKILL", "killed by
// SIGKILL (out of memory)". It adds a memory limit: "exit status 1 (after reaching its memory
// limit of 512 MiB)".
func (e Exit) String() string {
	s := e.describeStatus()
	if e.MemoryLimit > 0 && e.Code != 0 {
		s += fmt.Sprintf(" (after reaching its memory limit of %d MiB)", e.MemoryLimit>>20)
	}
	return s
}

func (e Exit) describeStatus() string {
	switch {
	case e.Signal == "" && e.Code > MaxExitStatus:
		return fmt.Sprintf("exit status %#x", e.Code) + statusName(e.Code)
	case e.Signal == "":
		return fmt.Sprintf("exit status %d", e.Code)
	case e.OOM && e.MemoryLimit == 0:
		return "killed by " + e.Signal + " (out of memory)"
	case e.MonitorKilled:
		return "killed by " + e.Signal + " (its monitor was killed)"
	}
	return "killed by " + e.Signal
}

// MaxExitStatus is the largest exit status that a program is assumed to choose. On Windows, the
// status of a crash is an error number, which is larger.
const MaxExitStatus = 0x3fffffff

// statusName explains the common status codes of crashes on Windows.
func statusName(code int) string {
	switch uint32(code) {
	case 0xC0000005:
		return " (access violation)"
	case 0xC0000017:
		return " (out of memory)"
	case 0xC00000FD:
		return " (stack overflow)"
	case 0xC0000135:
		return " (a DLL was not found)"
	case 0xC000013A:
		return " (interrupted)"
	case 0xC0000142:
		return " (a DLL failed to start)"
	case 0xC0000409:
		return " (it aborted)"
	}
	return ""
}
