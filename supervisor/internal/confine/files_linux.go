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
	paths []pathArgs // none, where a descriptor names the file, to two
	flags int        // the argument with the flags of an open; -1 for other calls
}

// A pathArgs says which arguments are a path.
type pathArgs struct {
	dir, path int    // dir is -1 for calls that have no directory
	op        string // what it does to the path; "" when it is that of the call
}

// fileCalls returns the calls that change files, by number.
func fileCalls() map[int32]*fileCall {
	at := func(dir, path int) []pathArgs { return []pathArgs{{dir, path, ""}} }
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
		"rename":    {"", "rename", []pathArgs{{-1, 0, ""}, {-1, 1, "create"}}, -1},
		"renameat":  {"", "rename", []pathArgs{{0, 1, ""}, {2, 3, "create"}}, -1},
		"renameat2": {"", "rename", []pathArgs{{0, 1, ""}, {2, 3, "create"}}, -1},
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

// A userPath is a path that was copied from a program, with a zero byte at its end. It holds a path
// relative to a directory, and the directory's.
type userPath struct {
	buf [2*unix.PathMax + 2]byte
	len int // without the zero byte
}

func (n *userPath) String() string { return string(n.buf[:n.len]) }

// trimSlashes takes the slashes at the end away.
func (n *userPath) trimSlashes() {
	for n.len > 1 && n.buf[n.len-1] == '/' {
		n.len--
	}
	n.buf[n.len] = 0
}

// readUserPath makes the name absolute, as the program sees it.
func (b *Sandbox) readUserPath(to *userPath, pid, dir int, at uint64) error {
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
		if to.len, err = unix.Readlinkat(b.procFD, from, to.buf[:unix.PathMax]); err != nil {
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
		if err := peekMemory(pid, at, part); err != nil {
			return 0, err
		}
		if i := bytes.IndexByte(part, 0); i >= 0 {
			return have + i, nil
		}
		have, at = have+want, at+uint64(want)
	}
	return 0, unix.ENAMETOOLONG
}

// readOnlyDenial reports whether the worker's mounts will refuse a call that changes files, though its
// user may change them outside. Nothing depends on it but what is told and asked: the program
// can change the path meanwhile.
func (b *Sandbox) readOnlyDenial(n *seccompNotif, f *fileCall, names *[2]userPath) (Denial, bool) {
	for i, p := range f.paths {
		dir := unix.AT_FDCWD
		if p.dir >= 0 {
			dir = int(int32(n.Data.Args[p.dir]))
		}
		to := &names[i]
		if b.readUserPath(to, int(n.PID), dir, n.Data.Args[p.path]) != nil || isPseudoPath(to.buf[:to.len]) {
			continue
		}
		op := f.op
		if p.op != "" {
			op = p.op
		}
		path, op, refused := b.readOnlyTarget(to, op)
		if refused {
			return Denial{Op: op, Path: path, Program: b.programName(int(n.PID)), Protected: b.isUngrantable(path)}, true
		}
	}
	return Denial{}, false
}

// isBytecode reports whether a path is in a cache of compiled code that Python tries to write beside each
// module, and does without (PEP 3147): nobody has asked for it.
func isBytecode(file string) bool { return strings.Contains(file+"/", "/__pycache__/") }

// isUngrantable reports whether a path is below a place that no grant makes writable.
func (b *Sandbox) isUngrantable(file string) bool {
	b.protectMu.RLock()
	defer b.protectMu.RUnlock()
	for ; file != "/" && file != "."; file = path.Dir(file) {
		if kind, ok := b.mountKinds[file]; ok {
			return kind == readOnlyBind || kind == guardedFile || kind == maskedPath || kind == replacedFile
		}
	}
	return false
}

// mountPointDenial reports whether a call moves, replaces or removes a place, which the kernel refuses with
// EBUSY because it is a mount point.
func (b *Sandbox) mountPointDenial(n *seccompNotif, f *fileCall, names *[2]userPath) (Denial, bool) {
	for i, p := range f.paths {
		dir := unix.AT_FDCWD
		if p.dir >= 0 {
			dir = int(int32(n.Data.Args[p.dir]))
		}
		to := &names[i]
		if b.readUserPath(to, int(n.PID), dir, n.Data.Args[p.path]) != nil || isPseudoPath(to.buf[:to.len]) {
			continue
		}
		if path, ok := b.mountPointOf(to, f, n); ok {
			return Denial{Op: f.op, Path: path, Program: b.programName(int(n.PID)), Protected: true}, true
		}
	}
	return Denial{}, false
}

// mountPointOf returns the real path of a name if it is a place that the call could otherwise change.
func (b *Sandbox) mountPointOf(to *userPath, f *fileCall, n *seccompNotif) (string, bool) {
	to.trimSlashes()
	slash := bytes.LastIndexByte(to.buf[:to.len], '/')
	if slash < 0 || !b.isMountName(to.buf[slash+1:to.len]) { // most are not, and cost nothing more
		return "", false
	}
	s, err := b.openNameInDir(string(to.buf[:slash+1]), string(to.buf[slash+1:to.len]))
	if err != nil {
		return "", false
	}
	defer s.close()
	kind := s.fileType()
	if kind == 0 || f.op == "remove" && (kind == unix.S_IFDIR) != f.removesDir(n) {
		return "", false // the call fails for another reason
	}
	b.protectMu.RLock()
	defer b.protectMu.RUnlock()
	_, ok := b.mountKinds[s.fullPath]
	return s.fullPath, ok
}

func (b *Sandbox) isMountName(last []byte) bool {
	b.protectMu.RLock()
	defer b.protectMu.RUnlock()
	return b.mountNames[string(last)]
}

// removesDir reports whether a call removes a directory, and not another file.
func (f *fileCall) removesDir(n *seccompNotif) bool {
	return f.name == "rmdir" || f.name == "unlinkat" && n.Data.Args[2]&unix.AT_REMOVEDIR != 0
}

// isPseudoPath reports whether a path is in a filesystem that each session has of its own. Names there
// mean something else to the stage.
func isPseudoPath(path []byte) bool {
	return bytes.HasPrefix(path, []byte("/proc/")) || bytes.HasPrefix(path, []byte("/dev/"))
}

// readOnlyTarget reports whether a path is read-only for the session alone. It returns the real path.
func (b *Sandbox) readOnlyTarget(to *userPath, op string) (path, did string, refused bool) {
	if op == "write" || op == "change" {
		fd, err := b.openPath(to.buf[:to.len+1])
		if err == nil {
			defer unix.Close(fd)
			path, err = b.realPath(fd)
			return path, op, err == nil && isReadOnlyMount(fd)
		}
		if err != unix.ENOENT || op == "change" {
			return "", "", false
		}
		op = "create"
	}
	to.trimSlashes()
	slash := bytes.LastIndexByte(to.buf[:to.len], '/')
	if slash < 0 {
		return "", "", false
	}
	s, err := b.openNameInDir(string(to.buf[:slash+1]), string(to.buf[slash+1:to.len]))
	if err != nil {
		return "", "", false
	}
	defer s.close()
	if isThere := s.fileType() != 0; !isReadOnlyMount(s.dir) || isThere == (op == "create") {
		return "", "", false // the call fails for another reason
	}
	return s.fullPath, op, true
}

// maxLookups bounds how often a path is looked up again.
const maxLookups = 10_000

// openPath opens a path as the worker sees it. The path ends with a zero byte.
func (b *Sandbox) openPath(path []byte) (int, error) { return b.openPathWith(path, 0) }

// openPathWith is look with more flags. The kernel gives a path with ".." up with EAGAIN when anything was
// renamed or mounted meanwhile, on the whole machine, and the caller is to try again (openat2(2)).
func (b *Sandbox) openPathWith(path []byte, flags uint64) (int, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | flags, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	for looks := 1; ; looks++ {
		fd, _, no := unix.Syscall6(unix.SYS_OPENAT2, uintptr(b.rootFD), uintptr(unsafe.Pointer(&path[0])), uintptr(unsafe.Pointer(&how)), unix.SizeofOpenHow, 0, 0)
		switch {
		case no == 0:
			return int(fd), nil
		case no != unix.EAGAIN || looks == maxLookups:
			return -1, no
		}
	}
}

// isReadOnlyMount reports whether only a mount keeps the user from writing. The kernel looks at the
// owner and the mode first.
func isReadOnlyMount(fd int) bool {
	return unix.Faccessat2(fd, "", unix.W_OK, unix.AT_EMPTY_PATH|unix.AT_EACCESS) == unix.EROFS
}

// realPath returns the path of an open file of the stage.
func (b *Sandbox) realPath(fd int) (string, error) {
	var path [unix.PathMax]byte
	n, err := unix.Readlinkat(b.selfFilesFD, strconv.Itoa(fd), path[:])
	if err != nil {
		return "", err // it is too long, and so nothing that could be judged
	}
	return string(path[:n]), nil
}

// programName returns the name of a thread's program; "" for the worker.
func (b *Sandbox) programName(tid int) string {
	leader, err := b.threadGroupID(tid)
	if err != nil || int64(leader) == b.workerPID.Load() {
		return ""
	}
	fd, err := unix.Openat(b.procFD, strconv.Itoa(leader)+"/comm", unix.O_RDONLY|unix.O_CLOEXEC, 0)
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
