package host

import (
	"fmt"
	"time"
)

// Exit is how a worker ended.
type Exit struct {
	Code   int    // exit status; -1 when a signal ended it
	Signal string // "SIGKILL"; "" when it exited
	OOM    bool   // the kernel's out-of-memory killer ended it
	// Lost means that the stage was killed under the worker, which the kernel
	// then killed as well; Code, Signal and usage are inferred, not reported.
	Lost               bool
	PeakRSS            int64 // bytes; the worker or a child it waited for, whichever was larger
	UserCPU, SystemCPU time.Duration
}

// String says it as a shell user would: "exit status 3", "killed by SIGKILL",
// "killed by SIGKILL (out of memory)".
func (e Exit) String() string {
	switch {
	case e.Signal == "":
		return fmt.Sprintf("exit status %d", e.Code)
	case e.OOM:
		return "killed by " + e.Signal + " (out of memory)"
	case e.Lost:
		return "killed by " + e.Signal + " (its stage was killed)"
	}
	return "killed by " + e.Signal
}
