package host

// A Denial is a call that the sandbox refuses to a program of the tree.
type Denial struct {
	// ID is the number of a held call, from 1: it waits for Permit. 0 means that the call
	// was refused and has returned. A call that a signal ended and that begins again has
	// its former ID.
	ID uint64

	// Over means that the held call ID waits no longer: its program ended, or a signal
	// ended the call. The other fields are empty.
	Over bool

	Op   string // "write", "create", "read" or "connect"
	Path string // the real path of the file, or ""
	Host string // "name:port", or ""
	By   string // the program's name if it is not the worker itself
}
