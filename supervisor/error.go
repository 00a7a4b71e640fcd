package supervisor

import (
	"errors"
	"fmt"
	"time"
)

// Errors that callers compare with errors.Is. [BusyError] and [WaitingError]
// match ErrBusy and ErrWaiting and say more.
var (
	// ErrBusy says that a turn is active; nothing was sent.
	ErrBusy = errors.New("supervisor: the session is busy")

	// ErrWaiting says that the active turn waits for input; nothing was sent.
	ErrWaiting = errors.New("supervisor: the session waits for input")

	// ErrStale says that the wait is over, or never was; nothing was consumed.
	ErrStale = errors.New("supervisor: that wait is over")

	// ErrClosed says that the session or supervisor was closed.
	ErrClosed = errors.New("supervisor: closed")

	// ErrExists says that a session of that name is open.
	ErrExists = errors.New("supervisor: a session of that name is open")

	// ErrLimit says that Options.MaxSessions are open.
	ErrLimit = errors.New("supervisor: too many sessions")

	// ErrTooLarge says that an input exceeds MaxInputBytes; nothing was sent.
	ErrTooLarge = errors.New("supervisor: the input is too large")

	// ErrUnsupported says that the worker lacks the capability.
	ErrUnsupported = errors.New("supervisor: the worker does not offer this")

	// ErrNoAnswer says that the worker did not answer a query in time.
	ErrNoAnswer = errors.New("supervisor: the worker did not answer")
)

// BusyError refuses an input because another one runs.
type BusyError struct {
	State State         // starting, running or stopping
	Turn  uint64        // the active turn; 0 while starting
	For   time.Duration // how long it has been active
}

func (e *BusyError) Error() string {
	if e.State == StateRunning {
		return fmt.Sprintf("supervisor: turn %d has been running for %.1f s", e.Turn, e.For.Seconds())
	}
	return fmt.Sprintf("supervisor: the session is %s since %.1f s", e.State, e.For.Seconds())
}

func (e *BusyError) Is(target error) bool { return target == ErrBusy }

// WaitingError refuses a new input because the active turn asks for input.
type WaitingError struct {
	Wait Wait
}

func (e *WaitingError) Error() string {
	return fmt.Sprintf("supervisor: turn %d waits for input (wait %d, prompt %q)", e.Wait.Turn, e.Wait.ID, e.Wait.Prompt)
}

func (e *WaitingError) Is(target error) bool { return target == ErrWaiting }

// NameError refuses the name of a session.
type NameError struct {
	Name string
}

func (e *NameError) Error() string {
	return fmt.Sprintf("supervisor: %q is not a session name: use 1 to 64 letters, digits, dots, dashes and underscores", e.Name)
}

// StartError says why a worker could not be started.
type StartError struct {
	Session string
	Err     error
}

func (e *StartError) Error() string {
	return fmt.Sprintf("supervisor: session %q did not start: %v", e.Session, e.Err)
}

func (e *StartError) Unwrap() error { return e.Err }
