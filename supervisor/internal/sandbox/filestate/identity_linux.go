package filestate

import (
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// StampOf returns the stamp of a file, or zero if it does not exist.
func StampOf(name string) Stamp {
	var st unix.Stat_t
	if unix.Stat(name, &st) != nil {
		return Stamp{}
	}
	return Stamp{uint64(st.Dev), st.Ino, st.Size, st.Mtim.Nano(), st.Ctim.Nano()}
}

// SameFilesystem reports whether two files exist on one filesystem.
func SameFilesystem(a, b string) bool {
	var x, y unix.Stat_t
	return unix.Stat(a, &x) == nil && unix.Stat(b, &y) == nil && x.Dev == y.Dev
}

// IdentityOf returns a text that distinguishes a file from all others, even from one that reuses
// its inode number. It returns "" if the file does not exist.
func IdentityOf(name string) string { return IdentityAt(unix.AT_FDCWD, name, 0, name) }

// OpenIdentity is IdentityOf for an open file with this name.
func OpenIdentity(fd int, name string) string {
	return IdentityAt(fd, "", unix.AT_EMPTY_PATH, name)
}

// IdentityAt is IdentityOf for a path in an open directory, or for the open file itself. name
// distinguishes files on a filesystem without creation times.
func IdentityAt(dir int, path string, flags int, name string) string {
	var st unix.Statx_t
	if unix.Statx(dir, path, unix.AT_SYMLINK_NOFOLLOW|flags, unix.STATX_INO|unix.STATX_BTIME, &st) != nil {
		return ""
	}
	id := strconv.FormatUint(uint64(st.Dev_major)<<32|uint64(st.Dev_minor), 36) + "/" + strconv.FormatUint(st.Ino, 36)
	if st.Mask&unix.STATX_BTIME == 0 {
		return id + " " + name
	}
	return id + "/" + strconv.FormatInt(st.Btime.Sec, 36) + "." + strconv.Itoa(int(st.Btime.Nsec))
}

// LocalIdentity is IdentityOf, except that for a mount point it uses only what the kernel knows,
// because a network filesystem may not answer.
func LocalIdentity(name string) string {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_STATX_DONT_SYNC, unix.STATX_INO, &st)
	if err != nil || st.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0 {
		return IdentityOf(name)
	}
	return fmt.Sprintf("%d:%d/%d", st.Dev_major, st.Dev_minor, st.Ino)
}

// LstatType returns the file type like Lstat, but without querying network filesystems.
func LstatType(path string) (fs.FileMode, error) {
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW|unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE, &st); err != nil {
		return 0, err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return 0, nil
	case unix.S_IFDIR:
		return fs.ModeDir, nil
	case unix.S_IFLNK:
		return fs.ModeSymlink, nil
	}
	return fs.ModeIrregular, nil
}

// IsWritable reports whether the user may create names in a directory.
func IsWritable(dir string) bool { return unix.Access(dir, unix.W_OK) == nil }

// OpenNoLinks opens a file for reading, if its path contains no symbolic link.
func OpenNoLinks(path string) (*os.File, error) {
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_NONBLOCK | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}

// IsOwned reports whether the user owns a directory, and so could make it writable.
func IsOwned(dir string) bool {
	var st unix.Stat_t
	return unix.Stat(dir, &st) != nil || int(st.Uid) == unix.Geteuid()
}
