package linux

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/mountlist"
)

// isMounted reports whether a name is a mount point.
func isMounted(dir int, name string) bool {
	var st unix.Statx_t
	err := unix.Statx(dir, name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, 0, &st)
	return err == nil && st.Attributes_mask&st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}

// openParentDir opens the directory of a path without following links. In a directory of the
// session it creates missing parts. isStart is set when a worker starts: then files of an earlier
// worker that block the path are removed.
func openParentDir(path string, around func(string) mountlist.MountKind, isStart bool) (int, error) {
	dir := filepath.Dir(path)
	open := func() (int, error) {
		return unix.Openat2(unix.AT_FDCWD, dir, &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	}
	fd, err := open()
	if err == nil || !around(dir).IsEmptyDir() {
		return fd, err
	}
	above, err := openParentDir(dir, around, isStart)
	if err != nil {
		return -1, err
	}
	defer unix.Close(above)
	name := filepath.Base(dir)
	if err := withWritableDir(above, around(dir), func(at int) error {
		if isStart {
			_ = unix.Unlinkat(at, name, 0)
		}
		return unix.Mkdirat(at, name, 0o755)
	}); err != nil {
		return -1, err
	}
	return open()
}

// makeMountPoint creates the mount point for a clone, or the symbolic link, in a directory of the
// session. If over is set, the clone may be mounted over an existing file.
func makeMountPoint(dir int, name string, c detachedMount, around mountlist.MountKind, over bool) error {
	kind := uint32(unix.S_IFLNK)
	if c.fd >= 0 {
		var clone unix.Statx_t // not Stat, which would query network filesystems
		if err := unix.Statx(c.fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE, &clone); err != nil {
			return err
		}
		if kind = unix.S_IFREG; clone.Mode&unix.S_IFMT == unix.S_IFDIR {
			kind = unix.S_IFDIR
		}
	}
	var st unix.Stat_t
	err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case err != nil && err != unix.ENOENT, err != nil && !around.IsEmptyDir():
		return err
	case err == nil && kind != unix.S_IFLNK && st.Mode&unix.S_IFMT == kind && (over || !around.IsEmptyDir()):
		return nil
	case err == nil && !around.IsEmptyDir():
		return unix.EEXIST
	}
	return withWritableDir(dir, around, func(at int) error {
		if err == nil {
			if err := removeEmpty(at, name); err != nil {
				return err
			}
		}
		switch kind {
		case unix.S_IFLNK:
			return unix.Symlinkat(string(c.Source), at, name)
		case unix.S_IFDIR:
			return unix.Mkdirat(at, name, 0o755)
		}
		fd, err := unix.Openat(at, name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
		if err == nil {
			unix.Close(fd)
		}
		return err
	})
}

// removeEmpty removes an empty mount point, or a link. Files and directories with content belong to
// the session.
func removeEmpty(dir int, name string) error {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	switch mode := st.Mode & unix.S_IFMT; {
	case mode == unix.S_IFDIR:
		return unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
	case mode != unix.S_IFLNK && st.Size > 0:
		return unix.EEXIST
	}
	return unix.Unlinkat(dir, name, 0)
}

// withWritableDir calls do in a directory of the session. A ReadOnlyParent is read-only where the
// session sees it, but not in a clone of its mount. It is a tmpfs, which distinguishes it from any
// directory of the machine.
func withWritableDir(dir int, around mountlist.MountKind, do func(at int) error) error {
	err := do(dir)
	if err != unix.EROFS || around != mountlist.ReadOnlyParent {
		return err
	}
	var fs unix.Statfs_t
	if e := unix.Fstatfs(dir, &fs); e != nil || fs.Type != unix.TMPFS_MAGIC {
		return err
	}
	own, e := unix.OpenTree(dir, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	if e != nil {
		return e
	}
	defer unix.Close(own)
	if e := makeWritable(own); e != nil {
		return e
	}
	return do(own)
}

// makeWritable makes a clone of a read-only mount writable.
func makeWritable(fd int) error {
	return unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY})
}

// mountAttributes returns the attributes of a mount. When a worker starts, a ReadOnlyParent becomes
// read-only only after it was filled.
func mountAttributes(k mountlist.MountKind, filled bool) uint64 {
	set := uint64(unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV)
	switch {
	case k == mountlist.ReadOnlyBind, k == mountlist.GuardedFile, k == mountlist.ReplacedFile, k == mountlist.GrantableBind, k == mountlist.ReadOnlyParent && filled:
		set |= unix.MOUNT_ATTR_RDONLY
	case k == mountlist.MaskedPath:
		set |= unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOEXEC
	}
	return set
}

// ensureMountPoint creates a mount point for fd if none exists.
func ensureMountPoint(fd int, path string) error {
	if _, err := os.Lstat(path); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return os.MkdirAll(path, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, nil, 0o600)
}
