package sandboxcheck

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// UnprivilegedUID is the ID of a user without files; tests started as root run as this user.
const UnprivilegedUID = 61_234

// setUnprivileged makes a command end with this process. If this process runs as root, the command
// runs as UnprivilegedUID, which also gets dir.
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
