package monitorproto

// A TerminalReader is a thread of the worker's tree that is blocked in reading the
// terminal.
type TerminalReader struct {
	PID, TID int
	Command  string // the name of its program, as the kernel stores it (15 bytes)
	// Secret means that the terminal does not echo lines now: a password is expected.
	Secret bool
	// Key identifies this one blocked call. It changes once the thread has run, even if the thread
	// is back in the same call. It also changes if the kernel woke the thread for input that another
	// reader took.
	Key string
}
