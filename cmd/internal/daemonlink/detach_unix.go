//go:build unix

package daemonlink

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// startDetached starts this program again as a process that outlives this one. The new process has
// its own session, so neither the end of the terminal nor signals to the process group reach it.
// confined is always false on Unix.
func startDetached(self string, args []string, log *os.File) (cmd *exec.Cmd, confined bool, err error) {
	cmd = exec.Command(self, args...)
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	closeInheritedOnExec()
	return cmd, false, cmd.Start()
}

// closeInheritedOnExec keeps programs that this one starts from inheriting the files that this one
// was started with, except the standard streams. Otherwise a daemon would hold the caller's lock,
// or the writing end of its pipe, for as long as it lives.
func closeInheritedOnExec() {
	for _, fd := range openDescriptors() {
		if fd > syscall.Stderr {
			syscall.CloseOnExec(fd)
		}
	}
}

// openDescriptors returns the numbers of the open files, or all possible numbers if the system does
// not list them.
func openDescriptors() (all []int) {
	entries, err := os.ReadDir("/dev/fd")
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil {
			all = append(all, fd)
		}
	}
	if err == nil {
		return all
	}
	var limit syscall.Rlimit
	_ = syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit)
	for fd := range min(int(limit.Cur), maxDescriptors) {
		all = append(all, fd)
	}
	return all
}

// maxDescriptors bounds the file numbers that are tried.
const maxDescriptors = 1 << 16

// ChooseTempDir chooses another directory for temporary files, for this program and all that it
// starts, if the current one is not writable. Python, R and tmux do the same. The directory may
// belong to another user after su or sudo, or may have been removed with the job or shell that made
// it. A read-only container often has only /dev/shm.
func ChooseTempDir() {
	if isWritableDir(os.TempDir()) {
		return
	}
	for _, dir := range []string{"/tmp", "/var/tmp", "/dev/shm"} {
		if isWritableDir(dir) {
			_ = os.Setenv("TMPDIR", dir)
			return
		}
	}
}

// isWritableDir reports whether this user can create files in a directory.
func isWritableDir(dir string) bool {
	return unix.Faccessat(unix.AT_FDCWD, dir+"/.", unix.W_OK|unix.X_OK, unix.AT_EACCESS) == nil
}

// newTransientFile creates a file that is removed when the last program closes it.
func newTransientFile() (*os.File, error) {
	f, err := os.CreateTemp("", "repl-serve-*.log")
	if err != nil {
		return nil, err
	}
	return f, os.Remove(f.Name())
}

// AbsoluteSocket returns a name for a socket that is valid in any directory.
func AbsoluteSocket(path string) (string, error) { return filepath.Abs(path) }

// controllingTerminal opens the terminal of this process. It returns nil without one.
func controllingTerminal() *os.File {
	f, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	return f
}
