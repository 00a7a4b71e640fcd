package confine

import (
	"crypto/rand"
	"encoding/binary"
	"path"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The stage makes each call that makes, opens to write, moves or removes a name, in the program's place.
// If the kernel went on with the program's own call, a second thread could change the path after the
// check, and reach a protected name. Paths are resolved as the program sees them, and names are made by a directory
// that is open, so nothing can be exchanged in between. The thread has no rights but the user's.

const (
	addDescriptor = 0x40182103 // SECCOMP_IOCTL_NOTIF_ADDFD
	alsoAnswer    = 2          // SECCOMP_ADDFD_FLAG_SEND
)

// An addition is struct seccomp_notif_addfd.
type addition struct {
	ID       uint64
	Flags    uint32
	From     uint32
	To       uint32
	NewFlags uint32
}

// isMaking reports whether the stage makes a call itself. An open of a path alone changes nothing.
func (f *fileCall) isMaking(n *notification) bool {
	return f.flags < 0 || n.Data.Args[f.flags]&unix.O_PATH == 0
}

// withoutRights makes the calling thread one that has no rights but the user's, and a umask of its
// own. It enters the namespace of what the session shares by number, and the worker's mounts, because
// the kernel keeps a mount point from being renamed or removed only for those who see the mount. The
// thread may take its rights back. No signal interrupts it: one that came while it hands over a
// descriptor would give the program descriptor 0 instead.
func (b *Box) withoutRights() error {
	var all unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = ^all.Val[i]
	}
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &all, nil); err != nil {
		return err
	}
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return err
	}
	if err := unix.Setns(b.ipc, unix.CLONE_NEWIPC); err != nil {
		return err
	}
	if err := unix.Setns(b.mounts, unix.CLONE_NEWNS); err != nil {
		return err
	}
	return setEffective(0)
}

// setEffective sets the rights that the thread uses, of those that it may use.
func setEffective(rights uint32) error {
	var data [2]unix.CapUserData
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capget(&header, &data[0]); err != nil {
		return err
	}
	data[0].Effective, data[1].Effective = data[0].Permitted&rights, 0
	return unix.Capset(&header, &data[0])
}

// withRights runs f with the right to look into any program of the session.
func withRights(f func() error) error {
	if err := setEffective(1 << unix.CAP_SYS_PTRACE); err != nil {
		return err
	}
	err := f()
	if e := setEffective(0); e != nil {
		return e
	}
	return err
}

// make makes a call whose paths were read. Of an open it returns the descriptor, otherwise -1.
func (b *Box) make(n *notification, f *fileCall, paths [2]string) (fd int, err error) {
	args := &n.Data.Args
	switch f.name {
	case "open", "openat":
		if f.opensToRead(n) {
			return b.openToRead(n, paths[0], int(int32(args[f.flags])))
		}
		return b.openOrMake(n, paths[0], int(int32(args[f.flags])), uint32(args[f.flags+1]))
	case "creat":
		return b.openOrMake(n, paths[0], unix.O_CREAT|unix.O_WRONLY|unix.O_TRUNC, uint32(args[1]))
	case "rename", "renameat", "renameat2":
		return -1, b.rename(f, args, paths)
	case "link", "linkat":
		return -1, b.link(n, f, args, paths[0])
	case "unlink", "unlinkat", "rmdir":
		return -1, b.remove(paths[0], f.removesDir(n))
	case "truncate":
		return -1, b.truncate(n, paths[0], int64(args[1]))
	case "bind":
		return -1, b.bind(n, args)
	}
	if f.op == "change" {
		return -1, b.change(n, f, paths[0])
	}
	return -1, b.atNew(paths[0], strings.HasPrefix(f.name, "symlink"), func(s spot) error {
		switch f.name {
		case "mkdir", "mkdirat":
			err := b.masked(n, func() error { return unix.Mkdirat(s.dir, s.name, uint32(args[f.paths[0].path+1])) })
			if err == nil {
				b.noteFresh(s)
			}
			return err
		case "mknod", "mknodat":
			mode := uint32(args[f.paths[0].path+1])
			if runsAsOwner(mode) {
				return unix.EPERM
			}
			return b.masked(n, func() error {
				return unix.Mknodat(s.dir, s.name, mode, int(args[f.paths[0].path+2]))
			})
		default: // symlink, symlinkat
			var text [unix.PathMax]byte
			k, err := peekText(int(n.PID), args[0], text[:])
			if err != nil {
				return err
			}
			return unix.Symlinkat(string(text[:k]), s.dir, s.name)
		}
	})
}

