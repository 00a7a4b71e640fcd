package linux

import (
	"bytes"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A workerView holds what the monitor reaches a worker by: its files as they are seen from its root
// directory, its processes, their memory and descriptors, and its namespaces.
type workerView struct {
	rootFD      int // the worker's root directory
	procFD      int // the worker's /proc
	selfFilesFD int // the monitor's /proc/self/fd: a relative name is read faster than a full path
	mountNS     int // the mount namespace of the worker
	ipcNS       int // the IPC namespace of the worker
}

// newWorkerView returns a view in which nothing is open yet.
func newWorkerView() workerView {
	return workerView{rootFD: -1, procFD: -1, selfFilesFD: -1, mountNS: -1, ipcNS: -1}
}

// A userPath is a path that was copied from a program, with a zero byte at its end. The buffer has
// room for the path of a directory and a path relative to it.
type userPath struct {
	buf [2*unix.PathMax + 2]byte
	len int // without the zero byte
}

func (p *userPath) String() string { return string(p.buf[:p.len]) }

// trimSlashes removes trailing slashes.
func (p *userPath) trimSlashes() {
	for p.len > 1 && p.buf[p.len-1] == '/' {
		p.len--
	}
	p.buf[p.len] = 0
}

// readUserPath reads a path of a program and makes it absolute, as the program sees it.
func (v *workerView) readUserPath(to *userPath, pid, dir int, at uint64) error {
	to.len = 0
	text := to.buf[unix.PathMax+1 : 2*unix.PathMax+1]
	k, err := peekText(pid, at, text)
	if err != nil {
		return err
	}
	if k > 0 && text[0] != '/' {
		from := strconv.Itoa(pid) + "/cwd"
		if dir != unix.AT_FDCWD {
			from = strconv.Itoa(pid) + "/fd/" + strconv.Itoa(dir)
		}
		if to.len, err = unix.Readlinkat(v.procFD, from, to.buf[:unix.PathMax]); err != nil {
			return err
		}
		to.buf[to.len] = '/'
		to.len++
	}
	to.len += copy(to.buf[to.len:], text[:k])
	to.buf[to.len] = 0
	return nil
}

// peekText copies a zero-terminated text of a thread and returns its length. It never reads across
// a page boundary, because the next page may not be mapped.
func peekText(pid int, at uint64, text []byte) (int, error) {
	const page = 4096
	for done := 0; done < len(text); {
		size := min(len(text)-done, page-int(at%page))
		if size > 256 {
			size = 256 // most paths are short
		}
		part := text[done : done+size]
		if err := peekMemory(pid, at, part); err != nil {
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

// openPath opens a path as the worker sees it. The path ends with a zero byte.
func (v *workerView) openPath(path []byte) (int, error) { return v.openPathWith(path, 0) }

// openPathWith is openPath with more flags. The kernel fails a path with ".." with EAGAIN if
// anything on the machine was renamed or mounted at the same time, and expects the caller to retry
// (openat2(2)).
func (v *workerView) openPathWith(path []byte, flags uint64) (int, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | flags, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	for tries := 1; ; tries++ {
		fd, _, no := unix.Syscall6(unix.SYS_OPENAT2, uintptr(v.rootFD), uintptr(unsafe.Pointer(&path[0])), uintptr(unsafe.Pointer(&how)), unix.SizeofOpenHow, 0, 0)
		switch {
		case no == 0:
			return int(fd), nil
		case no != unix.EAGAIN || tries == maxLookups:
			return -1, no
		}
	}
}

// isReadOnlyMount reports whether only a read-only mount keeps the user from writing. The kernel
// checks the owner and the mode first.
func isReadOnlyMount(fd int) bool {
	return unix.Faccessat2(fd, "", unix.W_OK, unix.AT_EMPTY_PATH|unix.AT_EACCESS) == unix.EROFS
}

// realPath returns the path of an open file of the monitor.
func (v *workerView) realPath(fd int) (string, error) {
	var path [unix.PathMax]byte
	n, err := unix.Readlinkat(v.selfFilesFD, strconv.Itoa(fd), path[:])
	if err != nil {
		return "", err // a path that is too long cannot be checked
	}
	return string(path[:n]), nil
}

// peekMemory copies memory of a thread.
func peekMemory(pid int, at uint64, b []byte) error {
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

func selfFDPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

func isDirectory(fd int) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR
}
