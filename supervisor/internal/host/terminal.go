package host

// A Terminal is the supervisor's side of the worker's terminal. Its methods may
// be used side by side; Feed is for one goroutine at a time, and a Restore ends one.
type Terminal struct{ tty tty }

// tty is a terminal as one operating system implements it.
type tty interface {
	tryRead(b []byte) (int, error)
	await(take func() bool) error
	feed(b []byte, eof bool) error
	queued() int
	settle()
	restore() error
	resize(Size) error
	close() error
}

// TryRead reads what the worker's side wrote, without waiting: 0 and nil mean
// that there is nothing now. The error is io.EOF once nobody has the terminal
// open any more, or Process.Close closed it.
func (t *Terminal) TryRead(b []byte) (int, error) { return t.tty.tryRead(b) }

// Await calls take at once, and again whenever there may be something to read,
// until take returns true. It returns io.EOF when Process.Close closed the
// terminal. It is for one goroutine at a time.
func (t *Terminal) Await(take func() bool) error { return t.tty.await(take) }

// Feed hands b to whoever reads the terminal, then, if eof, one end of file.
// It fails when nobody takes anything for a second. Bytes that it wrote and
// nobody read stay queued until Restore.
func (t *Terminal) Feed(b []byte, eof bool) error { return t.tty.feed(b, eof) }

// Queued is the number of input bytes that were fed and not read yet.
func (t *Terminal) Queued() int { return t.tty.queued() }

// Settle waits until what was written to the terminal before can be read: not at
// all on Unix, at most 1 s on Windows, where a pseudo console draws it first.
func (t *Terminal) Settle() { t.tty.settle() }

// Restore puts foreground group, modes and unread input back to what they
// were at the start. It costs two system calls when nothing changed.
func (t *Terminal) Restore() error { return t.tty.restore() }

// Resize tells the terminal and the programs on it a new size.
func (t *Terminal) Resize(s Size) error { return t.tty.resize(s.orDefault()) }
