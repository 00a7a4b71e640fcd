package host

import "errors"

// A Terminal is the supervisor's side of the worker's terminal. Its methods may
// be used side by side; Feed is for one goroutine at a time, and a Restore ends one.
type Terminal struct{ tty tty }

// tty is a terminal as one operating system implements it.
type tty interface {
	read(b []byte) (int, error)
	wake()
	feed(b []byte, eof bool) error
	queued() int
	restore() error
	resize(Size) error
	drainNow(b []byte) (int, bool)
	close() error
}

// Read returns what the worker's side wrote, and io.EOF once nobody has the
// terminal open any more or Process.Close closed it.
func (t *Terminal) Read(b []byte) (int, error) { return t.tty.read(b) }

// ErrWoken is what a Read that Wake ended returns.
var ErrWoken = errors.New("host: the read was woken")

// Wake ends the Read in progress, or the next one, with ErrWoken. No byte is
// lost by it.
func (t *Terminal) Wake() { t.tty.wake() }

// DrainNow reads what is there, without waiting. It reports false when there
// was nothing. It does not wait for a Read in progress, so a caller that uses
// both must know which bytes come first.
func (t *Terminal) DrainNow(b []byte) (int, bool) { return t.tty.drainNow(b) }

// Feed hands b to whoever reads the terminal, then, if eof, one end of file.
// It fails when nobody takes anything for a second. Bytes that it wrote and
// nobody read stay queued until Restore.
func (t *Terminal) Feed(b []byte, eof bool) error { return t.tty.feed(b, eof) }

// Queued is the number of input bytes that were fed and not read yet.
func (t *Terminal) Queued() int { return t.tty.queued() }

// Restore puts foreground group, modes and unread input back to what they
// were at the start. It costs two system calls when nothing changed.
func (t *Terminal) Restore() error { return t.tty.restore() }

// Resize tells the terminal and the programs on it a new size.
func (t *Terminal) Resize(s Size) error { return t.tty.resize(s.orDefault()) }
