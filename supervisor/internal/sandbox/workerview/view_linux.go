package workerview

import (
	"bytes"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A View gives the monitor access to a worker's files, as seen from its root directory, and to its
// namespaces. It also gives access to its processes, with their memory and descriptors.
type View struct {
	RootFD      int // the worker's root directory
	ProcFD      int // the worker's /proc
	SelfFilesFD int // the monitor's /proc/self/fd: a relative name is read faster than a full path
	MountNS     int // the mount namespace of the worker
	IPCNS       int // the IPC namespace of the worker
}

// New returns a view in which nothing is open yet.
func New() View {
	return View{RootFD: -1, ProcFD: -1, SelfFilesFD: -1, MountNS: -1, IPCNS: -1}
}

// A UserPath is a path that was copied from a program, with a zero byte at its end. The buffer has
// room for the path of a directory and a path relative to it.
type UserPath struct {
	Buf [2*unix.PathMax + 2]byte
	Len int // without the zero byte
}

// String returns the path without its zero byte.
func (p *UserPath) String() string { return string(p.Buf[:p.Len]) }

// TrimSlashes removes trailing slashes.
func (p *UserPath) TrimSlashes() {
	for p.Len > 1 && p.Buf[p.Len-1] == '/' {
		p.Len--
	}
	p.Buf[p.Len] = 0
}

// ReadUserPath reads a path of a program and makes it absolute, as the program sees it.
func (v *View) ReadUserPath(to *UserPath, pid, dir int, at uint64) error {
	to.Len = 0
	text := to.Buf[unix.PathMax+1 : 2*unix.PathMax+1]
	k, err := PeekText(pid, at, text)
	if err != nil {
		return err
	}
	if k > 0 && text[0] != '/' {
		from := strconv.Itoa(pid) + "/cwd"
		if dir != unix.AT_FDCWD {
			from = strconv.Itoa(pid) + "/fd/" + strconv.Itoa(dir)
		}
		if to.Len, err = unix.Readlinkat(v.ProcFD, from, to.Buf[:unix.PathMax]); err != nil {
			return err
		}
		to.Buf[to.Len] = '/'
		to.Len++
	}
	to.Len += copy(to.Buf[to.Len:], text[:k])
	to.Buf[to.Len] = 0
	return nil
}

// PeekText copies a zero-terminated text of a thread and returns its length without the zero. A
// text that does not fit fails with ENAMETOOLONG. It never reads across a page boundary, because
// the next page may not be mapped.
func PeekText(pid int, at uint64, text []byte) (int, error) {
	const page = 4096
	for done := 0; done < len(text); {
		size := min(len(text)-done, page-int(at%page))
		if size > 256 {
			size = 256 // most paths are short
		}
		part := text[done : done+size]
		if err := PeekMemory(pid, at, part); err != nil {
			return 0, err
		}
		if i := bytes.IndexByte(part, 0); i >= 0 {
			return done + i, nil
		}
		done, at = done+size, at+uint64(size)
	}
	return 0, unix.ENAMETOOLONG
}

// maxLookups bounds how often a path lookup is repeated.
const maxLookups = 10_000

// OpenPath opens a path as the worker sees it, with O_PATH. The path ends with a zero byte. The caller
// closes the result.
func (v *View) OpenPath(path []byte) (int, error) { return v.OpenPathWith(path, 0) }

// OpenPathWith is like OpenPath, with more flags. The kernel fails a path with ".." with EAGAIN if
// anything on the machine was renamed or mounted at the same time. It expects the caller to retry
// (openat2(2)), which this function does maxLookups times.
func (v *View) OpenPathWith(path []byte, flags uint64) (int, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | flags, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	for tries := 1; ; tries++ {
		fd, _, no := unix.Syscall6(unix.SYS_OPENAT2, uintptr(v.RootFD), uintptr(unsafe.Pointer(&path[0])), uintptr(unsafe.Pointer(&how)), unix.SizeofOpenHow, 0, 0)
		switch {
		case no == 0:
			return int(fd), nil
		case no != unix.EAGAIN || tries == maxLookups:
			return -1, no
		}
	}
}

// IsReadOnlyMount reports whether only a read-only mount keeps the user from writing. The kernel
// checks the owner and the mode first.
func IsReadOnlyMount(fd int) bool {
	return unix.Faccessat2(fd, "", unix.W_OK, unix.AT_EMPTY_PATH|unix.AT_EACCESS) == unix.EROFS
}

// RealPath returns the path of an open file of the monitor.
func (v *View) RealPath(fd int) (string, error) {
	var path [unix.PathMax]byte
	n, err := unix.Readlinkat(v.SelfFilesFD, strconv.Itoa(fd), path[:])
	if err != nil {
		return "", err // a path that is too long cannot be checked
	}
	return string(path[:n]), nil
}

// PeekMemory fills b with memory of a thread, from the address at. If it cannot read all of them,
// the error is EFAULT. The memory may change at any time, so a caller reads each value once.
func PeekMemory(pid int, at uint64, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	local := []unix.Iovec{{Base: &b[0]}}
	local[0].SetLen(len(b))
	n, err := unix.ProcessVMReadv(pid, local, []unix.RemoteIovec{{Base: uintptr(at), Len: len(b)}}, 0)
	if err == nil && n < len(b) {
		err = unix.EFAULT
	}
	return err
}

// SelfFDPath returns the path that stands for an open file of the monitor.
func SelfFDPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// IsDirectory reports whether an open file is a directory.
func IsDirectory(fd int) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR
}
