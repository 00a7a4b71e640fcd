package confine

// A Denial is a call that the sandbox refuses to a program of the tree.
type Denial struct {
	// ID is the number of a held call, from 1: it waits for Permit. 0 means that the call
	// was refused and has returned. A call that a signal ended and that begins again has
	// its former ID.
	ID uint64

	// Resolved means that the held call ID waits no longer: its program ended, or a signal
	// ended the call. The other fields are empty.
	Resolved bool

	Op      string // "write", "create", "remove", "rename", "change", "set", "read" or "connect"
	Path    string // the real path of the file, or ""
	Host    string // "name:port", or ""
	Program string // the program's name if it is not the worker itself

	Setting string // of git, where Op is "set" and Path a file of those; "core.pager"

	// Protected means that Path is kept from the session whatever a person allows it.
	Protected bool
}

const (
	// maxReportedDenials bounds the denials that the stage tells before the supervisor orders it to
	// forget them. More are refused just the same.
	maxReportedDenials = 64

	// maxQuestions bounds the questions until then. Beyond it, calls are refused as if nobody
	// could be asked.
	maxQuestions = 32
)
