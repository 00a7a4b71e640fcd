package broker

import (
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/nameguard"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/workerview"
)

// changeAttributes changes the mode or an extended attribute of a file, which a path or a
// descriptor names. Times and owners are left to the kernel. No program decides by times what to
// run, and a session has only one user and one group.
func (b *Broker) changeAttributes(n *seccompNotif, f *fileCall, file string) error {
	args := &n.Data.Args
	fd, err := b.openTarget(n, f, file)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	isMode, byName := strings.Contains(f.name, "chmod"), len(f.paths) > 0
	if err := b.WithStableFilePath(fd, func(full string) error {
		if b.IsModeFixed(full) && !(isMode && isGitModeProbe(fd, full, uint32(args[modeOf(f)]))) {
			return nameguard.ProtectedNameError{Path: full}
		}
		return nil
	}); err != nil {
		return err
	}
	if isMode {
		mode := uint32(args[modeOf(f)]) & 0o7777
		if isSetuidMode(mode) && !workerview.IsDirectory(fd) {
			return unix.EPERM
		}
		if byName {
			return unix.Fchmodat(unix.AT_FDCWD, workerview.SelfFDPath(fd), mode, 0)
		}
		return unix.Fchmod(fd, mode)
	}
	name, err := attributeOf(n)
	if err != nil {
		return err
	}
	if strings.Contains(f.name, "remove") {
		if byName {
			return unix.Removexattr(workerview.SelfFDPath(fd), name)
		}
		return unix.Fremovexattr(fd, name)
	}
	if args[3] > maxAttributeSize {
		return unix.E2BIG
	}
	value := make([]byte, args[3])
	if err := workerview.PeekMemory(int(n.PID), args[2], value); err != nil {
		return unix.EFAULT
	}
	if byName {
		return unix.Setxattr(workerview.SelfFDPath(fd), name, value, int(int32(args[4])))
	}
	return unix.Fsetxattr(fd, name, value, int(int32(args[4])))
}

const (
	maxAttributeSize = 1 << 16 // XATTR_SIZE_MAX
	maxAttributeName = 256     // XATTR_NAME_MAX and a zero byte
)

// attributeOf reads the name of an extended attribute from the program's memory.
func attributeOf(n *seccompNotif) (string, error) {
	var text [maxAttributeName]byte
	k, err := workerview.PeekText(int(n.PID), n.Data.Args[1], text[:])
	if err == unix.ENAMETOOLONG {
		err = unix.ERANGE
	}
	if err != nil {
		return "", err
	}
	return string(text[:k]), nil
}

// modeOf returns the index of the argument with the mode of a chmod.
func modeOf(f *fileCall) int {
	if len(f.paths) > 0 {
		return f.paths[0].path + 1
	}
	return 1
}

// openTarget opens the file that a call changes, by its path or descriptor.
func (b *Broker) openTarget(n *seccompNotif, f *fileCall, file string) (int, error) {
	if len(f.paths) == 0 {
		return b.CopyDescriptorWithRights(int(n.PID), int(int32(n.Data.Args[0])))
	}
	if fd, err := b.openFile(n, file); err != unix.ENOENT {
		return fd, err
	}
	flags := uint64(0)
	if strings.HasPrefix(f.name, "l") { // lsetxattr
		flags = unix.O_NOFOLLOW
	}
	return b.OpenPathWith(append([]byte(file), 0), flags)
}

// isGitModeProbe reports whether a mode change is the probe that git makes on its config file when
// it reinitializes a repository. Git sets the executable bit there only to learn whether the
// filesystem supports it.
func isGitModeProbe(fd int, full string, mode uint32) bool {
	var st unix.Stat_t
	return path.Base(full) == "config" && unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && (st.Mode^mode)&0o7777&^unix.S_IXUSR == 0
}

// isSetuidMode reports whether a mode makes a program run with the rights of its owner. Such a file
// would let other users of the machine act as the session's user.
func isSetuidMode(mode uint32) bool { return mode&(unix.S_ISUID|unix.S_ISGID) != 0 }
