package terminal

import (
	"errors"
	"io"
	"os"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/sys/windows"
	"golang.org/x/term"
)

// usualEditor is there on all systems.
const usualEditor = "notepad"

// suspends says whether Ctrl-Z gives the terminal back to the shell. On Windows it means
// the end of input.
const suspends = false

func (m *mode) isTaken() bool { return true }

func notifyContinued(chan<- os.Signal) {}

func canSuspend() bool { return false }

func suspend() {}

// A mode is the mode of the console at standard input and output.
type mode struct {
	input  *term.State
	output uint32
}

// findMode notes the mode that the console has now.
func findMode() (*mode, error) {
	input, err := term.GetState(int(os.Stdin.Fd()))
	if err != nil {
		return nil, err
	}
	m := &mode{input: input}
	return m, windows.GetConsoleMode(windows.Handle(os.Stdout.Fd()), &m.output)
}

// raw delivers each key as it is pressed, and lets output have control sequences.
func (m *mode) raw() error {
	if _, err := term.MakeRaw(int(os.Stdin.Fd())); err != nil {
		return err
	}
	_ = windows.SetConsoleMode(windows.Handle(os.Stdout.Fd()), m.output|windows.ENABLE_PROCESSED_OUTPUT|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) // an old console shows them
	return nil
}

// exact is raw: here no program takes the keys.
func (m *mode) exact() error { return m.raw() }

// restore brings back the mode that findMode has noted.
func (m *mode) restore() error {
	_ = windows.SetConsoleMode(windows.Handle(os.Stdout.Fd()), m.output)
	return term.Restore(int(os.Stdin.Fd()), m.input)
}

// pause would leave the console to another program. A read of it cannot be given up.
func (m *mode) pause() (resume func(), err error) {
	return nil, errors.New("not on Windows")
}

// keys returns a reader of the keys typed at the console. Standard input itself would take
// a Ctrl-Z, and a read that Ctrl-C ends, for its end.
func (m *mode) keys() io.Reader {
	return &console{read: func(units []uint16) (int, error) {
		var n uint32
		err := windows.ReadConsole(windows.Handle(os.Stdin.Fd()), &units[0], uint32(len(units)), &n, nil)
		return int(n), err
	}}
}

// A console reads typed text as UTF-8.
type console struct {
	read func([]uint16) (int, error)
	half uint16 // the first of two units, until the second comes
}

// Read implements io.Reader, for one goroutine. p must have room for a few
// characters.
func (c *console) Read(p []byte) (int, error) {
	units := make([]uint16, 1+len(p)/utf8.UTFMax)
	units[0] = c.half
	n, err := c.read(units[1:])
	switch {
	case err != nil:
		return 0, err
	case n == 0: // some consoles report a Ctrl-C this way
		return copy(p, []byte{ctrlC}), nil
	}
	units = units[:1+n]
	if c.half == 0 {
		units = units[1:]
	}
	c.half = 0
	if last := units[len(units)-1]; utf16.IsSurrogate(rune(last)) && last < 0xdc00 {
		units, c.half = units[:len(units)-1], last
	}
	b := p[:0]
	for _, r := range utf16.Decode(units) {
		b = utf8.AppendRune(b, r)
	}
	return len(b), nil
}
