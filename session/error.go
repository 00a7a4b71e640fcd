package session

import (
	"errors"
	"fmt"
	"time"
)

// A Kind classifies an error for programs. A daemon sends it with each error.
type Kind string

const (
	KindBusy        Kind = "busy"           // a turn is active; nothing was sent
	KindWaiting     Kind = "waiting"        // the active turn asks for input; nothing was sent
	KindStale       Kind = "stale"          // that input request or turn is over; nothing was consumed
	KindClosed      Kind = "no_session"     // the session was closed, or no session has that name
	KindExists      Kind = "exists"         // a session has that name already
	KindDiffers     Kind = "differs"        // a session has that name, but not the language, sandbox or limits that are asked for
	KindLimit       Kind = "limit"          // too many sessions
	KindTooLarge    Kind = "too_large"      // an input or an answer; nothing was sent
	KindSpec        Kind = "invalid_spec"   // the worker description is invalid: a retry fails, too
	KindStart       Kind = "start_failed"   // a worker could not be started, or the runtime is not installed
	KindUnsupported Kind = "unsupported"    // the worker does not offer this
	KindNoOutput    Kind = "no_output"      // there is no output file
	KindName        Kind = "name"           // the name is not valid for a session
	KindNoAnswer    Kind = "no_answer"      // the worker did not answer a query in time
	KindInvalid     Kind = "invalid_params" // an argument is out of bounds
	KindNoBlob      Kind = "no_blob"        // the session has no data with that digest, or has dropped it
	KindNoFile      Kind = "no_file"        // no such file, or it is not a regular file
	KindFileExists  Kind = "file_exists"    // a file has that name already; nothing was replaced
	KindFileChanged Kind = "file_changed"   // a file or its directory was changed during a transfer; begin again
	KindFileFailed  Kind = "file_failed"    // the system could not read or write a file, for example because the disk is full
	KindNoAccess    Kind = "no_access"      // a path is outside of the working directory, or the sandbox or the system refuses it
	KindPermission  Kind = "permission"     // only a decision of the user ends that input request
	KindUnconfirmed Kind = "unconfirmed"    // the user must confirm the target of a path, or its content; nothing was granted
	KindQueueFull   Kind = "queue_full"     // MaxQueuedInputs inputs wait already; nothing was sent
	KindReset       Kind = "reset"          // a reset came while the input waited in the queue; it was not run

	KindStillRunning Kind = "still_running" // made by Run: the code did not end after two interrupts
)

// The kinds of errors that a daemon, or the connection to it, adds.
const (
	KindLocked              Kind = "locked"               // another client has the write lock
	KindDraining            Kind = "draining"             // the daemon takes no new work
	KindUnreachable         Kind = "unreachable"          // made by package client: the daemon is gone
	KindShuttingDown        Kind = "shutting_down"        // the daemon ended before the call did
	KindProtocol            Kind = "protocol"             // made by package client: the daemon is of another version
	KindCancelled           Kind = "cancelled"            // the call was cancelled
	KindDetached            Kind = "detached"             // made by package client: another client has ended the connection
	KindOutcomeUnknown      Kind = "outcome_unknown"      // made by package client: the daemon was restarted, and a call may or may not have run
	KindUnknownLanguage     Kind = "unknown_language"     // the daemon has no such language
	KindUnknownSubscription Kind = "unknown_subscription" // the connection has no such subscription
	KindUnknownMethod       Kind = "unknown_method"       // the daemon is older, and does not have the method
)

// An Error means that a session refused a request. Errors of one kind match each other under
// errors.Is. Its JSON form is the data field of a daemon's error.
type Error struct {
	Kind    Kind   `json:"kind"`
	Message string `json:"-"`

	Turn         uint64        `json:"turn,omitempty"`          // KindBusy: the active turn; 0 while a worker starts. KindStillRunning: the turn
	State        *State        `json:"state,omitempty"`         // KindBusy
	ActiveFor    time.Duration `json:"-"`                       // KindBusy: how long it has been active
	InputRequest *InputRequest `json:"input_request,omitempty"` // KindWaiting
	Grant        *Grant        `json:"grant,omitempty"`         // KindUnconfirmed: what is granted once the user has confirmed it

	Cause error `json:"-"` // the underlying error; may be nil
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the underlying error, or nil.
func (e *Error) Unwrap() error { return e.Cause }

// Is reports whether target is an error of the same kind.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Kind == e.Kind
}

