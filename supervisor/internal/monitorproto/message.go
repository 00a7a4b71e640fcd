// Package monitorproto defines the protocol between the supervisor and the monitor of a worker:
// commands, events, and the values in them. They exchange JSON lines over two pipes. Each system
// uses only the messages that it needs.
//
// The monitor is the same program as the supervisor, so the messages need no versions. The package
// starts no goroutines, reads nothing of the system, and does not know how a command is carried
// out.
package monitorproto

import (
	"errors"
	"syscall"

	"github.com/turnstone-repl/turnstone/supervisor/internal/proctree"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/plan"
)

// A MonitorCommand is a request of the supervisor to the monitor. End of file on that pipe is a
// command, too: the supervisor is gone, so end everything.
type MonitorCommand struct {
	Kind   string         // one of the constants below
	Worker *WorkerCommand `json:",omitempty"` // of start
	Signal int            `json:",omitempty"` // of signal: the system's number
	To     Target         `json:",omitempty"` // of signal
	Marker uint64         `json:",omitempty"` // of mark

	ID    uint64           `json:",omitempty"` // of permit: the suspended call; of grant: repeated in its answer
	OK    bool             `json:",omitempty"` // of permit
	Grant *plan.MountGrant `json:",omitempty"` // of grant, refresh
}

// The kinds of a MonitorCommand.
const (
	CommandStart          = "start"      // the first command, once: start the worker
	CommandSignal         = "signal"     // send Signal to To; answered once it was sent
	CommandSetForeground  = "foreground" // give the terminal to the worker's group; answered
	CommandRestoreConsole = "restore"    // restore the console's modes, discard unread input; answered
	CommandWriteMarker    = "mark"       // write Marker to the output of the console
	CommandAnswerCall     = "permit"     // end the question ID; its suspended calls are retried
	CommandGrant          = "grant"      // add a directory to the sandbox; answered
	CommandRefreshSandbox = "refresh"    // apply Grant, which shows and protects what programs outside the sandbox have changed; answered like a signal
	CommandForgetDenials  = "forget"     // report denials again that were reported already; answered like signal
	CommandKill           = "kill"       // end everything
)

// A WorkerCommand describes the worker to start. Its strings are bytes because paths and
// environments need not be UTF-8, as JSON strings must be.
type WorkerCommand struct {
	Path []byte
	Args [][]byte // with argv[0]
	Env  [][]byte
	Dir  []byte // "" is the monitor's own directory
	Tag  string // of this worker: finds processes whose ancestry is lost, and starts each marker

	ChannelOnStdio bool `json:",omitempty"` // the channel is standard input and output

	Stdin  uint64 `json:",omitempty"` // a handle of the monitor; 0: the terminal
	Output string `json:",omitempty"` // the name of a pipe; "": the terminal

	Sandbox *plan.Plan `json:",omitempty"`
	Limits  proctree.ProcessLimits
	CPUs    []int `json:",omitempty"` // the processors that Limits chooses from; none: all

	WorkerCgroup  []byte `json:",omitempty"` // the control group of the worker; "" without one, as on most systems
	MonitorCgroup []byte `json:",omitempty"` // that of the monitor, if the worker has one
	MaxUserTasks  int    `json:",omitempty"` // RLIMIT_NPROC where the kernel counts all of the user's tasks; 0: unlimited
}

// A MonitorEvent is a report from the monitor to the supervisor.
type MonitorEvent struct {
	Kind      string
	PID       int      `json:",omitempty"` // of started
	Step      string   `json:",omitempty"` // of step, failed
	Path      []byte   `json:",omitempty"` // of step, failed: the program or directory
	Errno     int      `json:",omitempty"` // of failed, foreground; 0 when the cause has none
	Text      string   `json:",omitempty"` // of failed without Errno
	Signal    string   `json:",omitempty"` // of stopped: its name
	Exit      *Exit    `json:",omitempty"` // of exited
	Survivors []int    `json:",omitempty"` // of empty
	Notices   [][]byte `json:",omitempty"` // of started, sent: of the sandbox

	Denial *DenialEvent `json:",omitempty"` // of denied
	ID     uint64       `json:",omitempty"` // of granted: that of the command
}

// The kinds of a MonitorEvent.
const (
	EventStep            = "step"       // Step starts, with Path; only before started or failed, and not on Unix
	EventStarted         = "started"    // the worker exists
	EventStartFailed     = "failed"     // the worker does not exist, and the monitor has ended
	EventStopped         = "stopped"    // a signal stopped the worker; the monitor continued it
	EventSignalSent      = "sent"       // the answer to a signal: it is pending in its target
	EventForegroundSet   = "foreground" // the answer to that command
	EventConsoleRestored = "restored"   // the answer to that command
	EventDenied          = "denied"     // the sandbox refused a call, or suspends it
	EventFilesChanged    = "look"       // calls have changed files, so git settings may refer to different files now
	EventGranted         = "granted"    // the answer to a grant; it failed if there is a Step
	EventExited          = "exited"     // the worker was reaped
	EventTreeEmpty       = "empty"      // nothing is left but Survivors; the monitor has ended
)

// NewFailedEvent returns the event for a step that failed.
func NewFailedEvent(step, path string, err error) MonitorEvent {
	event := MonitorEvent{Kind: EventStartFailed, Step: step, Path: []byte(path)}
	event.SetCause(err)
	return event
}

// SetCause records why a step failed.
func (e *MonitorEvent) SetCause(err error) {
	if no, ok := errors.AsType[syscall.Errno](err); ok {
		e.Errno = int(no)
	} else {
		e.Text = err.Error()
	}
}

// StartError converts an event of NewFailedEvent back into its error.
func (e *MonitorEvent) StartError() *StartError {
	cause := errors.New(e.Text)
	if e.Errno != 0 {
		cause = syscall.Errno(e.Errno)
	}
	return &StartError{Step: e.Step, Path: string(e.Path), Err: cause}
}

// ToStrings converts the byte slices of a message to strings.
func ToStrings(b [][]byte) []string {
	s := make([]string, len(b))
	for i := range b {
		s[i] = string(b[i])
	}
	return s
}

// ToByteSlices converts strings to the byte slices of a message.
func ToByteSlices(s []string) [][]byte {
	b := make([][]byte, len(s))
	for i := range s {
		b[i] = []byte(s[i])
	}
	return b
}

// ChannelVariable is the environment variable that passes a worker its channel and nonce.
const ChannelVariable = "REPL_IPC"
