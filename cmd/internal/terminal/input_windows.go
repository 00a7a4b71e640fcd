package terminal

import (
	"io"
	"os"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/sys/windows"
)

// suspends says whether Ctrl-Z gives the terminal back to the shell. On Windows it means
// the end of input.
const suspends = false

func suspend() {}

// keys returns a reader of the keys typed at the console. Standard input itself would take
// a Ctrl-Z, and a read that Ctrl-C ends, for its end.
func keys() io.Reader {
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