// Data returns the fields of the error's JSON form, without its kind; nil if there are none.
func (e *Error) Data() map[string]any {
	data := make(map[string]any)
	if e.Turn != 0 {
		data["turn"] = e.Turn
	}
	if e.State != nil {
		data["state"] = *e.State
	}
	if e.InputRequest != nil {
		data["input_request"] = e.InputRequest
	}
	if e.Grant != nil {
		data["grant"] = e.Grant
	}
	return data
}

// Errors that callers compare with errors.Is.
var (
	ErrBusy        error = &Error{Kind: KindBusy, Message: "the session is busy"}
	ErrWaiting     error = &Error{Kind: KindWaiting, Message: "the session waits for input"}
	ErrStale       error = &Error{Kind: KindStale, Message: "that input request is over"}
	ErrClosed      error = &Error{Kind: KindClosed, Message: "the session was closed"}
	ErrExists      error = &Error{Kind: KindExists, Message: "a session with that name exists"}
	ErrLimit       error = &Error{Kind: KindLimit, Message: "too many sessions"}
	ErrTooLarge    error = &Error{Kind: KindTooLarge, Message: "the input is too large"}
	ErrSpec        error = &Error{Kind: KindSpec, Message: "invalid worker description"}
	ErrStart       error = &Error{Kind: KindStart, Message: "the worker did not start"}
	ErrUnsupported error = &Error{Kind: KindUnsupported, Message: "the worker does not offer this"}
	ErrNoAnswer    error = &Error{Kind: KindNoAnswer, Message: "the worker did not answer"}
	ErrNoOutput    error = &Error{Kind: KindNoOutput, Message: "no output file"}
	ErrNoFile      error = &Error{Kind: KindNoFile, Message: "not a regular file"}
	ErrQueueFull   error = &Error{Kind: KindQueueFull, Message: "too many inputs wait already"}
	ErrReset       error = &Error{Kind: KindReset, Message: "the session was reset; the input was not run"}
	ErrNoBlob      error = &Error{Kind: KindNoBlob, Message: "no event of the session has data with that digest, or no longer has it"}

	ErrStillRunning error = &Error{Kind: KindStillRunning, Message: "the code still runs"}
)

// Errorf returns an error of a kind with a formatted message.
//
// Errors are rare and callers many, so a copy in each would only make programs larger.
//
//go:noinline
func Errorf(kind Kind, format string, args ...any) error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, args...)}
}

// KindOf returns the kind of err; "" if it has none.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return ""
}

// MaxInputBytes bounds the input of one turn, and the answer to one input request.
const MaxInputBytes = 63 << 20

// NewTooLargeError returns the error for an input or answer of this many bytes.
func NewTooLargeError(bytes int) error {
	return Errorf(KindTooLarge, "the input is too large: it has %d bytes; the limit is %d", bytes, MaxInputBytes)
}

// NewBusyError returns the error for an input that comes while a turn, a start or an end has
// been running for d.
func NewBusyError(state State, turn uint64, d time.Duration) *Error {
	e := &Error{Kind: KindBusy, State: &state, Turn: turn, ActiveFor: d}
	if state == StateRunning {
		e.Message = fmt.Sprintf("turn %d has been running for %.1f s", turn, d.Seconds())
	} else {
		e.Message = fmt.Sprintf("the session has been %s for %.1f s; this input was not run", state, d.Seconds())
	}
	return e
}

// NewWaitingError returns the error for an input that comes while the active turn has an open
// input request.
func NewWaitingError(w InputRequest) *Error {
	if p := w.Permission; p != nil {
		return &Error{Kind: KindWaiting, InputRequest: &w, Message: fmt.Sprintf("turn %d waits until the user allows or refuses: %s", w.Turn, p.AccessDenied)}
	}
	if w.Form != nil {
		return &Error{Kind: KindWaiting, InputRequest: &w, Message: fmt.Sprintf("turn %d waits until the user answers the server %s", w.Turn, w.Form.Server)}
	}
	return &Error{Kind: KindWaiting, InputRequest: &w, Message: fmt.Sprintf("turn %d waits for input (request %d, prompt %q)", w.Turn, w.ID, w.Prompt)}
}
