package cmdflags

import (
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/turnstone-repl/turnstone/client/protocol"

	"github.com/turnstone-repl/turnstone/cmd/internal/cmdkit"
	"github.com/turnstone-repl/turnstone/session"
	"github.com/turnstone-repl/turnstone/supervisor"
	"github.com/turnstone-repl/turnstone/workers"
)

// LimitFlags holds the user's limits for each session.
type LimitFlags struct{ workers.Limits }

// AddFlags adds the flags of the limits.
func (l *LimitFlags) AddFlags(f *flag.FlagSet) {
	f.Var((*cmdkit.ByteSize)(&l.Memory), "memory", "`SIZE` memory that the session may use, such as 8G")
	f.IntVar(&l.Processes, "processes", 0, "`N` processes that the session may have, counting threads")
	f.IntVar(&l.CPUs, "cpus", 0, "`N` processors that the session may use at a time")
	f.IntVar(&l.Files, "open-files", 0, "`N` files that each process may have open")
	f.Var((*cmdkit.ByteSize)(&l.Disk), "disk", "`SIZE` limit for /tmp and the copies of caches of a sandboxed session, and for each file that it writes, such as 2G")
	f.DurationVar(&l.Turn, "turn-timeout", 0, "`DURATION` interrupt an input that runs longer than this, such as 30m")
}

// TotalMemory returns the memory that all sessions may use together, in bytes. It is three quarters
// of the machine's memory, or the limit of a single session if that is larger. It returns 0 if the
// machine's memory is unknown or too small.
func (l *LimitFlags) TotalMemory() int64 {
	if all := supervisor.DefaultMemory(); all >= workers.MinMemoryBytes {
		return max(all, l.Memory)
	}
	return 0
}

// ValidateLimits returns a usage error for limits that are out of range.
func (l *LimitFlags) ValidateLimits() error {
	if err := l.Validate(); err != nil {
		return cmdkit.UsageErrorf("%s", strings.TrimPrefix(err.Error(), "workers: "))
	}
	return nil
}

// ClientLimits converts the limits for a request to a daemon.
func (l *LimitFlags) ClientLimits() protocol.SessionLimits {
	return protocol.SessionLimits{Memory: l.Memory, Processes: l.Processes, CPUs: l.CPUs, Files: l.Files, Disk: l.Disk, TurnMS: l.Turn.Milliseconds()}
}

// LimitsFromClient converts the limits in a request to a daemon.
func LimitsFromClient(l protocol.SessionLimits) workers.Limits {
	return workers.Limits{Memory: l.Memory, Processes: l.Processes, CPUs: l.CPUs, Files: l.Files, Disk: l.Disk, Turn: time.Duration(l.TurnMS) * time.Millisecond}
}

// RequireLimits returns an error if a session has other limits than the user asks for.
func RequireLimits(l workers.Limits, now session.Info) error {
	if l == (workers.Limits{}) || now.Limits == l.String() {
		return nil
	}
	has := now.Limits
	if has == "" {
		has = "no limits"
	}
	return fmt.Errorf("session %s is open with %s, not %s; close it, or use another name", now.Name, has, l)
}