// pathsOf reads the paths of a call.
func (b *Box) pathsOf(n *notification, f *fileCall) (paths [2]string, err error) {
	for i, p := range f.paths {
		if paths[i], err = b.pathOf(n, p); err != nil {
			break
		}
	}
	return paths, err
}

// pathOf returns an absolute path of a call. Where it names the program's own /proc, it has the
// number of the program.
func (b *Box) pathOf(n *notification, p pathAt) (string, error) {
	dir := unix.AT_FDCWD
	if p.dir >= 0 {
		dir = int(int32(n.Data.Args[p.dir]))
	}
	to := b.buffers.Get().(*name) // too large to leave to a collector that seldom runs
	defer b.buffers.Put(to)
	err := b.read(to, int(n.PID), dir, n.Data.Args[p.path])
	if err == unix.EPERM || err == unix.EACCES {
		err = withRights(func() error { return b.read(to, int(n.PID), dir, n.Data.Args[p.path]) })
	}
	if err != nil {
		return "", err
	}
	if to.len == 0 {
		return "", unix.ENOENT
	}
	return to.String(), nil
}

// A spot is a name in an open directory.
type spot struct {
	dir  int
	name string
	full string // its path
}

// spotOf opens the directory of a name.
func (b *Box) spotOf(dir, name string) (spot, error) {
	fd, err := b.directory(dir)
	if err != nil {
		return spot{}, err
	}
	full, err := b.fullOf(fd, name)
	if err != nil {
		unix.Close(fd)
		return spot{}, err
	}
	return spot{fd, name, full}, nil
}

// fullOf returns the path of a name in an open directory.
func (b *Box) fullOf(dir int, name string) (string, error) {
	above, err := b.realPath(dir)
	return strings.TrimRight(above, "/") + "/" + name, err
}

func (s spot) close() { unix.Close(s.dir) }

// kind returns the type of what has the name, 0 if nothing has it.
func (s spot) kind() uint32 {
	kind, _ := s.mode()
	return kind
}

// mode returns the type of what has the name, and its mode.
func (s spot) mode() (kind, mode uint32) {
	var st unix.Stat_t
	if unix.Fstatat(s.dir, s.name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return 0, 0
	}
	return st.Mode & unix.S_IFMT, st.Mode & 0o7777
}

// isSame reports whether two names are of one file.
func (s spot) isSame(as spot) bool {
	var a, b unix.Stat_t
	return unix.Fstatat(s.dir, s.name, &a, unix.AT_SYMLINK_NOFOLLOW) == nil && unix.Fstatat(as.dir, as.name, &b, unix.AT_SYMLINK_NOFOLLOW) == nil && a.Dev == b.Dev && a.Ino == b.Ino
}

// at opens the directory of a path, and calls do with it and the last name, unless that name must
// not be made. moving is true when what gets the name may have something in it.
func (b *Box) at(file string, moving bool, do func(spot) error) error {
	dir, last := path.Split(strings.TrimRight(file, "/"))
	if last == "" || last == "." || last == ".." {
		return unix.EEXIST
	}
	s, err := b.spotOf(dir, last)
	if err != nil {
		return err
	}
	defer s.close()
	if err := b.mayMake(s, moving); err != nil {
		return err
	}
	return do(s)
}

// admitted calls do, which makes a name, and undoes that if what it has made must not be.
func (b *Box) admitted(s spot, do func(spot) error) error {
	err := do(s)
	if err != nil {
		return err
	}
	if err = b.admit(s, false); err != nil {
		s.takeAway()
	}
	return err
}

