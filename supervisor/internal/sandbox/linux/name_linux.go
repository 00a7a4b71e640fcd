package linux

import (
	"crypto/rand"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// A nameInDir is a name in an open directory.
type nameInDir struct {
	dir      int
	name     string
	fullPath string // path of the name when the directory was opened
}

// openNameInDir opens the directory of a name.
func (v *workerView) openNameInDir(dir, name string) (nameInDir, error) {
	fd, err := v.openDir(dir)
	if err != nil {
		return nameInDir{}, err
	}
	full, err := v.fullPathOf(fd, name)
	if err != nil {
		unix.Close(fd)
		return nameInDir{}, err
	}
	return nameInDir{fd, name, full}, nil
}

// fullPathOf returns the path of a name in an open directory.
func (v *workerView) fullPathOf(dir int, name string) (string, error) {
	above, err := v.realPath(dir)
	return strings.TrimRight(above, "/") + "/" + name, err
}

func (d nameInDir) close() { unix.Close(d.dir) }

// fileType returns the type of the file with this name, or 0 if it does not exist.
func (d nameInDir) fileType() uint32 {
	kind, _ := d.typeAndMode()
	return kind
}

// typeAndMode returns the type and the mode of the file with this name.
func (d nameInDir) typeAndMode() (kind, mode uint32) {
	var st unix.Stat_t
	if unix.Fstatat(d.dir, d.name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return 0, 0
	}
	return st.Mode & unix.S_IFMT, st.Mode & 0o7777
}

// isSame reports whether two names belong to the same file.
func (d nameInDir) isSame(other nameInDir) bool {
	var a, b unix.Stat_t
	return unix.Fstatat(d.dir, d.name, &a, unix.AT_SYMLINK_NOFOLLOW) == nil && unix.Fstatat(other.dir, other.name, &b, unix.AT_SYMLINK_NOFOLLOW) == nil && a.Dev == b.Dev && a.Ino == b.Ino
}

// removeOrRename removes a name that must not exist. A directory that was filled in the meantime is
// renamed instead.
func (d nameInDir) removeOrRename() {
	err := unix.Unlinkat(d.dir, d.name, 0)
	if err == unix.EISDIR {
		err = unix.Unlinkat(d.dir, d.name, unix.AT_REMOVEDIR)
	}
	if err != nil {
		d.renameAside()
	}
}

// renameAside renames a name that must not exist.
func (d nameInDir) renameAside() {
	_ = unix.Renameat2(d.dir, d.name, d.dir, "refused-"+rand.Text(), unix.RENAME_NOREPLACE)
}

// openDir opens a directory as the worker sees it, except in /proc, where it would see the
// monitor's own files.
func (v *workerView) openDir(dir string) (int, error) {
	fd, err := v.openPath(append([]byte(dir), 0))
	if err != nil {
		return -1, err
	}
	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err != nil || st.Type == unix.PROC_SUPER_MAGIC {
		unix.Close(fd)
		return -1, unix.EACCES
	}
	return fd, nil
}

// resolveLink returns the path to which a symbolic link leads, or the file itself. A relative
// target begins at the real directory of the link, because the directory of its path may be a link,
// too.
func (d nameInDir) resolveLink(file string) (string, bool) {
	var text [unix.PathMax]byte
	k, err := unix.Readlinkat(d.dir, d.name, text[:])
	if err != nil {
		return file, false
	}
	to := string(text[:k])
	if !strings.HasPrefix(to, "/") {
		to = path.Dir(d.fullPath) + "/" + to
	}
	return to, true
}

// isDirectoryAt reports whether a name in a directory is a directory itself.
func isDirectoryAt(dir int, name string) bool {
	var st unix.Stat_t
	return unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR
}
