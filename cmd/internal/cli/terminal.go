package cli

import (
	"io"
	"os"

	"golang.org/x/term"
)

// isTerminal reports whether an output is a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// isDumbTerminal reports whether the terminal can only show text. Windows has no TERM, but its
// console can do more.
func isDumbTerminal() bool { return os.Getenv("TERM") == "dumb" }
