//go:build unix

package chartlib

import (
	"os"
	"syscall"
)

// openFile opens a file. It does not wait for the other end of a pipe.
func openFile(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
}
