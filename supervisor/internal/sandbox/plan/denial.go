package plan

// A Denial is a call of a process in the session that the sandbox refused or holds.
type Denial struct {
	// ID is the number of a held call, from 1. The call waits for an answer with that ID. 0 means
	// that the call was refused and has returned. A call that a signal interrupted and that the
	// program repeats keeps its ID.
	ID uint64

	// Resolved means that the held call ID no longer waits: its program ended, or a signal ended
	// the call. The other fields are empty.
	Resolved bool

	Op      string // "write", "create", "remove", "rename", "change", "set", "read" or "connect"
	Path    string // the real path of the file, or ""
	Host    string // "name:port", or ""
	Program string // the program's name if it is not the worker itself

	Setting string // the git setting, such as "core.pager", if Op is "set" and Path is a git config file

	// Protected means that Path cannot be granted to the session.
	Protected bool
}

// The bounds of what a monitor reports.
const (
	// MaxReportedDenials bounds the denials that the monitor reports until the supervisor makes it
	// forget them. Further calls are refused without a report.
	MaxReportedDenials = 64

	// MaxQuestions bounds the permission questions in the same period. Further calls are refused as
	// if no user were available to answer.
	MaxQuestions = 32
)
