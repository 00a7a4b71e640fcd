package linux

import (
	"bytes"
	"path"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/plan"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/seccomp"
)

// A fileCall describes which arguments of a system call are paths, and what the call does to them.
type fileCall struct {
	name  string
	op    string
	paths []pathArgs // none to two; none if a descriptor names the file
	flags int        // the argument with the flags of an open; -1 for other calls
}

// pathArgs are the indexes of the arguments that form one path.
type pathArgs struct {
	dir, path int    // dir is -1 for calls without a directory argument
	op        string // what the call does to this path; "" for the call's own op
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
		if nr, ok := seccomp.Architectures[runtime.GOARCH].Calls[name]; ok {
			f.name = name
			calls[int32(nr)] = &f
		}
	}
	return calls
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
func (sb *ActiveSandbox) readUserPath(to *userPath, pid, dir int, at uint64) error {
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
		if to.len, err = unix.Readlinkat(sb.procFD, from, to.buf[:unix.PathMax]); err != nil {
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

// readOnlyDenial reports whether the worker's mounts will refuse a call that changes files, though
// the user may change them outside. Only reports and questions depend on it, because the program
// can change the path in the meantime.
func (sb *ActiveSandbox) readOnlyDenial(n *seccompNotif, f *fileCall, names *[2]userPath) (plan.Denial, bool) {
	for i, p := range f.paths {
		dir := unix.AT_FDCWD
		if p.dir >= 0 {
			dir = int(int32(n.Data.Args[p.dir]))
		}
		name := &names[i]
		if sb.readUserPath(name, int(n.PID), dir, n.Data.Args[p.path]) != nil || isPseudoPath(name.buf[:name.len]) {
			continue
		}
		op := f.op
		if p.op != "" {
			op = p.op
		}
		path, op, refused := sb.readOnlyTarget(name, op)
		if refused {
			return plan.Denial{Op: op, Path: path, Program: sb.programName(int(n.PID)), Protected: sb.isUngrantable(path)}, true
		}
	}
	return plan.Denial{}, false
}

// isBytecode reports whether a path is in a cache of compiled code, which Python tries to write
// next to each module and can do without (PEP 3147). The user need not know of such a denial.
func isBytecode(file string) bool { return strings.Contains(file+"/", "/__pycache__/") }

// isUngrantable reports whether a path is below a mount that no grant makes writable.
func (sb *ActiveSandbox) isUngrantable(file string) bool {
	sb.protectMu.RLock()
	defer sb.protectMu.RUnlock()
	for ; file != "/" && file != "."; file = path.Dir(file) {
		if kind, ok := sb.mountKinds[file]; ok {
			return kind == plan.ReadOnlyBind || kind == plan.GuardedFile || kind == plan.MaskedPath || kind == plan.ReplacedFile
		}
	}
	return false
}

// mountPointDenial reports whether a call moves, replaces or removes a mount point, which the
// kernel refuses with EBUSY.
func (sb *ActiveSandbox) mountPointDenial(n *seccompNotif, f *fileCall, names *[2]userPath) (plan.Denial, bool) {
	for i, p := range f.paths {
		dir := unix.AT_FDCWD
		if p.dir >= 0 {
			dir = int(int32(n.Data.Args[p.dir]))
		}
		name := &names[i]
		if sb.readUserPath(name, int(n.PID), dir, n.Data.Args[p.path]) != nil || isPseudoPath(name.buf[:name.len]) {
			continue
		}
		if path, ok := sb.mountPointOf(name, f, n); ok {
			return plan.Denial{Op: f.op, Path: path, Program: sb.programName(int(n.PID)), Protected: true}, true
		}
	}
	return plan.Denial{}, false
}

// mountPointOf returns the real path of a name, and whether it is a mount point that the call could
// otherwise change.
func (sb *ActiveSandbox) mountPointOf(to *userPath, f *fileCall, n *seccompNotif) (string, bool) {
	to.trimSlashes()
	slash := bytes.LastIndexByte(to.buf[:to.len], '/')
	if slash < 0 || !sb.isMountName(to.buf[slash+1:to.len]) { // most names are not, and are done here
		return "", false
	}
	s, err := sb.openNameInDir(string(to.buf[:slash+1]), string(to.buf[slash+1:to.len]))
	if err != nil {
		return "", false
	}
	defer s.close()
	kind := s.fileType()
	if kind == 0 || f.op == "remove" && (kind == unix.S_IFDIR) != f.removesDir(n) {
		return "", false // the call fails for another reason
	}
	sb.protectMu.RLock()
	defer sb.protectMu.RUnlock()
	_, ok := sb.mountKinds[s.fullPath]
	return s.fullPath, ok
}

func (sb *ActiveSandbox) isMountName(last []byte) bool {
	sb.protectMu.RLock()
	defer sb.protectMu.RUnlock()
	return sb.mountNames[string(last)]
}

// removesDir reports whether a call removes a directory and not a file.
func (f *fileCall) removesDir(n *seccompNotif) bool {
	return f.name == "rmdir" || f.name == "unlinkat" && n.Data.Args[2]&unix.AT_REMOVEDIR != 0
}

// isPseudoPath reports whether a path is in a filesystem that each session has a separate instance
// of. Names there mean something else to the monitor.
func isPseudoPath(path []byte) bool {
	return bytes.HasPrefix(path, []byte("/proc/")) || bytes.HasPrefix(path, []byte("/dev/"))
}

// readOnlyTarget reports whether a path is read-only for the session alone. It returns the real
// path and the operation.
func (sb *ActiveSandbox) readOnlyTarget(to *userPath, op string) (path, did string, refused bool) {
	if op == "write" || op == "change" {
		fd, err := sb.openPath(to.buf[:to.len+1])
		if err == nil {
			defer unix.Close(fd)
			path, err = sb.realPath(fd)
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
	s, err := sb.openNameInDir(string(to.buf[:slash+1]), string(to.buf[slash+1:to.len]))
	if err != nil {
		return "", "", false
	}
	defer s.close()
	if exists := s.fileType() != 0; !isReadOnlyMount(s.dir) || exists == (op == "create") {
		return "", "", false // the call fails for another reason
	}
	return s.fullPath, op, true
}

// maxLookups bounds how often a path lookup is repeated.
const maxLookups = 10_000

// openPath opens a path as the worker sees it. The path ends with a zero byte.
func (sb *ActiveSandbox) openPath(path []byte) (int, error) { return sb.openPathWith(path, 0) }

// openPathWith is openPath with more flags. The kernel fails a path with ".." with EAGAIN if
// anything on the machine was renamed or mounted at the same time, and expects the caller to retry
// (openat2(2)).
func (sb *ActiveSandbox) openPathWith(path []byte, flags uint64) (int, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC | flags, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	for tries := 1; ; tries++ {
		fd, _, no := unix.Syscall6(unix.SYS_OPENAT2, uintptr(sb.rootFD), uintptr(unsafe.Pointer(&path[0])), uintptr(unsafe.Pointer(&how)), unix.SizeofOpenHow, 0, 0)
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
func (sb *ActiveSandbox) realPath(fd int) (string, error) {
	var path [unix.PathMax]byte
	n, err := unix.Readlinkat(sb.selfFilesFD, strconv.Itoa(fd), path[:])
	if err != nil {
		return "", err // a path that is too long cannot be checked
	}
	return string(path[:n]), nil
}

// programName returns the name of a thread's program, or "" for the worker.
func (sb *ActiveSandbox) programName(tid int) string {
	leader, err := sb.threadGroupID(tid)
	if err != nil || int64(leader) == sb.workerPID.Load() {
		return ""
	}
	fd, err := unix.Openat(sb.procFD, strconv.Itoa(leader)+"/comm", unix.O_RDONLY|unix.O_CLOEXEC, 0)
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
