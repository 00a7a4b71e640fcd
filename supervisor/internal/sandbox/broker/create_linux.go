package broker

import (
	"encoding/binary"
	"path"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/filestate"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/foldedname"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/linkpath"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/nameguard"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/workerview"
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
func (b *Broker) emulateCall(n *seccompNotif, f *fileCall, paths [2]string) (fd int, err error) {
	args := &n.Data.Args
	switch f.name {
	case "open", "openat":
		if f.opensToRead(n) {
			return b.openToRead(n, paths[0], int(int32(args[f.flags])))
		}
		return b.openOrCreate(n, paths[0], int(int32(args[f.flags])), uint32(args[f.flags+1]))
	case "creat":
		return b.openOrCreate(n, paths[0], unix.O_CREAT|unix.O_WRONLY|unix.O_TRUNC, uint32(args[1]))
	case "rename", "renameat", "renameat2":
		return -1, b.renamePath(f, args, paths)
	case "link", "linkat":
		return -1, b.makeHardLink(n, f, args, paths[0])
	case "unlink", "unlinkat", "rmdir":
		return -1, b.removeName(paths[0], f.removesDir(n))
	case "truncate":
		return -1, b.truncateFile(n, paths[0], int64(args[1]))
	case "bind":
		return -1, b.bindSocket(n, args)
	}
	if f.op == "change" {
		return -1, b.changeAttributes(n, f, paths[0])
	}
	return -1, b.withNewName(paths[0], strings.HasPrefix(f.name, "symlink"), func(s workerview.NameInDir) error {
		switch f.name {
		case "mkdir", "mkdirat":
			err := b.withUmask(n, func() error { return unix.Mkdirat(s.Dir, s.Name, uint32(args[f.paths[0].path+1])) })
			if err == nil {
				b.RecordFreshDir(s)
			}
			return err
		case "mknod", "mknodat":
			mode := uint32(args[f.paths[0].path+1])
			if isSetuidMode(mode) {
				return unix.EPERM
			}
			return b.withUmask(n, func() error {
				return unix.Mknodat(s.Dir, s.Name, mode, int(args[f.paths[0].path+2]))
			})
		default: // symlink, symlinkat
			var text [unix.PathMax]byte
			k, err := workerview.PeekText(int(n.PID), args[0], text[:])
			if err != nil {
				return err
			}
			return unix.Symlinkat(string(text[:k]), s.Dir, s.Name)
		}
	})
}

// pathsOf reads the paths of a call.
func (b *Broker) pathsOf(n *seccompNotif, f *fileCall) (paths [2]string, err error) {
	for i, p := range f.paths {
		if paths[i], err = b.pathOf(n, p); err != nil {
			break
		}
	}
	return paths, err
}

// pathOf returns an absolute path of a call. A path in the program's own /proc gets the number of
// the program.
func (b *Broker) pathOf(n *seccompNotif, p pathArgs) (string, error) {
	dir := unix.AT_FDCWD
	if p.dir >= 0 {
		dir = int(int32(n.Data.Args[p.dir]))
	}
	buf := b.pathBuffers.Get().(*workerview.UserPath) // pooled: it is large, and the collector runs seldom
	defer b.pathBuffers.Put(buf)
	err := b.ReadUserPath(buf, int(n.PID), dir, n.Data.Args[p.path])
	if err == unix.EPERM || err == unix.EACCES {
		err = workerview.WithRights(func() error { return b.ReadUserPath(buf, int(n.PID), dir, n.Data.Args[p.path]) })
	}
	if err != nil {
		return "", err
	}
	if buf.Len == 0 {
		return "", unix.ENOENT
	}
	return buf.String(), nil
}

// withParent opens the directory of a path and calls do with it and the last name, unless that name
// must not be made. moving means that the name may be given to a directory with content.
func (b *Broker) withParent(file string, moving bool, do func(workerview.NameInDir) error) error {
	dir, last := path.Split(strings.TrimRight(file, "/"))
	if last == "" || last == "." || last == ".." {
		return unix.EEXIST
	}
	s, err := b.OpenNameInDir(dir, last)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := b.CheckCreate(s, moving); err != nil {
		return err
	}
	return do(s)
}

// createChecked calls do, which makes a name, and undoes it if the check of the result fails.
func (b *Broker) createChecked(s workerview.NameInDir, do func(workerview.NameInDir) error) error {
	err := do(s)
	if err != nil {
		return err
	}
	if err = b.CheckCreated(s, false); err != nil {
		s.RemoveOrRename()
	}
	return err
}

// withNewName is withParent for a call that fails if the name exists, even if it is protected.
func (b *Broker) withNewName(file string, moving bool, do func(workerview.NameInDir) error) error {
	tried := false
	err := b.withParent(file, moving, func(s workerview.NameInDir) error {
		tried = true
		return b.createChecked(s, do)
	})
	if denied, isDenied := err.(nameguard.ProtectedNameError); isDenied && !tried && filestate.IsPresent(denied.Path) {
		return unix.EEXIST
	}
	return err
}

// withUmask runs f with the umask of the program.
func (b *Broker) withUmask(n *seccompNotif, f func() error) error {
	mask, err := b.UmaskOf(int(n.PID))
	if err != nil {
		return err
	}
	unix.Umask(mask)
	return f()
}

// makeHardLink makes a hard link. Its first path is read here, because only a link may follow a
// name of an open file in /proc.
func (b *Broker) makeHardLink(n *seccompNotif, f *fileCall, args *[6]uint64, to string) error {
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
	old, err := b.pathOf(n, first)
	if err != nil {
		return err
	}
	if fd, err := b.openFile(n, old); err != unix.ENOENT {
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if err := b.CheckWrite(fd); err != nil {
			return err
		}
		return b.withNewName(to, false, func(s workerview.NameInDir) error {
			return unix.Linkat(unix.AT_FDCWD, workerview.SelfFDPath(fd), s.Dir, s.Name, unix.AT_SYMLINK_FOLLOW)
		})
	}
	for range linkpath.MaxLinks {
		dir, last := path.Split(strings.TrimRight(old, "/"))
		from, err := b.OpenNameInDir(dir, last)
		if err != nil {
			return err
		}
		if flags&unix.AT_SYMLINK_FOLLOW != 0 {
			var isLink bool
			if old, isLink = from.ResolveLink(old); isLink {
				from.Close()
				continue
			}
		}
		defer from.Close()
		if err := b.CheckLink(from); err != nil {
			return err
		}
		return b.withNewName(to, false, func(s workerview.NameInDir) error { return unix.Linkat(from.Dir, last, s.Dir, s.Name, 0) })
	}
	return unix.ELOOP
}

// removeName removes a file or directory.
func (b *Broker) removeName(file string, directory bool) error {
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
	s, err := b.OpenNameInDir(dir, last)
	if err != nil {
		return err
	}
	defer s.Close()
	flags := 0
	if directory {
		flags = unix.AT_REMOVEDIR
	} else if slash {
		return unix.ENOTDIR
	}
	var st unix.Stat_t
	if err := unix.Fstatat(s.Dir, s.Name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err // and nothing is removed that comes after this look
	}
	switch isDir := st.Mode&unix.S_IFMT == unix.S_IFDIR; {
	case isDir && !directory:
		return unix.EISDIR
	case directory && !isDir:
		return unix.ENOTDIR
	}
	if err := b.CheckRemove(s); err != nil {
		return err
	}
	return unix.Unlinkat(s.Dir, s.Name, flags)
}

// bindSocket binds a socket to an address. The address of a Unix socket is reported as the text
// that its program chose. So the kernel reads it here, from a copy, in the program's directory. If
// a directory was exchanged, so that the socket was made elsewhere, it is removed again.
func (b *Broker) bindSocket(n *seccompNotif, args *[6]uint64) error {
	if int32(args[2]) < 2 || args[2] > unix.SizeofSockaddrAny+16 {
		return unix.EINVAL
	}
	address := make([]byte, int(args[2]))
	if err := workerview.PeekMemory(int(n.PID), args[1], address); err != nil {
		return unix.EFAULT
	}
	socket, err := b.CopyDescriptorWithRights(int(n.PID), int(int32(args[0])))
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	if binary.NativeEndian.Uint16(address) != unix.AF_UNIX || len(address) < 3 || address[2] == 0 {
		return bindTo(socket, address)
	}
	file := string(cutAtNul(address[2:]))
	if nameguard.GitDirParts[foldedname.FoldPath(path.Base(file))] { // it could end up in another directory, and turn that into a repository
		return unix.EACCES
	}
	cwd, err := unix.Openat(b.ProcFD, strconv.Itoa(int(n.PID))+"/cwd", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(cwd)
	if !strings.HasPrefix(file, "/") {
		above, err := b.RealPath(cwd)
		if err == nil {
			err = unix.Fchdir(cwd)
		}
		if err != nil {
			return err
		}
		defer func() { _ = unix.Chdir("/") }()
		file = above + "/" + file
	}
	return b.withParent(file, false, func(s workerview.NameInDir) error {
		if s.FileType() != 0 {
			return unix.EADDRINUSE
		}
		return b.createChecked(s, func(s workerview.NameInDir) error {
			err := b.withUmask(n, func() error { return bindTo(socket, address) })
			if err == nil && s.FileType() != unix.S_IFSOCK {
				b.removeSocket(file)
				err = unix.EAGAIN
			}
			return err
		})
	})
}

// removeSocket removes a socket, unless another file has replaced it.
func (b *Broker) removeSocket(file string) {
	s, err := b.OpenNameInDir(path.Split(file))
	if err != nil {
		return
	}
	defer s.Close()
	if s.FileType() == unix.S_IFSOCK {
		_ = unix.Unlinkat(s.Dir, s.Name, 0)
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
