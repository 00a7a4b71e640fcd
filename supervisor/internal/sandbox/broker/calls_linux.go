package broker

import (
	"runtime"

	"golang.org/x/sys/unix"

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

// removesDir reports whether a call removes a directory and not a file.
func (f *fileCall) removesDir(n *seccompNotif) bool {
	return f.name == "rmdir" || f.name == "unlinkat" && n.Data.Args[2]&unix.AT_REMOVEDIR != 0
}

// canBlock reports whether an open may wait for the other end of a pipe.
func (f *fileCall) canBlock(n *seccompNotif) bool {
	return f.flags < 0 || n.Data.Args[f.flags]&unix.O_NONBLOCK == 0
}

// isEmulated reports whether the monitor makes a call itself. An open with O_PATH changes nothing
// and is left to the kernel.
func (f *fileCall) isEmulated(n *seccompNotif) bool {
	return f.flags < 0 || n.Data.Args[f.flags]&unix.O_PATH == 0
}

// opensToRead reports whether a call opens a file without changing anything.
func (f *fileCall) opensToRead(n *seccompNotif) bool {
	return f.flags >= 0 && n.Data.Args[f.flags]&seccomp.WriteFlags == 0
}
