// Package registry says where the daemon of a user on a host listens, however the user has
// logged in. On Linux the daemon keeps an entry in the user's state directory, named by host,
// boot and process namespace, because that directory may be shared by hosts; and it holds a
// lock that no file system can lose. Elsewhere there is neither, and the daemon is found at
// the usual sockets.
//
// The package starts one goroutine for each [Lock], and one for each of up to 16 processes that ask it for a
// proof. They end with it.
package daemonlock

import (
	"errors"
	"fmt"
	"time"
)

// An Entry says where a daemon listens.
type Entry struct {
	PID        int       `json:"pid"`
	StartTicks uint64    `json:"start_ticks"` // when the process began, in clock ticks since the system did
	Socket     string    `json:"socket"`      // absolute
	Since      time.Time `json:"since"`       // when it began to listen there
}

// ErrLocked means that another process holds the lock.
var ErrLocked = errors.New("registry: another daemon of this user runs on this host")

// A LockedError says who holds the lock. It is [ErrLocked].
type LockedError struct {
	PID    int  // 0 if unknown
	Proven bool // it has proved that it is a daemon of this user
}

func (e *LockedError) Error() string {
	switch {
	case !e.Proven && e.PID == 0:
		return "a program that is not a daemon of this user holds the lock of its daemon"
	case !e.Proven:
		return fmt.Sprintf("the process %d, which is not a daemon of this user, holds the lock of its daemon", e.PID)
	}
	return fmt.Sprintf("the process %d holds the lock of this user's daemon", e.PID)
}

// Is makes the error an [ErrLocked].
func (e *LockedError) Is(target error) bool { return target == ErrLocked }
