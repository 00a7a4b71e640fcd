package confine

import (
	"bytes"
	"path"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A fileCall says where a system call has its paths.
type fileCall struct {
	name  string
	op    string
	paths []pathAt // none, where a descriptor names the file, to two
	flags int      // the argument with the flags of an open; -1 for other calls
}

// A pathAt says which arguments are a path.
type pathAt struct {
	dir, path int    // dir is -1 for calls that have no directory
	op        string // what it does to the path; "" when it is that of the call
}

// fileCalls returns the calls that change files, by number.
func fileCalls() map[int32]*fileCall {
	at := func(dir, path int) []pathAt { return []pathAt{{dir, path, ""}} }
	calls := map[int32]*fileCall{}
	for name, f := range map[string]fileCall{
		"open":      {"", "write", at(-1, 0), 1},
		"openat":    {"", "write", at(0, 1), 2},
		"creat":     {"", "write", at(-1, 0), -1},
		"mkdir":     {"", "create", at(-1, 0), -1},
		"mkdirat":   {"", "create", at(0, 1), -1},
		"mknod":     {"", "create", at(-1, 0), -1},
		"mknodat":   {"", "create", at(0, 1), -1},
		"unlink":    {"", "remove", at(-1, 0), -1},
		"unlinkat":  {"", "remove", at(0, 1), -1},
		"rmdir":     {"", "remove", at(-1, 0), -1},
		"rename":    {"", "rename", []pathAt{{-1, 0, ""}, {-1, 1, "create"}}, -1},
		"renameat":  {"", "rename", []pathAt{{0, 1, ""}, {2, 3, "create"}}, -1},
		"renameat2": {"", "rename", []pathAt{{0, 1, ""}, {2, 3, "create"}}, -1},
		"link":      {"", "create", at(-1, 1), -1},
		"linkat":    {"", "create", at(2, 3), -1},
		"symlink":   {"", "create", at(-1, 1), -1},
		"symlinkat": {"", "create", at(1, 2), -1},
		"truncate":  {"", "write", at(-1, 0), -1},
		"bind":      {"", "create", nil, -1},

		"chmod":        {"", "change", at(-1, 0), -1},
		"fchmodat":     {"", "change", at(0, 1), -1},
		"fchmod":       {"", "change", nil, -1},
		"setxattr":     {"", "change", at(-1, 0), -1},
		"lsetxattr":    {"", "change", at(-1, 0), -1},
		"fsetxattr":    {"", "change", nil, -1},
		"removexattr":  {"", "change", at(-1, 0), -1},
		"lremovexattr": {"", "change", at(-1, 0), -1},
		"fremovexattr": {"", "change", nil, -1},
	} {
		if nr, ok := architectures[runtime.GOARCH].calls[name]; ok {
			f.name = name
			calls[int32(nr)] = &f
		}
	}
	return calls
}

// A name is a path that was copied from a program, with a zero byte at its end. It holds a path
// relative to a directory, and the directory's.
type name struct {
	buf [2*unix.PathMax + 2]byte
	len int // without the zero byte
}

func (n *name) String() string { return string(n.buf[:n.len]) }

// trim takes the slashes at the end away.
func (n *name) trim() {
	for n.len > 1 && n.buf[n.len-1] == '/' {
		n.len--
	}
	n.buf[n.len] = 0
}

// read makes the name absolute, as the program sees it.
func (b *Box) read(to *name, pid, dir int, at uint64) error {
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
		if to.len, err = unix.Readlinkat(b.proc, from, to.buf[:unix.PathMax]); err != nil {
			return err
		}
		to.buf[to.len] = '/'
		to.len++
	}
	to.len += copy(to.buf[to.len:], text[:k])
	to.buf[to.len] = 0
	return nil
}

// peekText copies a text of a thread up to its zero byte, and returns its length. It reads page
// by page, because the next page may not be there.
func peekText(pid int, at uint64, text []byte) (int, error) {
	const page = 4096
	for have := 0; have < len(text); {
		want := min(len(text)-have, page-int(at%page))
		if want > 256 {
			want = 256 // most paths are short
		}
		part := text[have : have+want]
		if err := peek(pid, at, part); err != nil {
			return 0, err
		}
		if i := bytes.IndexByte(part, 0); i >= 0 {
			return have + i, nil
		}
		have, at = have+want, at+uint64(want)
	}
	return 0, unix.ENAMETOOLONG
}

// refusal reports whether the worker's mounts will refuse a call that changes files, though its
// user may change them outside. Nothing depends on it but what is told and asked: the program
// can change the path meanwhile.
func (b *Box) refusal(n *notification, f *fileCall, names *[2]name) (Denial, bool) {
	for i, p := range f.paths {
		dir := unix.AT_FDCWD
		if p.dir >= 0 {
			dir = int(int32(n.Data.Args[p.dir]))
		}
		to := &names[i]
		if b.read(to, int(n.PID), dir, n.Data.Args[p.path]) != nil || isOwn(to.buf[:to.len]) {
			continue
		}
		op := f.op
		if p.op != "" {
			op = p.op
		}
		path, op, refused := b.refused(to, op)
		if refused {
			return Denial{Op: op, Path: path, By: b.program(int(n.PID)), Kept: b.isKept(path)}, true
		}
	}
	return Denial{}, false
}

// isBytecode reports whether a path is in a cache of compiled code that Python tries to write beside each
// module, and does without (PEP 3147): nobody has asked for it.
func isBytecode(file string) bool { return strings.Contains(file+"/", "/__pycache__/") }