// takeAway removes a name that must not be there. A directory that has been filled in the meantime gets
// another name.
func (s spot) takeAway() {
	err := unix.Unlinkat(s.dir, s.name, 0)
	if err == unix.EISDIR {
		err = unix.Unlinkat(s.dir, s.name, unix.AT_REMOVEDIR)
	}
	if err != nil {
		s.putAside()
	}
}

// putAside gives a name that must not be there another one.
func (s spot) putAside() {
	_ = unix.Renameat2(s.dir, s.name, s.dir, "refused-"+rand.Text(), unix.RENAME_NOREPLACE)
}

// atNew is at for a call that fails where the name is there, whatever is protected.
func (b *Box) atNew(file string, moving bool, do func(spot) error) error {
	tried := false
	err := b.at(file, moving, func(s spot) error {
		tried = true
		return b.admitted(s, do)
	})
	if kept, isKept := err.(keptError); isKept && !tried && exists(kept.path) {
		return unix.EEXIST
	}
	return err
}

// directory opens a directory as the worker sees it, but none of /proc, which would be the
// stage's own.
func (b *Box) directory(dir string) (int, error) {
	fd, err := b.look(append([]byte(dir), 0))
	if err != nil {
		return -1, err
	}
	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err != nil || st.Type == unix.PROC_SUPER_MAGIC {
		unix.Close(fd)
		return -1, unix.EACCES
	}
	return fd, nil
}

// masked runs f with the umask of the program.
func (b *Box) masked(n *notification, f func() error) error {
	mask, err := b.umask(int(n.PID))
	if err != nil {
		return err
	}
	unix.Umask(mask)
	return f()
}

func (b *Box) umask(tid int) (int, error) {
	value, err := b.status(tid, "Umask:")
	if err != nil {
		return 0, err
	}
	mask, err := strconv.ParseUint(value, 8, 32)
	return int(mask), err
}

func (b *Box) rename(f *fileCall, args *[6]uint64, paths [2]string) error {
	var flags uint
	if f.name == "renameat2" {
		flags = uint(args[4])
	}
	dir, old := path.Split(strings.TrimRight(paths[0], "/"))
	if old == "." || old == ".." || old == "" {
		return unix.EBUSY
	}
	from, err := b.spotOf(dir, old)
	if err != nil {
		return err
	}
	defer from.close()
	if err := b.mayMove(from); err != nil {
		return err
	}
	exchanges := flags&unix.RENAME_EXCHANGE != 0
	if exchanges {
		if err := b.mayMake(from, true); err != nil {
			return err
		}
	}
	if strings.HasSuffix(paths[0], "/") || strings.HasSuffix(paths[1], "/") {
		switch from.kind() {
		case unix.S_IFDIR:
		case 0:
			return unix.ENOENT
		default:
			return unix.ENOTDIR
		}
	}
	if done, err := b.replaceSettings(from, paths[1], flags); done || err != nil {
		return err
	}
	tried := false
	err = b.at(paths[1], true, func(to spot) error {
		tried = true
		if exchanges { // it is moved as well
			if err := b.mayMove(to); err != nil {
				return err
			}
		}
		return b.move(from, to, flags)
	})
	if kept, isKept := err.(keptError); isKept && !tried && !exchanges { // nothing is in the place of something of another kind, whatever is protected
		switch isDir, onDir := from.kind() == unix.S_IFDIR, isDirectoryAt(unix.AT_FDCWD, kept.path); {
		case areApart(from.dir, path.Dir(kept.path)):
			return unix.EXDEV // mv copies then, and what it makes is judged
		case onDir && !isDir:
			return unix.EISDIR
		case isDir && !onDir && exists(kept.path):
			return unix.ENOTDIR
		}
	}
	return err
}

// areApart reports whether two directories are on different mounts, between which nothing is renamed.
func areApart(dir int, other string) bool {
	var a, b unix.Statx_t
	return unix.Statx(dir, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &a) == nil &&
		unix.Statx(unix.AT_FDCWD, other, 0, unix.STATX_MNT_ID, &b) == nil && a.Mnt_id != b.Mnt_id
}

