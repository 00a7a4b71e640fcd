package broker

import (
	"strings"

	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/workerview"
)

// On behalf of the program, the monitor makes each call that creates, moves or removes a name, or
// opens it for writing. If the kernel continued the program's own call, a second thread could
// change the path after the check and reach a protected name.
//
// Paths are resolved as the program sees them, and names are created relative to an open directory,
// so nothing can be exchanged in between. The thread has only the user's rights.

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
		case "symlink", "symlinkat":
			var text [unix.PathMax]byte
			k, err := workerview.PeekText(int(n.PID), args[0], text[:])
			if err != nil {
				return err
			}
			return unix.Symlinkat(string(text[:k]), s.Dir, s.Name)
		default:
			return unix.ENOSYS
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
	buf := b.pathBuffers.Get().(*workerview.UserPath) // pooled: it is large, and the collector rarely runs
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
