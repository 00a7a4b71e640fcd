package host

// A Terminal is the supervisor's side of the worker's terminal. Its methods may be
// called concurrently, except that only one Feed may run at a time. Restore ends a Feed
// in progress.
type Terminal struct{ tty tty }

// tty is a terminal as one operating system implements it.
type tty interface {
	tryRead(b []byte) (int, error)
	awaitOutput(take func() bool) error
	writeInput(b []byte, eof bool) error
	unreadInput() int
	syncOutput()
	restoreState() error
	setSize(Size) error
	close() error
	isRawMode() bool
	typeKeys([]byte) error
	hasForegroundJob() bool
}

// TryRead reads what the worker's side wrote, without waiting: 0 and nil mean
// that there is nothing now. The error is io.EOF once nobody has the terminal
// open any more, or Process.Close closed it.
func (t *Terminal) TryRead(b []byte) (int, error) { return t.tty.tryRead(b) }

// AwaitOutput calls take at once, and again whenever there may be something to read,
// until take returns true. It returns io.EOF when Process.Close closed the
// terminal. It is for one goroutine at a time.
func (t *Terminal) AwaitOutput(take func() bool) error { return t.tty.awaitOutput(take) }

// WriteInput writes b as input of the terminal, followed by one end of file if eof is set. It
// fails when no reader takes anything for a second. Unread bytes stay queued until
// Restore.
func (t *Terminal) WriteInput(b []byte, eof bool) error { return t.tty.writeInput(b, eof) }

// UnreadInput returns the number of input bytes that were fed and not read yet.
func (t *Terminal) UnreadInput() int { return t.tty.unreadInput() }

// SyncOutput waits until everything that was written to the terminal can be read. On Unix
// that is at once. On Windows a pseudo console draws it first; SyncOutput waits at most 1 s.
func (t *Terminal) SyncOutput() { t.tty.syncOutput() }

// Restore restores the terminal's first foreground group and modes, and discards unread
// input. It costs two system calls when nothing has changed.
func (t *Terminal) Restore() error { return t.tty.restoreState() }

// Resize sets the terminal's size. The programs on it are notified.
func (t *Terminal) Resize(s Size) error { return t.tty.setSize(s.orDefault()) }

// IsRawMode reports whether a program takes each key as it is typed: an editor, a pager, a shell.
// It is known of a person's terminal on Unix, as of the last TryRead.
func (t *Terminal) IsRawMode() bool { return t.tty.isRawMode() }

// TypeKeys types b at a person's terminal, as a terminal's driver would: a key that makes a signal
// under the modes that the program has chosen becomes that signal. It fails when nobody takes
// anything for a second; the rest is lost.
func (t *Terminal) TypeKeys(b []byte) error { return t.tty.typeKeys(b) }

// HasForegroundJob reports whether a program has brought a group of its own to the foreground, as a shell does
// with its jobs. It is known on Unix.
func (t *Terminal) HasForegroundJob() bool { return t.tty.hasForegroundJob() }
