// Package pty implements the supervisor's end of a worker's terminal: a pseudo terminal on Unix, a
// pseudo console on Windows. It reads output, writes input, and finds the threads that are blocked
// in reading the terminal.
//
// The package neither starts nor ends workers, and knows no turns. There is one exception on
// Windows: a pseudo console begins with a program, so OpenConsole starts the given one. Some parts
// can be done only by a monitor. They are functions that the caller sets: Master.SetForeground,
// Console.RequestReset and Console.RequestMarker.
//
// # Goroutines
//
// On Unix there are none: a caller reads in AwaitOutput. A Console on Windows has these:
//
//	name            started by               ends when
//	pumpOutput      OpenConsole, ReadPiped   its source has ended
//	releaseConsole  EndConsole               the pseudo console and its sources have ended
//
// # Unproven on Windows
//
// The console has run under Wine only, and Windows may differ in these points:
//
//   - how and when a pseudo console draws its output; the order of titles is known from its source
//   - the questions that it asks its terminal at the start; Wine's asks none, and the answers have
//     unit tests
//   - whether every version leaves a line of less than 1000 columns in one piece
//   - its end, which before Windows 11 24H2 waits until the output is read
//   - its new size: Wine does not implement ResizePseudoConsole
package pty

import "time"

// A Terminal is the supervisor's end of the worker's terminal. Its methods may be called
// concurrently, except that only one WriteInput may run at a time. Restore ends a WriteInput in
// progress.
type Terminal struct{ tty tty }

// NewTerminal returns the terminal whose master end is t.
func NewTerminal(t tty) *Terminal { return &Terminal{t} }

// A tty implements a Terminal on one operating system.
type tty interface {
	tryRead(b []byte) (int, error)
	awaitOutput(take func() bool) error
	syncOutput()
	ttyInput
	ttyState
	Close() error
}

// A ttyInput is the part of a tty that programs on the terminal read.
type ttyInput interface {
	writeInput(b []byte, eof bool) error
	typeKeys([]byte) error
	answerQuery([]byte) int
	unreadInput() int
}

// A ttyState is the part of a tty that holds its modes, size and foreground group.
type ttyState interface {
	restoreState() error
	setSize(TerminalSize) error
	isRawMode() bool
	isEchoOff() bool
	readsKeys() bool
	returnsOnNewline() bool
	hasForegroundJob() bool
}

// TryRead reads what the worker's side wrote, without waiting: 0 and nil mean that there is
// nothing now. The error is io.EOF once no process has the terminal open any more, or Close was
// called.
func (t *Terminal) TryRead(b []byte) (int, error) { return t.tty.tryRead(b) }

// AwaitOutput calls take at once, and again whenever there may be something to read, until take
// returns true. It returns io.EOF once Close was called. Only one goroutine may call it at a time.
func (t *Terminal) AwaitOutput(take func() bool) error { return t.tty.awaitOutput(take) }

// WriteInput writes b as input of the terminal, followed by one end of file if eof is set. It
// fails if no reader takes any input for a second. Unread bytes stay queued until Restore.
func (t *Terminal) WriteInput(b []byte, eof bool) error { return t.tty.writeInput(b, eof) }

// UnreadInput returns the number of input bytes that were written and not read yet.
func (t *Terminal) UnreadInput() int { return t.tty.unreadInput() }

// SyncOutput waits until everything that programs wrote to the terminal can be read. On Unix it
// returns at once. On Windows a pseudo console draws the text first; SyncOutput waits at most 1 s.
func (t *Terminal) SyncOutput() { t.tty.syncOutput() }

// Restore restores the terminal's original foreground group and modes, and discards unread
// input. It costs two system calls if nothing has changed.
func (t *Terminal) Restore() error { return t.tty.restoreState() }

// Resize sets the terminal's size. The system notifies the programs on it.
func (t *Terminal) Resize(s TerminalSize) error { return t.tty.setSize(s.OrDefault()) }

// IsRawMode reports whether a program reads each key as it is typed, as editors, pagers and shells
// do. This is known only for an interactive terminal on Unix, as of the last TryRead.
func (t *Terminal) IsRawMode() bool { return t.tty.isRawMode() }

// IsEchoOff reports whether the terminal takes lines without showing them, such as a password. It is
// known only on Unix.
func (t *Terminal) IsEchoOff() bool { return t.tty.isEchoOff() }

// ReadsKeys reports whether the terminal now passes on each key as it is typed, not lines. It is known
// only on Unix.
func (t *Terminal) ReadsKeys() bool { return t.tty.readsKeys() }

// ReturnsOnNewline reports whether programs now expect that a newline also returns to the first column.
// The terminal itself does not do that, unless it is interactive.
func (t *Terminal) ReturnsOnNewline() bool { return t.tty.returnsOnNewline() }

// AnswerQuery sends what a terminal answers to the query of a program. Only a program that reads single
// keys can read the answer, so otherwise nothing is sent: it would be input of a later reader. It
// returns the number of bytes that were sent, and does not wait for a reader.
func (t *Terminal) AnswerQuery(b []byte) int { return t.tty.answerQuery(b) }

// TypeKeys types b at the terminal, as a terminal driver would. A key that stands for a
// signal under the modes that the program has chosen becomes that signal. TypeKeys fails if no
// program reads any key for a second; the rest is lost.
func (t *Terminal) TypeKeys(b []byte) error { return t.tty.typeKeys(b) }

// Close releases the terminal; calls in progress return.
func (t *Terminal) Close() error { return t.tty.Close() }

// HasForegroundJob reports whether a program has put its own process group in the foreground, as a
// shell does with its jobs. It is known only on Unix.
func (t *Terminal) HasForegroundJob() bool { return t.tty.hasForegroundJob() }

// TerminalSize is the size of a terminal in character cells; the zero value means 40 rows and 120
// columns.
type TerminalSize struct{ Rows, Cols uint16 }

// OrDefault returns s, or the default size for the zero value.
func (s TerminalSize) OrDefault() TerminalSize {
	if s == (TerminalSize{}) {
		return TerminalSize{Rows: 40, Cols: 120}
	}
	return s
}

// A TerminalReader is a thread of the worker's tree that is blocked in reading the
// terminal.
type TerminalReader struct {
	PID, TID int
	Command  string // the name of its program, as the kernel stores it (15 bytes)
	// Secret means that the terminal does not echo lines now: a password is expected.
	Secret bool
	// Raw means that the terminal passes on each key as it is typed, not lines.
	Raw bool
	// Polls means that the call ends on its own after some time. The thread probably makes it again
	// and again.
	Polls bool
	// Threads is the number of threads of its process. IsRunnable means that another one of them runs
	// or waits for a processor now, so the program does more than read.
	Threads    int
	IsRunnable bool
	// CPUTime is the processor time that the whole process has used, in steps of 10 ms.
	CPUTime time.Duration
	// Key identifies the thread if it polls. Otherwise it identifies this one blocked call. It changes once the thread has run, even if the thread
	// is back in the same call. It also changes if the kernel woke the thread for input that another
	// reader took.
	Key string
}

// A PollState says what a thread that polled the terminal does now.
type PollState uint8

const (
	PollEnded   PollState = iota // it is gone, stopped, or blocked in another call
	Polling                      // it is in its call
	PollRunning                  // it is between two calls, computes, or waits for a processor
)
