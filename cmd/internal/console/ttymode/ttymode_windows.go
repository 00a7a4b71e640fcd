package ttymode

import (
	"errors"
	"io"
	"os"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/sys/windows"
	"golang.org/x/term"
)

// DefaultEditor exists on all systems.
const DefaultEditor = "notepad"

// CtrlZSuspends says whether Ctrl-Z gives the terminal back to the shell. On Windows it means the
// end of input.
const CtrlZSuspends = false

func (t *TTY) IsRaw() bool { return true }

func NotifyContinued(chan<- os.Signal) {}

func CanSuspend() bool { return false }

func SuspendProcessGroup() {}

// A TTY switches the modes of the console at standard input and output.
type TTY struct {
	inputState *term.State
	outputMode uint32
}

// Open records the current mode of the console.
func Open() (*TTY, error) {
	input, err := term.GetState(int(os.Stdin.Fd()))
	if err != nil {
		return nil, err
	}
	m := &TTY{inputState: input}
	return m, windows.GetConsoleMode(windows.Handle(os.Stdout.Fd()), &m.outputMode)
}

// SetRaw delivers each key as it is pressed, and enables control sequences in output.
func (t *TTY) SetRaw() error {
	if _, err := term.MakeRaw(int(os.Stdin.Fd())); err != nil {
		return err
	}
	_ = windows.SetConsoleMode(windows.Handle(os.Stdout.Fd()), t.outputMode|windows.ENABLE_PROCESSED_OUTPUT|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) // an old console prints them
	return nil
}

// SetFullyRaw is SetRaw: on Windows no program takes the keys.
func (t *TTY) SetFullyRaw() error { return t.SetRaw() }

// RestoreMode restores the mode that Open recorded.
func (t *TTY) RestoreMode() error {
	_ = windows.SetConsoleMode(windows.Handle(os.Stdout.Fd()), t.outputMode)
	return term.Restore(int(os.Stdin.Fd()), t.inputState)
}

// PauseReading always fails, because a read of a console cannot be cancelled.
func (t *TTY) PauseReading() (resume func(), err error) {
	return nil, errors.New("not supported on Windows")
}

// InputReader returns a reader of the keys typed at the console. Standard input itself would report
// its end at a Ctrl-Z, and at a read that Ctrl-C ends. The console stays in raw mode while code
// runs. Without raw mode, Ctrl-C would be an event, but keys that are typed ahead would be shown,
// even those of a password.
func (t *TTY) InputReader() io.Reader {
	return &consoleReader{read: func(units []uint16) (int, error) {
		var n uint32
		err := windows.ReadConsole(windows.Handle(os.Stdin.Fd()), &units[0], uint32(len(units)), &n, nil)
		return int(n), err
	}}
}

// A consoleReader reads typed text as UTF-8.
type consoleReader struct {
	read          func([]uint16) (int, error)
	highSurrogate uint16 // the first of two units, until the second arrives
}

// Read implements io.Reader, for one goroutine. p must have room for a few characters.
func (c *consoleReader) Read(p []byte) (int, error) {
	units := make([]uint16, 1+len(p)/utf8.UTFMax)
	units[0] = c.highSurrogate
	n, err := c.read(units[1:])
	switch {
	case err != nil:
		return 0, err
	case n == 0: // some consoles report Ctrl-C this way
		return copy(p, []byte{0x03}), nil
	}
	units = units[:1+n]
	if c.highSurrogate == 0 {
		units = units[1:]
	}
	c.highSurrogate = 0
	if last := units[len(units)-1]; utf16.IsSurrogate(rune(last)) && last < 0xdc00 {
		units, c.highSurrogate = units[:len(units)-1], last
	}
	b := p[:0]
	for _, r := range utf16.Decode(units) {
		b = utf8.AppendRune(b, r)
	}
	return len(b), nil
}
