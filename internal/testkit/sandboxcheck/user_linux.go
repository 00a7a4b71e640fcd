package sandboxcheck

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// UnprivilegedUID is a user without any files; root becomes this user.
const UnprivilegedUID = 61_234

// setUnprivileged makes a command end with this process, and gives it and its directory to
// Nobody if this one is root.
func setUnprivileged(cmd *exec.Cmd, dir string) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Getuid() != 0 {
		return nil
	}
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: UnprivilegedUID, Gid: UnprivilegedUID}
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, UnprivilegedUID, UnprivilegedUID)
	})
}
