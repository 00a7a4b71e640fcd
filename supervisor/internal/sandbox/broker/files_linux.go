package broker

import (
	"bytes"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/filestate"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/nameguard"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/plan"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/workerview"
)

// readOnlyDenial reports whether the worker's mounts will refuse a call that changes files,
// although the user may change them outside the sandbox. Only reports and questions depend on it,
// because the program can change the path in the meantime.
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

// isBytecode reports whether a path is in a cache of compiled code (PEP 3147). Python tries to
// write such a cache next to each module, but does not need it. So a denial is not reported to the
// user.
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

// ChecksOpener reports whether the driver of a device checks which program opens it, so that the
// monitor cannot open it for the session. name is the part of the path below /dev, up to the first
// slash.
func ChecksOpener(name string) bool {
	return name == "kfd" || name == "dxg" || strings.HasPrefix(name, "nvidia")
}

// newGuardDenial returns the denial of a call that the guard refused.
func newGuardDenial(e nameguard.ProtectedNameError, f *fileCall, by string) plan.Denial {
	d := plan.Denial{Op: f.op, Path: e.Path, Program: by, Protected: true}
	switch {
	case e.Setting != "":
		d.Op, d.Setting = "set", e.Setting
	case (f.op == "write" || f.op == "rename") && !filestate.IsPresent(e.Path):
		d.Op = "create"
	}
	return d
}
