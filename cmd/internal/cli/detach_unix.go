//go:build unix

package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// startDetached starts this program again as a process that outlives this one. It has a
// session of its own, so neither the end of the terminal nor signals to the group reach
// it. confined is always false on Unix.
func startDetached(self string, args []string, log *os.File) (cmd *exec.Cmd, confined bool, err error) {
	cmd = exec.Command(self, args...)
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd, false, cmd.Start()
}

// transientFile makes a file that is removed when the last program closes it.
func transientFile() (*os.File, error) {
	f, err := os.CreateTemp("", "repl-serve-*.log")
	if err != nil {
		return nil, err
	}
	return f, os.Remove(f.Name())
}

// wholeSocket names a socket for a process in another directory.
func wholeSocket(path string) (string, error) { return filepath.Abs(path) }

// controllingTerminal opens the terminal of this process; nil if it has none.
func controllingTerminal() *os.File {
	f, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	return f
}
