package host

import (
	"errors"
	"syscall"

	"github.com/turnstone-repl/turnstone/supervisor/internal/confine"
)

// The supervisor and the stage speak JSON lines over two pipes. Each system uses only
// the messages that it needs.

// A monitorCommand goes to the stage. End of file on that pipe is an order, too: the supervisor
// is gone, so end everything.
type monitorCommand struct {
	Kind   string         // one of the constants below
	Plan   *workerCommand `json:",omitempty"` // of start
	Signal int            `json:",omitempty"` // of signal: the system's number
	To     Target         `json:",omitempty"` // of signal
	Marker uint64         `json:",omitempty"` // of mark

	ID    uint64              `json:",omitempty"` // of permit: the held call; of grant: for its answer
	OK    bool                `json:",omitempty"` // of permit
	Grant *confine.MountGrant `json:",omitempty"` // of grant, refresh
}

const (
	commandStart          = "start"      // the first order, once: start the worker
	commandSignal         = "signal"     // send Signal to To; answered when it was sent
	commandSetForeground  = "foreground" // give the terminal to the worker's group; answered
	commandRestoreConsole = "restore"    // restore the console's modes, discard unread input; answered
	commandWriteMarker    = "mark"       // leave Mark in the output of the console
	commandPermitCall     = "permit"     // let the held call ID go on, which succeeds only with OK
	commandGrant          = "grant"      // give the sandbox a directory; answered
	commandRefreshSandbox = "refresh"    // show and protect what programs outside have changed, by Grant; answered like signal
	commandForgetDenials  = "forget"     // tell denials again that were told already; answered like signal
	commandKill           = "kill"       // end everything
)

// A workerCommand is the worker to start. Its strings are bytes because paths and
// environments need not be UTF-8, which JSON strings are.
type workerCommand struct {
	Path []byte
	Args [][]byte // with argv[0]
	Env  [][]byte
	Dir  []byte // "" is where the stage is
	Tag  string // of this worker: finds processes whose ancestry is lost, and begins marks

	ChannelOnStdio bool `json:",omitempty"` // the channel is standard input and output

	Stdin  uint64 `json:",omitempty"` // a handle of the stage; 0: the terminal
	Output string `json:",omitempty"` // the name of a pipe; "": the terminal

	Sandbox *confine.Plan `json:",omitempty"`
	Limits  Limits
	CPUs    []int `json:",omitempty"` // the processors among which Limits chooses; none: all

	WorkerCgroup  []byte `json:",omitempty"` // the control group of the worker; none: "", as on most systems
	MonitorCgroup []byte `json:",omitempty"` // that of the stage, with it
	MaxUserTasks  int    `json:",omitempty"` // bounds RLIMIT_NPROC where the kernel counts all that the user has; 0 does not
}

// A monitorEvent comes from the stage.
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
	ID     uint64       `json:",omitempty"` // of granted: that of the order
}

const (
	eventStep            = "step"       // Step begins, of Path; only before started or failed, and not on Unix
	eventStarted         = "started"    // the worker exists
	eventStartFailed     = "failed"     // it does not, and the stage has ended
	eventStopped         = "stopped"    // a signal stopped it; the stage continued it
	eventSignalSent      = "sent"       // the answer to a signal: it is pending in its target
	eventForegroundSet   = "foreground" // the answer to that order
	eventConsoleRestored = "restored"   // the answer to that order
	eventDenied          = "denied"     // the sandbox refused something, or holds it
	eventFilesChanged    = "look"       // calls change files: git's settings may lead to others by now
	eventGranted         = "granted"    // the answer to a grant; it failed if there is a Step
	eventExited          = "exited"     // the worker was reaped
	eventTreeEmpty       = "empty"      // nothing is left but Remains; the stage has ended
)

// newFailedEvent makes the report of a step that failed.
func newFailedEvent(step, path string, err error) monitorEvent {
	r := monitorEvent{Kind: eventStartFailed, Step: step, Path: []byte(path)}
	r.setCause(err)
	return r
}

func (r *monitorEvent) setCause(err error) {
	if no, ok := errors.AsType[syscall.Errno](err); ok {
		r.Errno = int(no)
	} else {
		r.Text = err.Error()
	}
}

// startError turns a report that failed made back into its error.
func (r *monitorEvent) startError() *StartError {
	cause := errors.New(r.Text)
	if r.Errno != 0 {
		cause = syscall.Errno(r.Errno)
	}
	return &StartError{Step: r.Step, Path: string(r.Path), Err: cause}
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
