// Package testexec helps tests that write programs, run them, or act as one. It starts no
// goroutines.
package testexec

import (
	"os"
	"syscall"
	"testing"
	"time"
)

// WriteExecutable writes a program, and starts no child of this process at the same time. Until
// such a child executes its own program, it has the file open for writing. Running the file then
// fails with "text file busy" (go.dev/issue/22315).
func WriteExecutable(path string, text []byte) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(path, text, 0o755)
}

// BlockForever does nothing until the process is killed. An empty select is not enough: without
// cgo, Go ends a program whose goroutines are all blocked.
func BlockForever() {
	for {
		time.Sleep(time.Hour)
	}
}

// OwnPath returns the path of this test binary, which may act as other programs: see testmain.
func OwnPath() string {
	path, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return path
}

// ShortDir returns a new directory, which is removed after the test. The system bounds the path of a
// socket, and the path of the test's own directory is too long.
func ShortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "t")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
