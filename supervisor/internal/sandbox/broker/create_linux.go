package broker

import (
	"encoding/binary"
	"path"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/foldedname"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/linkpath"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/nameguard"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/workerview"
)

// makeHardLink creates a hard link. Its first path is read here, because only a link may follow a
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
		return err // and a file that appears after this check is not removed
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
// a directory was exchanged, so that the socket was created elsewhere, it is removed again.
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
