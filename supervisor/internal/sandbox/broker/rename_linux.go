package broker

import (
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/filestate"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/nameguard"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/workerview"
)

func (b *Broker) renamePath(f *fileCall, args *[6]uint64, paths [2]string) error {
	var flags uint
	if f.name == "renameat2" {
		flags = uint(args[4])
	}
	dir, old := path.Split(strings.TrimRight(paths[0], "/"))
	if old == "." || old == ".." || old == "" {
		return unix.EBUSY
	}
	from, err := b.OpenNameInDir(dir, old)
	if err != nil {
		return err
	}
	defer from.Close()
	if err := b.CheckMove(from); err != nil {
		return err
	}
	exchanges := flags&unix.RENAME_EXCHANGE != 0
	if exchanges {
		if err := b.CheckCreate(from, true); err != nil {
			return err
		}
	}
	if strings.HasSuffix(paths[0], "/") || strings.HasSuffix(paths[1], "/") {
		switch from.FileType() {
		case unix.S_IFDIR:
		case 0:
			return unix.ENOENT
		default:
			return unix.ENOTDIR
		}
	}
	if done, err := b.ReplaceSettings(from, paths[1], flags); done || err != nil {
		return err
	}
	tried := false
	err = b.withParent(paths[1], true, func(to workerview.NameInDir) error {
		tried = true
		if exchanges { // an exchange moves it as well
			if err := b.CheckMove(to); err != nil {
				return err
			}
		}
		return b.moveName(from, to, flags)
	})
	if denied, isDenied := err.(nameguard.ProtectedNameError); isDenied && !tried && !exchanges { // the kernel would refuse a rename to another type of file anyway, so return its error
		switch isDir, replacesDir := from.FileType() == unix.S_IFDIR, workerview.IsDirectoryAt(unix.AT_FDCWD, denied.Path); {
		case areOnDifferentMounts(from.Dir, path.Dir(denied.Path)):
			return unix.EXDEV // mv then copies, and the copy is checked
		case replacesDir && !isDir:
			return unix.EISDIR
		case isDir && !replacesDir && filestate.IsPresent(denied.Path):
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
func (b *Broker) moveName(from, to workerview.NameInDir, flags uint) error {
	if flags&unix.RENAME_EXCHANGE != 0 {
		return b.exchangeNames(from, to, flags)
	}
	oldType, mode := to.TypeAndMode()
	if b.IsGitLink(from, to.FullPath) {
		return nameguard.ProtectedNameError{Path: to.FullPath}
	}
	if oldType == unix.S_IFDIR {
		if err := b.CheckRemove(to); err != nil {
			return err
		}
	}
	err := unix.Renameat2(from.Dir, from.Name, to.Dir, to.Name, flags)
	switch {
	case err != nil:
		return err
	case oldType != 0 && oldType != unix.S_IFDIR:
		if b.IsGitLink(to, to.FullPath) { // another session has exchanged it in the meantime
			_ = unix.Unlinkat(to.Dir, to.Name, 0)
			return nameguard.ProtectedNameError{Path: to.FullPath}
		}
		return nil
	}
	if err = b.CheckCreated(to, true); err != nil {
		if unix.Renameat2(to.Dir, to.Name, from.Dir, from.Name, flags|unix.RENAME_NOREPLACE) != nil {
			to.RenameAside() // the old name was taken in the meantime
		}
		if oldType == unix.S_IFDIR {
			b.remakeDir(to, mode)
		}
	}
	return err
}

// exchangeNames exchanges two names, and exchanges them back if one result is not allowed.
func (b *Broker) exchangeNames(from, to workerview.NameInDir, flags uint) error {
	err := unix.Renameat2(from.Dir, from.Name, to.Dir, to.Name, flags)
	if err != nil {
		return err
	}
	if err = b.CheckCreated(to, true); err == nil {
		err = b.CheckCreated(from, true)
	}
	if err != nil && unix.Renameat2(to.Dir, to.Name, from.Dir, from.Name, flags) != nil {
		to.RenameAside() // the other name was removed in the meantime
	}
	return err
}

// remakeDir creates again an empty directory that a rename has replaced.
func (b *Broker) remakeDir(s workerview.NameInDir, mode uint32) {
	if unix.Mkdirat(s.Dir, s.Name, 0o700) == nil {
		_ = unix.Fchmodat(s.Dir, s.Name, mode, 0)
		b.RecordCreated(s.FullPath)
	}
}
