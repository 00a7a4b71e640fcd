package linux

import (
	"crypto/rand"
	"encoding/binary"
	"path"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/filestate"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/plan"
)

// The monitor makes each call that makes, opens for writing, moves or removes a name, on behalf of
// the program. If the kernel continued the program's own call, a second thread could change the
// path after the check and reach a protected name.
//
// Paths are resolved as the program sees them, and names are made relative to an open directory, so
// nothing can be exchanged in between. The thread has only the user's rights.

// isEmulated reports whether the monitor makes a call itself. An open with O_PATH changes nothing
// and is left to the kernel.
func (f *fileCall) isEmulated(n *seccompNotif) bool {
	return f.flags < 0 || n.Data.Args[f.flags]&unix.O_PATH == 0
}

// emulateCall makes a call whose paths were read. For an open it returns the descriptor, otherwise
// -1.
func (sb *ActiveSandbox) emulateCall(n *seccompNotif, f *fileCall, paths [2]string) (fd int, err error) {
	args := &n.Data.Args
	switch f.name {
	case "open", "openat":
		if f.opensToRead(n) {
			return sb.openToRead(n, paths[0], int(int32(args[f.flags])))
		}
		return sb.openOrCreate(n, paths[0], int(int32(args[f.flags])), uint32(args[f.flags+1]))
	case "creat":
		return sb.openOrCreate(n, paths[0], unix.O_CREAT|unix.O_WRONLY|unix.O_TRUNC, uint32(args[1]))
	case "rename", "renameat", "renameat2":
		return -1, sb.renamePath(f, args, paths)
	case "link", "linkat":
		return -1, sb.makeHardLink(n, f, args, paths[0])
	case "unlink", "unlinkat", "rmdir":
		return -1, sb.removeName(paths[0], f.removesDir(n))
	case "truncate":
		return -1, sb.truncateFile(n, paths[0], int64(args[1]))
	case "bind":
		return -1, sb.bindSocket(n, args)
	}
	if f.op == "change" {
		return -1, sb.changeAttributes(n, f, paths[0])
	}
	return -1, sb.withNewName(paths[0], strings.HasPrefix(f.name, "symlink"), func(s nameInDir) error {
		switch f.name {
		case "mkdir", "mkdirat":
			err := sb.withUmask(n, func() error { return unix.Mkdirat(s.dir, s.name, uint32(args[f.paths[0].path+1])) })
			if err == nil {
				sb.recordFreshDir(s)
			}
			return err
		case "mknod", "mknodat":
			mode := uint32(args[f.paths[0].path+1])
			if isSetuidMode(mode) {
				return unix.EPERM
			}
			return sb.withUmask(n, func() error {
				return unix.Mknodat(s.dir, s.name, mode, int(args[f.paths[0].path+2]))
			})
		default: // symlink, symlinkat
			var text [unix.PathMax]byte
			k, err := peekText(int(n.PID), args[0], text[:])
			if err != nil {
				return err
			}
			return unix.Symlinkat(string(text[:k]), s.dir, s.name)
		}
	})
}

// pathsOf reads the paths of a call.
func (sb *ActiveSandbox) pathsOf(n *seccompNotif, f *fileCall) (paths [2]string, err error) {
	for i, p := range f.paths {
		if paths[i], err = sb.pathOf(n, p); err != nil {
			break
		}
	}
	return paths, err
}

// pathOf returns an absolute path of a call. A path in the program's own /proc gets the number of
// the program.
func (sb *ActiveSandbox) pathOf(n *seccompNotif, p pathArgs) (string, error) {
	dir := unix.AT_FDCWD
	if p.dir >= 0 {
		dir = int(int32(n.Data.Args[p.dir]))
	}
	buf := sb.pathBuffers.Get().(*userPath) // pooled: it is large, and the collector runs seldom
	defer sb.pathBuffers.Put(buf)
	err := sb.readUserPath(buf, int(n.PID), dir, n.Data.Args[p.path])
	if err == unix.EPERM || err == unix.EACCES {
		err = withRights(func() error { return sb.readUserPath(buf, int(n.PID), dir, n.Data.Args[p.path]) })
	}
	if err != nil {
		return "", err
	}
	if buf.len == 0 {
		return "", unix.ENOENT
	}
	return buf.String(), nil
}

// A nameInDir is a name in an open directory.
type nameInDir struct {
	dir      int
	name     string
	fullPath string // path of the name when the directory was opened
}

// openNameInDir opens the directory of a name.
func (sb *ActiveSandbox) openNameInDir(dir, name string) (nameInDir, error) {
	fd, err := sb.openDir(dir)
	if err != nil {
		return nameInDir{}, err
	}
	full, err := sb.fullPathOf(fd, name)
	if err != nil {
		unix.Close(fd)
		return nameInDir{}, err
	}
	return nameInDir{fd, name, full}, nil
}

