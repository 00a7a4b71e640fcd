//go:build unix

package pkginstall

import (
	"io/fs"
	"os"
	"os/exec"
	"syscall"
)

// setProcessGroup makes killing cmd also kill all its children.
func setProcessGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

// whyUntrusted returns why another user may have put files into a directory. "" means that only the
// user can do so.
func whyUntrusted(info fs.FileInfo) string {
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.IsDir():
		return "is not a directory"
	case !ok || int(stat.Uid) != os.Geteuid():
		return "belongs to another user"
	case info.Mode().Perm()&0o022 != 0:
		return "is writable by other users; run chmod go-w on it"
	}
	return ""
}

// venvPython is the path of the interpreter inside a virtual environment.
const venvPython = "bin/python"