// move renames, and renames back if what has become of it must not be. Where a file takes the place of
// another, its name was there before, and nothing could bring back the other.
func (b *Box) move(from, to spot, flags uint) error {
	if flags&unix.RENAME_EXCHANGE != 0 {
		return b.exchange(from, to, flags)
	}
	was, mode := to.mode()
	if b.isGitLink(from, to.full) {
		return keptError{path: to.full}
	}
	if was == unix.S_IFDIR {
		if err := b.mayRemove(to); err != nil {
			return err
		}
	}
	err := unix.Renameat2(from.dir, from.name, to.dir, to.name, flags)
	switch {
	case err != nil:
		return err
	case was != 0 && was != unix.S_IFDIR:
		if b.isGitLink(to, to.full) { // another session has exchanged it meanwhile
			_ = unix.Unlinkat(to.dir, to.name, 0)
			return keptError{path: to.full}
		}
		return nil
	}
	if err = b.admit(to, true); err != nil {
		if unix.Renameat2(to.dir, to.name, from.dir, from.name, flags|unix.RENAME_NOREPLACE) != nil {
			to.putAside() // somebody has taken the old name
		}
		if was == unix.S_IFDIR {
			b.makeAgain(to, mode)
		}
	}
	return err
}

// exchange exchanges two names, and once more if one must not be what it has become.
func (b *Box) exchange(from, to spot, flags uint) error {
	err := unix.Renameat2(from.dir, from.name, to.dir, to.name, flags)
	if err != nil {
		return err
	}
	if err = b.admit(to, true); err == nil {
		err = b.admit(from, true)
	}
	if err != nil && unix.Renameat2(to.dir, to.name, from.dir, from.name, flags) != nil {
		to.putAside() // somebody has removed the other name
	}
	return err
}

// makeAgain makes a directory in the place of an empty one.
func (b *Box) makeAgain(s spot, mode uint32) {
	if unix.Mkdirat(s.dir, s.name, 0o700) == nil {
		_ = unix.Fchmodat(s.dir, s.name, mode, 0)
		b.noteMade(s.full)
	}
}

// link makes a hard link. Its first path is read here, because only a link may follow one in
// /proc: the name of an open file.
func (b *Box) link(n *notification, f *fileCall, args *[6]uint64, to string) error {
	first, flags := pathAt{dir: -1, path: 0}, 0
	if f.name == "linkat" {
		first, flags = pathAt{dir: 0, path: 1}, int(int32(args[4]))
	}
	if flags&^(unix.AT_SYMLINK_FOLLOW|unix.AT_EMPTY_PATH) != 0 {
		return unix.EINVAL
	}
	if flags&unix.AT_EMPTY_PATH != 0 {
		return unix.ENOENT // as for all programs without rights; they then take the name in /proc
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
		if err := b.mayWrite(fd); err != nil {
			return err
		}
		return b.atNew(to, false, func(s spot) error {
			return unix.Linkat(unix.AT_FDCWD, ownFile(fd), s.dir, s.name, unix.AT_SYMLINK_FOLLOW)
		})
	}
	for range mostLinks {
		dir, last := path.Split(strings.TrimRight(old, "/"))
		from, err := b.spotOf(dir, last)
		if err != nil {
			return err
		}
		if flags&unix.AT_SYMLINK_FOLLOW != 0 {
			var isLink bool
			if old, isLink = from.follow(old); isLink {
				from.close()
				continue
			}
		}
		defer from.close()
		if err := b.mayLink(from); err != nil {
			return err
		}
		return b.atNew(to, false, func(s spot) error { return unix.Linkat(from.dir, last, s.dir, s.name, 0) })
	}
	return unix.ELOOP
}

// follow returns the path to which a symbolic link leads, or the file. A relative text begins where the link
// really is: the directory of its path may be a link, too.
func (s spot) follow(file string) (string, bool) {
	var text [unix.PathMax]byte
	k, err := unix.Readlinkat(s.dir, s.name, text[:])
	if err != nil {
		return file, false
	}
	to := string(text[:k])
	if !strings.HasPrefix(to, "/") {
		to = path.Dir(s.full) + "/" + to
	}
	return to, true
}

