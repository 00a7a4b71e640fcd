// Package programs is for tests that write programs, run them, or are one.
package testexec

import (
	"os"
	"syscall"
	"time"
)

// WriteExecutable writes a program. No child of this process is started meanwhile: until such a child runs a
// program of its own, it has the file open for writing, and to run the file then fails with
// "text file busy" (go.dev/issue/22315).
func WriteExecutable(path string, text []byte) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(path, text, 0o755)
}

// BlockForever does nothing until the process is killed. An empty select is no such thing: without cgo,
// Go ends a program in which nobody can go on.
func BlockForever() {
	for {
		time.Sleep(time.Hour)
	}
}