// isKept reports whether a path is below a place that no grant makes writable.
func (b *Box) isKept(file string) bool {
	b.keeping.RLock()
	defer b.keeping.RUnlock()
	for ; file != "/" && file != "."; file = path.Dir(file) {
		if kind, ok := b.places[file]; ok {
			return kind == protected || kind == guarded || kind == hidden || kind == replaced
		}
	}
	return false
}

// pinned reports whether a call moves, replaces or removes a place, which the kernel refuses with
// EBUSY because it is a mount point.
func (b *Box) pinned(n *notification, f *fileCall, names *[2]name) (Denial, bool) {
	for i, p := range f.paths {
		dir := unix.AT_FDCWD
		if p.dir >= 0 {
			dir = int(int32(n.Data.Args[p.dir]))
		}
		to := &names[i]
		if b.read(to, int(n.PID), dir, n.Data.Args[p.path]) != nil || isOwn(to.buf[:to.len]) {
			continue
		}
		if path, ok := b.placeAt(to, f, n); ok {
			return Denial{Op: f.op, Path: path, By: b.program(int(n.PID)), Kept: true}, true
		}
	}
	return Denial{}, false
}

// placeAt returns the real path of a name if it is a place that the call could otherwise change.
func (b *Box) placeAt(to *name, f *fileCall, n *notification) (string, bool) {
	to.trim()
	slash := bytes.LastIndexByte(to.buf[:to.len], '/')
	if slash < 0 || !b.isPlaced(to.buf[slash+1:to.len]) { // most are not, and cost nothing more
		return "", false
	}
	s, err := b.spotOf(string(to.buf[:slash+1]), string(to.buf[slash+1:to.len]))
	if err != nil {
		return "", false
	}
	defer s.close()
	kind := s.kind()
	if kind == 0 || f.op == "remove" && (kind == unix.S_IFDIR) != f.removesDir(n) {
		return "", false // the call fails for another reason
	}
	b.keeping.RLock()
	defer b.keeping.RUnlock()
	_, ok := b.places[s.full]
	return s.full, ok
}

func (b *Box) isPlaced(last []byte) bool {
	b.keeping.RLock()
	defer b.keeping.RUnlock()
	return b.placed[string(last)]
}

// removesDir reports whether a call removes a directory, and not another file.
func (f *fileCall) removesDir(n *notification) bool {
	return f.name == "rmdir" || f.name == "unlinkat" && n.Data.Args[2]&unix.AT_REMOVEDIR != 0
}

// isOwn reports whether a path is in a filesystem that each session has of its own. Names there
// mean something else to the stage.
func isOwn(path []byte) bool {
	return bytes.HasPrefix(path, []byte("/proc/")) || bytes.HasPrefix(path, []byte("/dev/"))
}

// refused reports whether a path is read-only for the session alone. It returns the real path.
func (b *Box) refused(to *name, op string) (path, did string, refused bool) {
	if op == "write" || op == "change" {
		fd, err := b.look(to.buf[:to.len+1])
		if err == nil {
			defer unix.Close(fd)
			path, err = b.realPath(fd)
			return path, op, err == nil && readOnlyHere(fd)
		}
		if err != unix.ENOENT || op == "change" {
			return "", "", false
		}
		op = "create"
	}
	to.trim()
	slash := bytes.LastIndexByte(to.buf[:to.len], '/')
	if slash < 0 {
		return "", "", false
	}
	s, err := b.spotOf(string(to.buf[:slash+1]), string(to.buf[slash+1:to.len]))
	if err != nil {
		return "", "", false
	}
	defer s.close()
	if isThere := s.kind() != 0; !readOnlyHere(s.dir) || isThere == (op == "create") {
		return "", "", false // the call fails for another reason
	}
	return s.full, op, true
}

// mostLooks bounds how often a path is looked up again.
const mostLooks = 10_000

// look opens a path as the worker sees it. The path ends with a zero byte.
func (b *Box) look(path []byte) (int, error) { return b.lookAt(path, 0) }

// lookAt is look with more flags. The kernel gives a path with ".." up with EAGAIN when anything was
// renamed or mounted meanwhile, on the whole machine, and the caller is to try again (openat2(2)).
func (b *Box) lookAt(path []byte, flags uint64) (int, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | flags, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	for looks := 1; ; looks++ {
		fd, _, no := unix.Syscall6(unix.SYS_OPENAT2, uintptr(b.root), uintptr(unsafe.Pointer(&path[0])), uintptr(unsafe.Pointer(&how)), unix.SizeofOpenHow, 0, 0)
		switch {
		case no == 0:
			return int(fd), nil
		case no != unix.EAGAIN || looks == mostLooks:
			return -1, no
		}
	}
}

// readOnlyHere reports whether only a mount keeps the user from writing. The kernel looks at the
// owner and the mode first.
func readOnlyHere(fd int) bool {
	return unix.Faccessat2(fd, "", unix.W_OK, unix.AT_EMPTY_PATH|unix.AT_EACCESS) == unix.EROFS
}

// realPath returns the path of an open file of the stage.
func (b *Box) realPath(fd int) (string, error) {
	var path [unix.PathMax]byte
	n, err := unix.Readlinkat(b.files, strconv.Itoa(fd), path[:])
	if err != nil {
		return "", err // it is too long, and so nothing that could be judged
	}
	return string(path[:n]), nil
}

// program returns the name of a thread's program; "" for the worker.
func (b *Box) program(tid int) string {
	leader, err := b.leader(tid)
	if err != nil || int64(leader) == b.worker.Load() {
		return ""
	}
	fd, err := unix.Openat(b.proc, strconv.Itoa(leader)+"/comm", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	var text [64]byte
	n, err := unix.Read(fd, text[:])
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text[:n]))
}
