//go:build unix

package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// startDetached starts this program again as a process that outlives this one. It has a
// session of its own, so neither the end of the terminal nor signals to the group reach
// it. confined is always false on Unix.
func startDetached(self string, args []string, log *os.File) (cmd *exec.Cmd, confined bool, err error) {
	cmd = exec.Command(self, args...)
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	closeInheritedOnExec()
	return cmd, false, cmd.Start()
}

// closeInheritedOnExec has no program that this one starts get the files that this one was started with,
// beside the standard streams. A daemon would hold the caller's lock, or the writing end of its pipe,
// for as long as it lives.
func closeInheritedOnExec() {
	for _, fd := range openDescriptors() {
		if fd > syscall.Stderr {
			syscall.CloseOnExec(fd)
		}
	}
}

// openDescriptors returns the numbers of the open files; where the system does not tell them, all that there
// may be.
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

// maxDescriptors bounds the numbers of files that are tried.
const maxDescriptors = 1 << 16

// chooseTempDir has this program and all that it starts use another directory for temporary files where the one that
// is named cannot be written, as Python, R and tmux do: it is another user's after su or sudo, or went with a job or a
// shell that made it. A container with read-only files often has /dev/shm alone.
func chooseTempDir() {
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

// isWritableDir reports whether this user can make files in a directory.
func isWritableDir(dir string) bool {
	return unix.Faccessat(unix.AT_FDCWD, dir+"/.", unix.W_OK|unix.X_OK, unix.AT_EACCESS) == nil
}

// newTransientFile makes a file that is removed when the last program closes it.
func newTransientFile() (*os.File, error) {
	f, err := os.CreateTemp("", "repl-serve-*.log")
	if err != nil {
		return nil, err
	}
	return f, os.Remove(f.Name())
}

// absoluteSocket names a socket for a process in another directory.
func absoluteSocket(path string) (string, error) { return filepath.Abs(path) }

// controllingTerminal opens the terminal of this process; nil if it has none.
func controllingTerminal() *os.File {
	f, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	return f
}
