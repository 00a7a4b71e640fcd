//go:build unix

package terminal

import (
	"io"
	"os"
)

// suspends says whether Ctrl-Z gives the terminal back to the shell.
const suspends = true

// keys are what is typed at the terminal.
func keys() io.Reader { return os.Stdin }
