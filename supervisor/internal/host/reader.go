package host

// A Reader is a thread of the worker's tree that is blocked in reading the
// terminal.
type Reader struct {
	PID, TID int
	Command  string // the name of its program, as the kernel keeps it (15 bytes)
	// Secret means that the terminal does not echo lines now: a password.
	Secret bool
	// Key names this very wait: it changes when the thread moved on, even if
	// it is back in the same call. A thread that the kernel woke for input that
	// another reader took has moved on, too.
	Key string
}
