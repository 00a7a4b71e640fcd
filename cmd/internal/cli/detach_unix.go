//go:build unix

package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// startDetached starts this program anew as a process that goes on when this one
// ends: in a session of its own, which neither the terminal's end nor the group's
// reaches. Nothing holds on to it here: confined is false.
func startDetached(self string, args []string, log *os.File) (cmd *exec.Cmd, confined bool, err error) {
	cmd = exec.Command(self, args...)
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd, false, cmd.Start()
}

// transientFile makes a file that is gone once nobody has it open.
func transientFile() (*os.File, error) {
	f, err := os.CreateTemp("", "repl-serve-*.log")
	if err != nil {
		return nil, err
	}
	return f, os.Remove(f.Name())
}

// wholeSocket names a socket for a process that works in another directory.
func wholeSocket(path string) (string, error) { return filepath.Abs(path) }
