package linux

import (
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/filestate"
)

func (b *broker) renamePath(f *fileCall, args *[6]uint64, paths [2]string) error {
	var flags uint
	if f.name == "renameat2" {
		flags = uint(args[4])
	}
	dir, old := path.Split(strings.TrimRight(paths[0], "/"))
	if old == "." || old == ".." || old == "" {
		return unix.EBUSY
	}
	from, err := b.openNameInDir(dir, old)
	if err != nil {
		return err
	}
	defer from.close()
	if err := b.checkMove(from); err != nil {
		return err
	}
	exchanges := flags&unix.RENAME_EXCHANGE != 0
	if exchanges {
		if err := b.checkCreate(from, true); err != nil {
			return err
		}
	}
	if strings.HasSuffix(paths[0], "/") || strings.HasSuffix(paths[1], "/") {
		switch from.fileType() {
		case unix.S_IFDIR:
		case 0:
			return unix.ENOENT
		default:
			return unix.ENOTDIR
		}
	}
	if done, err := b.replaceSettings(from, paths[1], flags); done || err != nil {
		return err
	}
	tried := false
	err = b.withParent(paths[1], true, func(to nameInDir) error {
		tried = true
		if exchanges { // an exchange moves it as well
			if err := b.checkMove(to); err != nil {
				return err
			}
		}
		return b.moveName(from, to, flags)
	})
	if denied, isDenied := err.(protectedNameError); isDenied && !tried && !exchanges { // the kernel would refuse a rename to another type of file anyway, so return its error
		switch isDir, replacesDir := from.fileType() == unix.S_IFDIR, isDirectoryAt(unix.AT_FDCWD, denied.path); {
		case areOnDifferentMounts(from.dir, path.Dir(denied.path)):
			return unix.EXDEV // mv then copies, and the copy is checked
		case replacesDir && !isDir:
			return unix.EISDIR
		case isDir && !replacesDir && filestate.IsPresent(denied.path):
			return unix.ENOTDIR
		}
	}
	return err
}

// areOnDifferentMounts reports whether two directories are on different mounts, across which
// rename(2) does not work.
func areOnDifferentMounts(dir int, other string) bool {
	var a, b unix.Statx_t
	return unix.Statx(dir, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &a) == nil &&
		unix.Statx(unix.AT_FDCWD, other, 0, unix.STATX_MNT_ID, &b) == nil && a.Mnt_id != b.Mnt_id
}

// moveName renames, and renames back if the result is not allowed. A rename over an existing file
// is not undone: the name existed before, and the replaced file cannot be restored.
func (b *broker) moveName(from, to nameInDir, flags uint) error {
	if flags&unix.RENAME_EXCHANGE != 0 {
		return b.exchangeNames(from, to, flags)
	}
	oldType, mode := to.typeAndMode()
	if b.isGitLink(from, to.fullPath) {
		return protectedNameError{path: to.fullPath}
	}
	if oldType == unix.S_IFDIR {
		if err := b.checkRemove(to); err != nil {
			return err
		}
	}
	err := unix.Renameat2(from.dir, from.name, to.dir, to.name, flags)
	switch {
	case err != nil:
		return err
	case oldType != 0 && oldType != unix.S_IFDIR:
		if b.isGitLink(to, to.fullPath) { // another session has exchanged it in the meantime
			_ = unix.Unlinkat(to.dir, to.name, 0)
			return protectedNameError{path: to.fullPath}
		}
		return nil
	}
	if err = b.checkCreated(to, true); err != nil {
		if unix.Renameat2(to.dir, to.name, from.dir, from.name, flags|unix.RENAME_NOREPLACE) != nil {
			to.renameAside() // the old name was taken in the meantime
		}
		if oldType == unix.S_IFDIR {
			b.remakeDir(to, mode)
		}
	}
	return err
}

// exchangeNames exchanges two names, and exchanges them back if one result is not allowed.
func (b *broker) exchangeNames(from, to nameInDir, flags uint) error {
	err := unix.Renameat2(from.dir, from.name, to.dir, to.name, flags)
	if err != nil {
		return err
	}
	if err = b.checkCreated(to, true); err == nil {
		err = b.checkCreated(from, true)
	}
	if err != nil && unix.Renameat2(to.dir, to.name, from.dir, from.name, flags) != nil {
		to.renameAside() // the other name was removed in the meantime
	}
	return err
}

// remakeDir makes an empty directory again that a rename has replaced.
func (b *broker) remakeDir(s nameInDir, mode uint32) {
	if unix.Mkdirat(s.dir, s.name, 0o700) == nil {
		_ = unix.Fchmodat(s.dir, s.name, mode, 0)
		b.recordCreated(s.fullPath)
	}
}
