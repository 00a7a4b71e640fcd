package host

import (
	"errors"
	"syscall"

	"github.com/turnstone-repl/turnstone/supervisor/internal/confine"
)

// The supervisor and the monitor exchange JSON lines over two pipes. Each system uses only
// the messages that it needs.

// A monitorCommand is a request of the supervisor to the monitor. End of file on that pipe is a
// command, too: the supervisor is gone, so end everything.
type monitorCommand struct {
	Kind   string         // one of the constants below
	Plan   *workerCommand `json:",omitempty"` // of start
	Signal int            `json:",omitempty"` // of signal: the system's number
	To     Target         `json:",omitempty"` // of signal
	Marker uint64         `json:",omitempty"` // of mark

	ID    uint64              `json:",omitempty"` // of permit: the suspended call; of grant: repeated in its answer
	OK    bool                `json:",omitempty"` // of permit
	Grant *confine.MountGrant `json:",omitempty"` // of grant, refresh
}

const (
	commandStart          = "start"      // the first command, once: start the worker
	commandSignal         = "signal"     // send Signal to To; answered once it was sent
	commandSetForeground  = "foreground" // give the terminal to the worker's group; answered
	commandRestoreConsole = "restore"    // restore the console's modes, discard unread input; answered
	commandWriteMarker    = "mark"       // write Marker to the output of the console
	commandAnswerCall     = "permit"     // end the question ID; its suspended calls are retried
	commandGrant          = "grant"      // add a directory to the sandbox; answered
	commandRefreshSandbox = "refresh"    // apply Grant, which shows and protects what programs outside the sandbox have changed; answered like a signal
	commandForgetDenials  = "forget"     // report denials again that were reported already; answered like signal
	commandKill           = "kill"       // end everything
)

// A workerCommand describes the worker to start. Its strings are bytes because paths and
// environments need not be UTF-8, as JSON strings must be.
type workerCommand struct {
	Path []byte
	Args [][]byte // with argv[0]
	Env  [][]byte
	Dir  []byte // "" is the monitor's own directory
	Tag  string // of this worker: finds processes whose ancestry is lost, and starts each marker

	ChannelOnStdio bool `json:",omitempty"` // the channel is standard input and output

	Stdin  uint64 `json:",omitempty"` // a handle of the monitor; 0: the terminal
	Output string `json:",omitempty"` // the name of a pipe; "": the terminal

	Sandbox *confine.Plan `json:",omitempty"`
	Limits  ProcessLimits
	CPUs    []int `json:",omitempty"` // the processors that Limits chooses from; none: all

	WorkerCgroup  []byte `json:",omitempty"` // the control group of the worker; "" without one, as on most systems
	MonitorCgroup []byte `json:",omitempty"` // that of the monitor, if the worker has one
	MaxUserTasks  int    `json:",omitempty"` // RLIMIT_NPROC where the kernel counts all of the user's tasks; 0: unlimited
}

// A monitorEvent is a report from the monitor to the supervisor.
type monitorEvent struct {
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

	Denial *denialEvent `json:",omitempty"` // of denied
	ID     uint64       `json:",omitempty"` // of granted: that of the command
}

const (
	eventStep            = "step"       // Step starts, with Path; only before started or failed, and not on Unix
	eventStarted         = "started"    // the worker exists
	eventStartFailed     = "failed"     // the worker does not exist, and the monitor has ended
	eventStopped         = "stopped"    // a signal stopped the worker; the monitor continued it
	eventSignalSent      = "sent"       // the answer to a signal: it is pending in its target
	eventForegroundSet   = "foreground" // the answer to that command
	eventConsoleRestored = "restored"   // the answer to that command
	eventDenied          = "denied"     // the sandbox refused a call, or suspends it
	eventFilesChanged    = "look"       // calls have changed files, so git settings may refer to different files now
	eventGranted         = "granted"    // the answer to a grant; it failed if there is a Step
	eventExited          = "exited"     // the worker was reaped
	eventTreeEmpty       = "empty"      // nothing is left but Survivors; the monitor has ended
)

// newFailedEvent returns the event for a step that failed.
func newFailedEvent(step, path string, err error) monitorEvent {
	event := monitorEvent{Kind: eventStartFailed, Step: step, Path: []byte(path)}
	event.setCause(err)
	return event
}

func (e *monitorEvent) setCause(err error) {
	if no, ok := errors.AsType[syscall.Errno](err); ok {
		e.Errno = int(no)
	} else {
		e.Text = err.Error()
	}
}

// startError converts an event of newFailedEvent back into its error.
func (e *monitorEvent) startError() *StartError {
	cause := errors.New(e.Text)
	if e.Errno != 0 {
		cause = syscall.Errno(e.Errno)
	}
	return &StartError{Step: e.Step, Path: string(e.Path), Err: cause}
}

func toStrings(b [][]byte) []string {
	s := make([]string, len(b))
	for i := range b {
		s[i] = string(b[i])
	}
	return s
}

func toByteSlices(s []string) [][]byte {
	b := make([][]byte, len(s))
	for i := range s {
		b[i] = []byte(s[i])
	}
	return b
}
