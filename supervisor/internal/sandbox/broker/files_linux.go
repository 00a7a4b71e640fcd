package broker

import (
	"bytes"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/filestate"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/plan"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/seccomp"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/workerview"
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

// readOnlyDenial reports whether the worker's mounts will refuse a call that changes files, though
// the user may change them outside. Only reports and questions depend on it, because the program
// can change the path in the meantime.
func (b *Broker) readOnlyDenial(n *seccompNotif, f *fileCall, names *[2]workerview.UserPath) (plan.Denial, bool) {
	for i, p := range f.paths {
		dir := unix.AT_FDCWD
		if p.dir >= 0 {
			dir = int(int32(n.Data.Args[p.dir]))
		}
		name := &names[i]
		if b.ReadUserPath(name, int(n.PID), dir, n.Data.Args[p.path]) != nil || isPseudoPath(name.Buf[:name.Len]) {
			continue
		}
		op := f.op
		if p.op != "" {
			op = p.op
		}
		path, op, refused := b.readOnlyTarget(name, op)
		if refused {
			return plan.Denial{Op: op, Path: path, Program: b.programName(int(n.PID)), Protected: b.IsUngrantable(path)}, true
		}
	}
	return plan.Denial{}, false
}

// isBytecode reports whether a path is in a cache of compiled code, which Python tries to write
// next to each module and can do without (PEP 3147). The user need not know of such a denial.
func isBytecode(file string) bool { return strings.Contains(file+"/", "/__pycache__/") }

// mountPointDenial reports whether a call moves, replaces or removes a mount point, which the
// kernel refuses with EBUSY.
func (b *Broker) mountPointDenial(n *seccompNotif, f *fileCall, names *[2]workerview.UserPath) (plan.Denial, bool) {
	for i, p := range f.paths {
		dir := unix.AT_FDCWD
		if p.dir >= 0 {
			dir = int(int32(n.Data.Args[p.dir]))
		}
		name := &names[i]
		if b.ReadUserPath(name, int(n.PID), dir, n.Data.Args[p.path]) != nil || isPseudoPath(name.Buf[:name.Len]) {
			continue
		}
		if path, ok := b.mountPointOf(name, f, n); ok {
			return plan.Denial{Op: f.op, Path: path, Program: b.programName(int(n.PID)), Protected: true}, true
		}
	}
	return plan.Denial{}, false
}

// mountPointOf returns the real path of a name, and whether it is a mount point that the call could
// otherwise change.
func (b *Broker) mountPointOf(to *workerview.UserPath, f *fileCall, n *seccompNotif) (string, bool) {
	to.TrimSlashes()
	slash := bytes.LastIndexByte(to.Buf[:to.Len], '/')
	if slash < 0 || !b.IsMountName(to.Buf[slash+1:to.Len]) { // most names are not, and are done here
		return "", false
	}
	s, err := b.OpenNameInDir(string(to.Buf[:slash+1]), string(to.Buf[slash+1:to.Len]))
	if err != nil {
		return "", false
	}
	defer s.Close()
	kind := s.FileType()
	if kind == 0 || f.op == "remove" && (kind == unix.S_IFDIR) != f.removesDir(n) {
		return "", false // the call fails for another reason
	}
	return s.FullPath, b.IsMountPoint(s.FullPath)
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
func (b *Broker) readOnlyTarget(to *workerview.UserPath, op string) (path, did string, refused bool) {
	if op == "write" || op == "change" {
		fd, err := b.OpenPath(to.Buf[:to.Len+1])
		if err == nil {
			defer unix.Close(fd)
			path, err = b.RealPath(fd)
			return path, op, err == nil && workerview.IsReadOnlyMount(fd)
		}
		if err != unix.ENOENT || op == "change" {
			return "", "", false
		}
		op = "create"
	}
	to.TrimSlashes()
	slash := bytes.LastIndexByte(to.Buf[:to.Len], '/')
	if slash < 0 {
		return "", "", false
	}
	s, err := b.OpenNameInDir(string(to.Buf[:slash+1]), string(to.Buf[slash+1:to.Len]))
	if err != nil {
		return "", "", false
	}
	defer s.Close()
	if exists := s.FileType() != 0; !workerview.IsReadOnlyMount(s.Dir) || exists == (op == "create") {
		return "", "", false // the call fails for another reason
	}
	return s.FullPath, op, true
}

// programName returns the name of a thread's program, or "" for the worker.
func (b *Broker) programName(tid int) string {
	leader, err := b.ThreadGroupID(tid)
	if err != nil || int64(leader) == b.workerPID.Load() {
		return ""
	}
	fd, err := unix.Openat(b.ProcFD, strconv.Itoa(leader)+"/comm", unix.O_RDONLY|unix.O_CLOEXEC, 0)
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

// isComputeDevice reports whether an open is for a compute device that must be opened by the
// program itself.
func isComputeDevice(n *seccompNotif, f *fileCall, file string) bool {
	if f.flags < 0 || n.Data.Args[f.flags]&unix.O_CREAT != 0 || f.opensToRead(n) {
		return false
	}
	name, in := strings.CutPrefix(file, "/dev/")
	if !in {
		return false
	}
	first, _, _ := strings.Cut(name, "/")
	return ChecksOpener(first) && filestate.IsPresent("/dev/"+first) // the path could be changed by a second thread
}

// ChecksOpener reports whether the driver of a device checks which program opens it.
func ChecksOpener(name string) bool {
	return name == "kfd" || name == "dxg" || strings.HasPrefix(name, "nvidia")
}