// fullPathOf returns the path of a name in an open directory.
func (sb *ActiveSandbox) fullPathOf(dir int, name string) (string, error) {
	above, err := sb.realPath(dir)
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

// withParent opens the directory of a path and calls do with it and the last name, unless that name
// must not be made. moving means that the name may be given to a directory with content.
func (sb *ActiveSandbox) withParent(file string, moving bool, do func(nameInDir) error) error {
	dir, last := path.Split(strings.TrimRight(file, "/"))
	if last == "" || last == "." || last == ".." {
		return unix.EEXIST
	}
	s, err := sb.openNameInDir(dir, last)
	if err != nil {
		return err
	}
	defer s.close()
	if err := sb.checkCreate(s, moving); err != nil {
		return err
	}
	return do(s)
}

// createChecked calls do, which makes a name, and undoes it if the check of the result fails.
func (sb *ActiveSandbox) createChecked(s nameInDir, do func(nameInDir) error) error {
	err := do(s)
	if err != nil {
		return err
	}
	if err = sb.checkCreated(s, false); err != nil {
		s.removeOrRename()
	}
	return err
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

// withNewName is withParent for a call that fails if the name exists, even if it is protected.
func (sb *ActiveSandbox) withNewName(file string, moving bool, do func(nameInDir) error) error {
	tried := false
	err := sb.withParent(file, moving, func(s nameInDir) error {
		tried = true
		return sb.createChecked(s, do)
	})
	if denied, isDenied := err.(protectedNameError); isDenied && !tried && filestate.IsPresent(denied.path) {
		return unix.EEXIST
	}
	return err
}

// openDir opens a directory as the worker sees it, except in /proc, where it would see the
// monitor's own files.
func (sb *ActiveSandbox) openDir(dir string) (int, error) {
	fd, err := sb.openPath(append([]byte(dir), 0))
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

// withUmask runs f with the umask of the program.
func (sb *ActiveSandbox) withUmask(n *seccompNotif, f func() error) error {
	mask, err := sb.umaskOf(int(n.PID))
	if err != nil {
		return err
	}
	unix.Umask(mask)
	return f()
}

func (sb *ActiveSandbox) umaskOf(tid int) (int, error) {
	value, err := sb.threadStatus(tid, "Umask:")
	if err != nil {
		return 0, err
	}
	mask, err := strconv.ParseUint(value, 8, 32)
	return int(mask), err
}

// makeHardLink makes a hard link. Its first path is read here, because only a link may follow a
// name of an open file in /proc.
func (sb *ActiveSandbox) makeHardLink(n *seccompNotif, f *fileCall, args *[6]uint64, to string) error {
	first, flags := pathArgs{dir: -1, path: 0}, 0
	if f.name == "linkat" {
		first, flags = pathArgs{dir: 0, path: 1}, int(int32(args[4]))
	}
	if flags&^(unix.AT_SYMLINK_FOLLOW|unix.AT_EMPTY_PATH) != 0 {
		return unix.EINVAL
	}
	if flags&unix.AT_EMPTY_PATH != 0 {
		return unix.ENOENT // as for all unprivileged programs, which then use the name in /proc
	}
	old, err := sb.pathOf(n, first)
	if err != nil {
		return err
	}
	if fd, err := sb.openFile(n, old); err != unix.ENOENT {
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if err := sb.checkWrite(fd); err != nil {
			return err
		}
		return sb.withNewName(to, false, func(s nameInDir) error {
			return unix.Linkat(unix.AT_FDCWD, selfFDPath(fd), s.dir, s.name, unix.AT_SYMLINK_FOLLOW)
		})
	}
	for range plan.MaxLinks {
		dir, last := path.Split(strings.TrimRight(old, "/"))
		from, err := sb.openNameInDir(dir, last)
		if err != nil {
			return err
		}
		if flags&unix.AT_SYMLINK_FOLLOW != 0 {
			var isLink bool
			if old, isLink = from.resolveLink(old); isLink {
				from.close()
				continue
			}
		}
		defer from.close()
		if err := sb.checkLink(from); err != nil {
			return err
		}
		return sb.withNewName(to, false, func(s nameInDir) error { return unix.Linkat(from.dir, last, s.dir, s.name, 0) })
	}
	return unix.ELOOP
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

// removeName removes a file or directory.
func (sb *ActiveSandbox) removeName(file string, directory bool) error {
	slash := strings.HasSuffix(file, "/")
	dir, last := path.Split(strings.TrimRight(file, "/"))
	switch {
	case last == "":
		return unix.EBUSY
	case last == ".", last == ".." && !directory:
		return unix.EINVAL
	case last == "..":
		return unix.ENOTEMPTY
	}
	s, err := sb.openNameInDir(dir, last)
	if err != nil {
		return err
	}
	defer s.close()
	flags := 0
	if directory {
		flags = unix.AT_REMOVEDIR
	} else if slash {
		return unix.ENOTDIR
	}
	if kind := s.fileType(); kind != 0 && (kind == unix.S_IFDIR) == directory {
		if err := sb.checkRemove(s); err != nil {
			return err
		}
	}
	return unix.Unlinkat(s.dir, s.name, flags)
}

// bindSocket binds a socket to an address. The address of a Unix socket is reported as the text
// that its program chose. So the kernel reads it here, from a copy, in the program's directory. If
// a directory was exchanged, so that the socket was made elsewhere, it is removed again.
func (sb *ActiveSandbox) bindSocket(n *seccompNotif, args *[6]uint64) error {
	if int32(args[2]) < 2 || args[2] > unix.SizeofSockaddrAny+16 {
		return unix.EINVAL
	}
	address := make([]byte, int(args[2]))
	if err := peekMemory(int(n.PID), args[1], address); err != nil {
		return unix.EFAULT
	}
	socket, err := sb.copyDescriptorWithRights(int(n.PID), int(int32(args[0])))
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	if binary.NativeEndian.Uint16(address) != unix.AF_UNIX || len(address) < 3 || address[2] == 0 {
		return bindTo(socket, address)
	}
	file := string(cutAtNul(address[2:]))
	if gitDirParts[foldPath(path.Base(file))] { // it could end up in another directory, and turn that into a repository
		return unix.EACCES
	}
	cwd, err := unix.Openat(sb.procFD, strconv.Itoa(int(n.PID))+"/cwd", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(cwd)
	if !strings.HasPrefix(file, "/") {
		above, err := sb.realPath(cwd)
		if err == nil {
			err = unix.Fchdir(cwd)
		}
		if err != nil {
			return err
		}
		defer func() { _ = unix.Chdir("/") }()
		file = above + "/" + file
	}
	return sb.withParent(file, false, func(s nameInDir) error {
		if s.fileType() != 0 {
			return unix.EADDRINUSE
		}
		return sb.createChecked(s, func(s nameInDir) error {
			err := sb.withUmask(n, func() error { return bindTo(socket, address) })
			if err == nil && s.fileType() != unix.S_IFSOCK {
				sb.removeSocket(file)
				err = unix.EAGAIN
			}
			return err
		})
	})
}

// removeSocket removes a socket, unless another file has replaced it.
func (sb *ActiveSandbox) removeSocket(file string) {
	s, err := sb.openNameInDir(path.Split(file))
	if err != nil {
		return
	}
	defer s.close()
	if s.fileType() == unix.S_IFSOCK {
		_ = unix.Unlinkat(s.dir, s.name, 0)
	}
}

func bindTo(socket int, address []byte) error {
	_, _, no := unix.Syscall(unix.SYS_BIND, uintptr(socket), uintptr(unsafe.Pointer(&address[0])), uintptr(len(address)))
	runtime.KeepAlive(address)
	if no != 0 {
		return no
	}
	return nil
}

// isDirectoryAt reports whether a name in a directory is a directory itself.
func isDirectoryAt(dir int, name string) bool {
	var st unix.Stat_t
	return unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR
}

// addProtected adds names that must not be made, and mounts that must stay where they are.
func (sb *ActiveSandbox) addProtected(absent []plan.Path, mounts []plan.Mount) {
	sb.protectMu.Lock()
	defer sb.protectMu.Unlock()
	if sb.protectedPaths == nil {
		sb.protectedPaths, sb.protectedLastNames, sb.protectedParents = map[string]bool{}, map[string]bool{}, map[string]bool{}
		sb.mountKinds, sb.mountNames = map[string]plan.MountKind{}, map[string]bool{}
	}
	for _, p := range mounts {
		sb.mountKinds[string(p.Path)] = p.Kind
		sb.mountNames[path.Base(string(p.Path))] = true
	}
	for _, p := range absent {
		full := foldPath(string(p))
		sb.protectedPaths[full] = true
		sb.protectedLastNames[path.Base(full)] = true
		for above := path.Dir(full); above != "/"; above = path.Dir(above) {
			sb.protectedParents[above] = true
		}
	}
}

// A protectedNameError reports that a name must not be made or changed.
type protectedNameError struct {
	path    string
	setting string // the git setting, if the path is a git config file
}

func (e protectedNameError) Error() string { return e.path + " must not be made or changed" }

// checkCreatePath returns a protectedNameError if a name must not be made. A directory that would
// hold a protected name may be made, but not moved there with content.
func (sb *ActiveSandbox) checkCreatePath(s nameInDir, moving bool) error {
	if sb.isRestricted(s.fullPath) || sb.mustBeEmpty(s.fullPath, moving) {
		return protectedNameError{path: s.fullPath}
	}
	sb.protectMu.RLock()
	defer sb.protectMu.RUnlock()
	if !moving && !sb.protectedLastNames[foldPath(s.name)] {
		return nil
	}
	if folded := foldPath(s.fullPath); sb.protectedPaths[folded] || moving && sb.protectedParents[folded] {
		return protectedNameError{path: s.fullPath}
	}
	return nil
}
