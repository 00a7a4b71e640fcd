package daemonlink

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/windows"
)

// startDetached starts this program again as a process that outlives this one. The new process has
// a hidden console: keys and the end of this console do not reach it, and its children open no
// windows. It leaves the job of this process; confined means that it cannot leave the job, and ends
// with it. It inherits only the log.
func startDetached(self string, args []string, log *os.File) (cmd *exec.Cmd, confined bool, err error) {
	windir, err := windows.GetSystemWindowsDirectory()
	if err != nil {
		return nil, false, err
	}
	start := func(flags uint32) error {
		cmd = exec.Command(self, args...)
		cmd.Dir = filepath.VolumeName(windir) + `\`
		cmd.Stdout, cmd.Stderr = log, log
		cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_NO_WINDOW | flags}
		return cmd.Start()
	}
	err = start(windows.CREATE_BREAKAWAY_FROM_JOB)
	if errors.Is(err, windows.ERROR_ACCESS_DENIED) {
		confined, err = true, start(0)
	}
	return cmd, confined, err
}

// newTransientFile creates a file that is removed when the last program closes it.
func newTransientFile() (*os.File, error) {
	name := fmt.Sprintf("repl-serve-%d-%d.log", os.Getpid(), time.Now().UnixNano())
	return os.OpenFile(filepath.Join(os.TempDir(), name), os.O_RDWR|os.O_CREATE|os.O_EXCL|windows.FILE_FLAG_DELETE_ON_CLOSE, 0o600)
}

// AbsoluteSocket returns name: the name of a pipe does not depend on a directory.
func AbsoluteSocket(name string) (string, error) { return name, nil }

// controllingTerminal opens the console of this process. It returns nil without one.
func controllingTerminal() *os.File {
	f, err := os.OpenFile("CONIN$", os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	return f
}

// ChooseTempDir does nothing: Windows chooses the directory for temporary files itself.
func ChooseTempDir() {}
