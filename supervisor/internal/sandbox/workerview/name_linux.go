package workerview

import (
	"crypto/rand"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// A NameInDir is a name in an open directory, which the owner of the value closes.
type NameInDir struct {
	Dir      int
	Name     string
	FullPath string // path of the name when the directory was opened
}

// OpenNameInDir opens the directory of a name. The caller closes the result.
func (v *View) OpenNameInDir(dir, name string) (NameInDir, error) {
	fd, err := v.OpenDir(dir)
	if err != nil {
		return NameInDir{}, err
	}
	full, err := v.FullPathOf(fd, name)
	if err != nil {
		unix.Close(fd)
		return NameInDir{}, err
	}
	return NameInDir{fd, name, full}, nil
}

// FullPathOf returns the path of a name in an open directory.
func (v *View) FullPathOf(dir int, name string) (string, error) {
	above, err := v.RealPath(dir)
	return strings.TrimRight(above, "/") + "/" + name, err
}

// Close closes the directory.
func (d NameInDir) Close() { unix.Close(d.Dir) }

// FileType returns the type of the file with this name, or 0 if it does not exist.
func (d NameInDir) FileType() uint32 {
	kind, _ := d.TypeAndMode()
	return kind
}

// TypeAndMode returns the type and the mode of the file with this name.
func (d NameInDir) TypeAndMode() (kind, mode uint32) {
	var st unix.Stat_t
	if unix.Fstatat(d.Dir, d.Name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return 0, 0
	}
	return st.Mode & unix.S_IFMT, st.Mode & 0o7777
}

// IsSame reports whether two names belong to the same file.
func (d NameInDir) IsSame(other NameInDir) bool {
	var a, b unix.Stat_t
	return unix.Fstatat(d.Dir, d.Name, &a, unix.AT_SYMLINK_NOFOLLOW) == nil && unix.Fstatat(other.Dir, other.Name, &b, unix.AT_SYMLINK_NOFOLLOW) == nil && a.Dev == b.Dev && a.Ino == b.Ino
}

// RemoveOrRename removes a name that must not exist. A directory that was filled in the meantime is
// renamed instead.
func (d NameInDir) RemoveOrRename() {
	err := unix.Unlinkat(d.Dir, d.Name, 0)
	if err == unix.EISDIR {
		err = unix.Unlinkat(d.Dir, d.Name, unix.AT_REMOVEDIR)
	}
	if err != nil {
		d.RenameAside()
	}
}

// RenameAside renames a name that must not exist.
func (d NameInDir) RenameAside() {
	_ = unix.Renameat2(d.Dir, d.Name, d.Dir, "refused-"+rand.Text(), unix.RENAME_NOREPLACE)
}

// OpenDir opens a directory as the worker sees it, except in /proc, where it would see the
// monitor's own files.
func (v *View) OpenDir(dir string) (int, error) {
	fd, err := v.OpenPath(append([]byte(dir), 0))
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

// ResolveLink returns the path to which a symbolic link leads, or the file itself. A relative
// target begins at the real directory of the link, because the directory of its path may be a link,
// too.
func (d NameInDir) ResolveLink(file string) (string, bool) {
	var text [unix.PathMax]byte
	k, err := unix.Readlinkat(d.Dir, d.Name, text[:])
	if err != nil {
		return file, false
	}
	to := string(text[:k])
	if !strings.HasPrefix(to, "/") {
		to = path.Dir(d.FullPath) + "/" + to
	}
	return to, true
}

// IsDirectoryAt reports whether a name in a directory is a directory itself.
func IsDirectoryAt(dir int, name string) bool {
	var st unix.Stat_t
	return unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR
}
