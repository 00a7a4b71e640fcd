package cmdkit

import (
	"io"
	"os"

	"golang.org/x/term"
)

// IsTerminal reports whether an output is a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// IsDumbTerminal reports whether the terminal can only show text. Windows has no TERM, but its
// console can do more.
func IsDumbTerminal() bool { return os.Getenv("TERM") == "dumb" }
