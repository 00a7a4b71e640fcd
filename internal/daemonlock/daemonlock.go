// Package daemonlock finds the daemon of a user on a host, from any login, and ensures that only
// one runs.
//
// On Linux the daemon writes an entry into the state directory of the user. Hosts may share that
// directory, so the name of the entry contains the host, the boot and the process namespace. The
// daemon also holds a lock that does not depend on a file system. Other systems have neither. There
// the daemon is found at the default sockets.
//
// The package starts one goroutine for each [Lock], and one for each of up to 16 processes that ask
// the lock for a proof. They end with the lock.
package daemonlock

import (
	"errors"
	"fmt"
	"time"
)

// A LockEntry is a file that says where a daemon listens.
type LockEntry struct {
	PID        int       `json:"pid"`
	StartTicks uint64    `json:"start_ticks"` // when the process started, in clock ticks since the boot
	Socket     string    `json:"socket"`      // absolute
	Since      time.Time `json:"since"`       // when the entry was written
}

// ErrLocked means that another process holds the lock.
var ErrLocked = errors.New("daemonlock: another daemon of this user runs on this host")

// A LockedError names the process that holds the lock; it matches [ErrLocked].
type LockedError struct {
	PID    int  // 0 if unknown
	Proven bool // the process has proved that it is a daemon of this user
}

func (e *LockedError) Error() string {
	switch {
	case !e.Proven && e.PID == 0:
		return "the lock for the daemon of this user is held by a program that is not a daemon"
	case !e.Proven:
		return fmt.Sprintf("the lock for the daemon of this user is held by process %d, which is not a daemon", e.PID)
	}
	return fmt.Sprintf("the lock for the daemon of this user is held by process %d", e.PID)
}

// Is reports whether target is [ErrLocked].
func (e *LockedError) Is(target error) bool { return target == ErrLocked }
