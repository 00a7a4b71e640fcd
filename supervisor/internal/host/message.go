package host

import (
	"errors"
	"syscall"

	"github.com/turnstone-repl/turnstone/supervisor/internal/confine"
)

// The supervisor and the stage speak JSON lines over two pipes. Each system uses only
// the messages that it needs.

// An order goes to the stage. End of file on that pipe is an order, too: the supervisor
// is gone, so end everything.
type order struct {
	Do     string // one of the constants below
	Plan   *plan  `json:",omitempty"` // of start
	Signal int    `json:",omitempty"` // of signal: the system's number
	To     Target `json:",omitempty"` // of signal
	Mark   uint64 `json:",omitempty"` // of mark

	ID    uint64         `json:",omitempty"` // of permit: the held call; of grant: for its answer
	OK    bool           `json:",omitempty"` // of permit
	Grant *confine.Grant `json:",omitempty"` // of grant, refresh
}

const (
	doStart      = "start"      // the first order, once: start the worker
	doSignal     = "signal"     // send Signal to To; answered when it was sent
	doForeground = "foreground" // give the terminal to the worker's group; answered
	doRestore    = "restore"    // restore the console's modes, discard unread input; answered
	doMark       = "mark"       // leave Mark in the output of the console
	doPermit     = "permit"     // let the held call ID go on, which succeeds only with OK
	doGrant      = "grant"      // give the sandbox a directory; answered
	doRefresh    = "refresh"    // show and protect what programs outside have changed, by Grant; answered like signal
	doForget     = "forget"     // tell denials again that were told already; answered like signal
	doKill       = "kill"       // end everything
)

// A plan is the worker to start. Its strings are bytes because paths and
// environments need not be UTF-8, which JSON strings are.
type plan struct {
	Path []byte
	Args [][]byte // with argv[0]
	Env  [][]byte
	Dir  []byte // "" is where the stage is
	Tag  string // of this worker: finds processes whose ancestry is lost, and begins marks

	Piped bool `json:",omitempty"` // the channel is standard input and output

	Stdin  uint64 `json:",omitempty"` // a handle of the stage; 0: the terminal
	Output string `json:",omitempty"` // the name of a pipe; "": the terminal

	Sandbox *confine.Plan `json:",omitempty"`
	Limits  Limits
	CPUs    []int `json:",omitempty"` // the processors among which Limits chooses; none: all

	Group []byte `json:",omitempty"` // the control group of the worker; none: "", as on most systems
	Home  []byte `json:",omitempty"` // that of the stage, with it
	Tasks int    `json:",omitempty"` // bounds RLIMIT_NPROC where the kernel counts all that the user has; 0 does not
}

// A report comes from the stage.
type report struct {
	What    string
	PID     int      `json:",omitempty"` // of started
	Step    string   `json:",omitempty"` // of step, failed
	Path    []byte   `json:",omitempty"` // of step, failed: the program or directory
	Errno   int      `json:",omitempty"` // of failed, foreground; 0 when the cause has none
	Text    string   `json:",omitempty"` // of failed without Errno
	Signal  string   `json:",omitempty"` // of stopped: its name
	Exit    *Exit    `json:",omitempty"` // of exited
	Remains []int    `json:",omitempty"` // of empty
	Notices [][]byte `json:",omitempty"` // of started, sent: of the sandbox

	Denied *denied `json:",omitempty"` // of denied
	ID     uint64  `json:",omitempty"` // of granted: that of the order
}

const (
	whatStep       = "step"       // Step begins, of Path; only before started or failed, and not on Unix
	whatStarted    = "started"    // the worker exists
	whatFailed     = "failed"     // it does not, and the stage has ended
	whatStopped    = "stopped"    // a signal stopped it; the stage continued it
	whatSent       = "sent"       // the answer to a signal: it is pending in its target
	whatForeground = "foreground" // the answer to that order
	whatRestored   = "restored"   // the answer to that order
	whatDenied     = "denied"     // the sandbox refused something, or holds it
	whatLook       = "look"       // calls change files: git's settings may lead to others by now
	whatGranted    = "granted"    // the answer to a grant; it failed if there is a Step
	whatExited     = "exited"     // the worker was reaped
	whatEmpty      = "empty"      // nothing is left but Remains; the stage has ended
)

// failed makes the report of a step that failed.
func failed(step, path string, err error) report {
	r := report{What: whatFailed, Step: step, Path: []byte(path)}
	r.setCause(err)
	return r
}

func (r *report) setCause(err error) {
	if no, ok := errors.AsType[syscall.Errno](err); ok {
		r.Errno = int(no)
	} else {
		r.Text = err.Error()
	}
}

// failure turns a report that failed made back into its error.
func (r *report) failure() *StartError {
	cause := errors.New(r.Text)
	if r.Errno != 0 {
		cause = syscall.Errno(r.Errno)
	}
	return &StartError{Step: r.Step, Path: string(r.Path), Err: cause}
}

func stringsOf(b [][]byte) []string {
	s := make([]string, len(b))
	for i := range b {
		s[i] = string(b[i])
	}
	return s
}

func bytesOf(s []string) [][]byte {
	b := make([][]byte, len(s))
	for i := range s {
		b[i] = []byte(s[i])
	}
	return b
}