func ownFile(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// openFile returns a copy of the open file that a path in /proc or /dev names; ENOENT if the
// path is not such a name.
func (b *Box) openFile(n *notification, file string) (int, error) {
	if !strings.HasPrefix(file, "/proc/") && !strings.HasPrefix(file, "/dev/") {
		return -1, unix.ENOENT
	}
	leader, err := b.leader(int(n.PID))
	if err != nil {
		return -1, err
	}
	own := "/proc/" + strconv.Itoa(leader)
	for i, standard := range []string{"/dev/stdin", "/dev/stdout", "/dev/stderr"} {
		if file == standard {
			file = own + "/fd/" + strconv.Itoa(i)
		}
	}
	for _, prefix := range [][2]string{{"/dev/fd/", own + "/fd/"}, {"/proc/self/", own + "/"}, {"/proc/thread-self/", own + "/"}} {
		if rest, ok := strings.CutPrefix(file, prefix[0]); ok {
			file = prefix[1] + rest
		}
	}
	number, ok := strings.CutPrefix(file, own+"/fd/")
	if !ok {
		return -1, unix.ENOENT
	}
	fd, err := strconv.Atoi(number)
	if err != nil {
		return -1, unix.ENOENT
	}
	copied, err := b.openCopy(n, leader, fd)
	if err == unix.EBADF {
		err = unix.ENXIO // ENOENT would say that it is no such name
	}
	return copied, err
}

// openCopy returns a copy of an open file of a thread. Of one that was opened for its path alone it opens what
// has the path now.
func (b *Box) openCopy(n *notification, tid, fd int) (int, error) {
	copied, err := b.taken(tid, fd)
	if err == nil && isPathAlone(copied) {
		return b.byName(n, copied)
	}
	return copied, err
}

// isPathAlone reports whether a descriptor was opened for its path, without a look at the file.
func isPathAlone(fd int) bool {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	return err == nil && flags&unix.O_PATH != 0
}

// byName opens what has the name of such a descriptor now, and closes that: it may be of a file that was hidden
// under its name, and has none any more, or one that the session does not see.
func (b *Box) byName(n *notification, fd int) (int, error) {
	defer unix.Close(fd)
	full, err := b.realPath(fd)
	if err != nil {
		return -1, err
	}
	named, onward := -1, ""
	if strings.HasPrefix(full, "/proc/") {
		named, onward, err = b.lookProcess(n, full)
	} else {
		named, err = b.lookAt(append([]byte(full), 0), unix.O_NOFOLLOW)
	}
	if err != nil || onward != "" {
		return -1, unix.EACCES
	}
	return named, nil
}

// openProcess opens a file of a process in /proc, such as oom_score_adj, by the session's own /proc. It
// opens none of the stage's.
func (b *Box) openProcess(n *notification, file string, flags int) (int, error) {
	leader, err := b.leader(int(n.PID))
	if err != nil {
		return -1, err
	}
	who, rest, _ := strings.Cut(strings.TrimPrefix(path.Clean(file), "/proc/"), "/")
	switch who {
	case "self":
		who = strconv.Itoa(leader)
	case "thread-self":
		who, rest = strconv.Itoa(leader), "task/"+strconv.Itoa(int(n.PID))+"/"+rest
	}
	if pid, err := strconv.Atoi(who); err != nil || pid < 2 || rest == "" {
		return -1, unix.EACCES
	}
	process, err := unix.Openat(b.proc, who, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(process)
	if of, err := processOf(process); err != nil || of == 1 { // a thread of the stage has a number, too
		return -1, unix.EACCES
	}
	how := unix.OpenHow{
		Flags:   uint64(flags&(unix.O_ACCMODE|unix.O_APPEND|unix.O_TRUNC|unix.O_NONBLOCK) | unix.O_CLOEXEC),
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	}
	return unix.Openat2(process, rest, &how)
}

// processOf returns the process of a directory of /proc.
func processOf(dir int) (int, error) {
	text, err := readAt(dir, "status")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(valueIn(text, "Tgid:"))
}

// terminalOf returns the path of a thread's own terminal, which /dev/tty stands for. Those of the
// session's first session of processes have the session's terminal.
func (b *Box) terminalOf(tid int) (string, error) {
	leader, err := b.leader(tid)
	if err != nil {
		return "", err
	}
	session, terminal, err := b.terminalIn(leader)
	if err != nil || terminal == 0 {
		return "", unix.ENXIO
	}
	if first, _, err := b.terminalIn(1); err == nil && first == session {
		return "/dev/console", nil
	}
	const firstOfPts, eachOfPts = 136, 256
	major, minor := terminal>>8&0xfff, terminal&0xff|terminal>>12&0xfff00
	if major < firstOfPts || major > firstOfPts+7 {
		return "", unix.ENXIO
	}
	return "/dev/pts/" + strconv.Itoa((major-firstOfPts)*eachOfPts+minor), nil
}

// terminalIn returns the session of a process, and the device of its terminal.
func (b *Box) terminalIn(pid int) (session, terminal int, err error) {
	text, err := readAt(b.proc, strconv.Itoa(pid)+"/stat")
	if err != nil {
		return 0, 0, err
	}
	f := strings.Fields(text[strings.LastIndexByte(text, ')')+1:]) // state, parent, group, session, terminal
	if len(f) < 5 {
		return 0, 0, unix.ESRCH
	}
	if session, err = strconv.Atoi(f[3]); err == nil {
		terminal, err = strconv.Atoi(f[4])
	}
	return session, terminal, err
}

// openUnnamed opens a file without a name in a directory.
func (b *Box) openUnnamed(n *notification, dir string, flags int, mode uint32) (int, error) {
	if runsAsOwner(mode) {
		return -1, unix.EPERM
	}
	above, err := b.directory(dir)
	if err != nil {
		return -1, err
	}
	defer unix.Close(above)
	fd := -1
	err = b.masked(n, func() (err error) {
		fd, err = unix.Openat(above, ".", flags|unix.O_CLOEXEC, mode&0o7777)
		return err
	})
	return fd, err
}

// remove removes a name.
func (b *Box) remove(file string, directory bool) error {
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
	s, err := b.spotOf(dir, last)
	if err != nil {
		return err
	}
	defer s.close()
	flags := 0
	if directory {
		flags = unix.AT_REMOVEDIR
	} else if slash {
		return unix.ENOTDIR
	}
	if kind := s.kind(); kind != 0 && (kind == unix.S_IFDIR) == directory {
		if err := b.mayRemove(s); err != nil {
			return err
		}
	}
	return unix.Unlinkat(s.dir, s.name, flags)
}

// truncate changes the size of a file.
func (b *Box) truncate(n *notification, file string, size int64) error {
	fd, err := b.openOrMake(n, file, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Ftruncate(fd, size)
}

// bind gives a socket its name. A socket's own name is the text that its program chose, so the kernel
// reads that here, from a copy, in the program's directory. A socket that was made somewhere else because
// a directory was exchanged is removed again.
func (b *Box) bind(n *notification, args *[6]uint64) error {
	if int32(args[2]) < 2 || args[2] > unix.SizeofSockaddrAny+16 {
		return unix.EINVAL
	}
	address := make([]byte, int(args[2]))
	if err := peek(int(n.PID), args[1], address); err != nil {
		return unix.EFAULT
	}
	socket, err := b.taken(int(n.PID), int(int32(args[0])))
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	if binary.NativeEndian.Uint16(address) != unix.AF_UNIX || len(address) < 3 || address[2] == 0 {
		return bindTo(socket, address)
	}
	file := string(cutAtNul(address[2:]))
	if partsOfGit[folded(path.Base(file))] { // it could get to another directory, and make that a repository
		return unix.EACCES
	}
	cwd, err := unix.Openat(b.proc, strconv.Itoa(int(n.PID))+"/cwd", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(cwd)
	if !strings.HasPrefix(file, "/") {
		above, err := b.realPath(cwd)
		if err == nil {
			err = unix.Fchdir(cwd)
		}
		if err != nil {
			return err
		}
		defer func() { _ = unix.Chdir("/") }()
		file = above + "/" + file
	}
	return b.at(file, false, func(s spot) error {
		if s.kind() != 0 {
			return unix.EADDRINUSE
		}
		return b.admitted(s, func(s spot) error {
			err := b.masked(n, func() error { return bindTo(socket, address) })
			if err == nil && s.kind() != unix.S_IFSOCK {
				b.removeSocket(file)
				err = unix.EAGAIN
			}
			return err
		})
	})
}

// removeSocket removes a socket, and nothing else that has its path by now.
func (b *Box) removeSocket(file string) {
	s, err := b.spotOf(path.Split(file))
	if err != nil {
		return
	}
	defer s.close()
	if s.kind() == unix.S_IFSOCK {
		_ = unix.Unlinkat(s.dir, s.name, 0)
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

// openOrMake opens a file that may be made. It never waits: a pipe without a reader is tried again by
// its caller.
func (b *Box) openOrMake(n *notification, file string, flags int, mode uint32) (int, error) {
	switch {
	case flags&unix.O_TMPFILE == unix.O_TMPFILE:
		return b.openUnnamed(n, file, flags, mode)
	case strings.HasSuffix(file, "/"):
		return -1, unix.EISDIR
	case flags&unix.O_DIRECTORY != 0 && flags&unix.O_CREAT != 0:
		return -1, unix.EINVAL
	}
	plain := flags&^(unix.O_CREAT|unix.O_EXCL) | unix.O_CLOEXEC | unix.O_NOCTTY | unix.O_NONBLOCK
	for range mostLinks {
		if fd, err := b.openFile(n, file); err != unix.ENOENT {
			if err != nil {
				return -1, err
			}
			defer unix.Close(fd)
			if flags&writes != 0 {
				if err := b.mayWrite(fd); err != nil {
					return -1, err
				}
			}
			return opened(flags)(unix.Open(ownFile(fd), plain&^unix.O_NOFOLLOW, 0))
		}
		if strings.HasPrefix(file, "/proc/") {
			return opened(flags)(b.openProcess(n, file, plain))
		}
		if path.Clean(file) == "/dev/tty" {
			var err error
			if file, err = b.terminalOf(int(n.PID)); err != nil {
				return -1, err
			}
		}
		dir, last := path.Split(file)
		if last == "" || last == "." || last == ".." {
			return -1, unix.EISDIR
		}
		fd, err := b.openOnce(n, dir, last, flags, plain, mode)
		if err == unix.EEXIST && flags&unix.O_EXCL == 0 {
			continue // somebody was faster: it is there now
		}
		if err != unix.ELOOP || flags&unix.O_NOFOLLOW != 0 {
			return opened(flags)(fd, err)
		}
		link, err := b.spotOf(dir, last)
		if err != nil {
			return -1, err
		}
		var isLink bool
		file, isLink = link.follow(file)
		link.close()
		if !isLink {
			continue
		}
		if strings.HasPrefix(file, "/proc/") || strings.HasPrefix(file, "/dev/") {
			flags &^= unix.O_CREAT // nothing is made there
		}
	}
	return -1, unix.ELOOP
}

// openOnce opens what has the name, or makes it.
func (b *Box) openOnce(n *notification, dir, last string, flags, plain int, mode uint32) (int, error) {
	s, err := b.spotOf(dir, last)
	if err != nil {
		return -1, err
	}
	defer s.close()
	if err := b.mayMake(s, false); err != nil {
		if s.kind() == unix.S_IFLNK && !b.closes(s.full) {
			return -1, unix.ELOOP // what it leads to is judged
		}
		if flags&unix.O_CREAT != 0 && b.isLinkOf(s) {
			return b.openLink(n, s)
		}
		if b.takesInPlace(s, flags) {
			return b.openSink(n, s, flags, mode)
		}
		return -1, err
	}
	if flags&unix.O_EXCL == 0 || flags&unix.O_CREAT == 0 {
		fd, err := unix.Openat(s.dir, s.name, plain|unix.O_NOFOLLOW, 0)
		if err != unix.ENOENT || flags&unix.O_CREAT == 0 {
			if err == nil && flags&unix.O_CREAT != 0 && isDirectory(fd) {
				unix.Close(fd)
				return -1, unix.EISDIR
			}
			if err == nil && flags&writes != 0 && b.isHeld(s.full) { // it is in a repository since a moment ago
				unix.Close(fd)
				return -1, keptError{path: s.full}
			}
			return fd, err
		}
	}
	if runsAsOwner(mode) {
		return -1, unix.EPERM
	}
	fd := -1
	err = b.admitted(s, func(s spot) error {
		return b.masked(n, func() (err error) {
			fd, err = unix.Openat(s.dir, s.name, plain|unix.O_CREAT|unix.O_EXCL, mode&0o7777)
			return err
		})
	})
	if err != nil && fd >= 0 {
		unix.Close(fd)
		fd = -1
	}
	return fd, err
}

func isDirectoryAt(dir int, name string) bool {
	var st unix.Stat_t
	return unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR
}

func isDirectory(fd int) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR
}

// opened gives a descriptor the flags that its program wants.
func opened(flags int) func(int, error) (int, error) {
	return func(fd int, err error) (int, error) {
		if err == nil && flags&unix.O_NONBLOCK == 0 {
			_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFL, flags&(unix.O_APPEND|unix.O_DIRECT|unix.O_NOATIME))
			if err != nil {
				unix.Close(fd)
				fd = -1
			}
		}
		return fd, err
	}
}

// handOver gives a program a descriptor as the result of its call, and closes it here.
func (b *Box) handOver(n *notification, fd int, closeOnExec bool) error {
	defer unix.Close(fd)
	a := addition{ID: n.ID, Flags: alsoAnswer, From: uint32(fd)}
	if closeOnExec {
		a.NewFlags = unix.O_CLOEXEC
	}
	return control(b.calls, addDescriptor, unsafe.Pointer(&a))
}

// keep lists names that must not be made, and mounts that stay where they are.
func (b *Box) keep(absent []Path, places []Place) {
	b.keeping.Lock()
	defer b.keeping.Unlock()
	if b.kept == nil {
		b.kept, b.keptNames, b.keptAbove = map[string]bool{}, map[string]bool{}, map[string]bool{}
		b.places, b.placed = map[string]Kind{}, map[string]bool{}
	}
	for _, p := range places {
		b.places[string(p.Path)] = p.Kind
		b.placed[path.Base(string(p.Path))] = true
	}
	for _, p := range absent {
		full := folded(string(p))
		b.kept[full] = true
		b.keptNames[path.Base(full)] = true
		for above := path.Dir(full); above != "/"; above = path.Dir(above) {
			b.keptAbove[above] = true
		}
	}
}

// A keptError says that a name must not be made or changed.
type keptError struct {
	path    string
	setting string // of git, if the path is a file of those
}

func (k keptError) Error() string { return k.path + " must not be made or changed" }

// judgeMake returns why a name must not be made, a keptError. A directory that would hold such a name may
// be made, but not moved there with something in it.
func (b *Box) judgeMake(s spot, moving bool) error {
	if b.isHeld(s.full) || b.fills(s.full, moving) {
		return keptError{path: s.full}
	}
	b.keeping.RLock()
	defer b.keeping.RUnlock()
	if !moving && !b.keptNames[folded(s.name)] {
		return nil
	}
	if as := folded(s.full); b.kept[as] || moving && b.keptAbove[as] {
		return keptError{path: s.full}
	}
	return nil
}

// apart runs f on a thread without rights, which ends with it. If there can be no such thread, f gets the error.
func (b *Box) apart(f func(error)) {
	go func() {
		runtime.LockOSThread()
		f(b.withoutRights())
	}()
}
