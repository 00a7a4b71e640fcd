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

// The monitor makes each call that makes, opens for writing, moves or removes a name, on behalf of
// the program. If the kernel continued the program's own call, a second thread could change the
// path after the check and reach a protected name.
//
// Paths are resolved as the program sees them, and names are made relative to an open directory, so
// nothing can be exchanged in between. The thread has only the user's rights.

const (
	ioctlNotifAddFD = 0x40182103 // SECCOMP_IOCTL_NOTIF_ADDFD
	addFDFlagSend   = 2          // SECCOMP_ADDFD_FLAG_SEND
)

// A notifAddFD is the kernel's struct seccomp_notif_addfd, which installs a descriptor in the
// calling program.
type notifAddFD struct {
	ID       uint64
	Flags    uint32
	From     uint32
	To       uint32
	NewFlags uint32
}

// isEmulated reports whether the monitor makes a call itself. An open with O_PATH changes nothing
// and is left to the kernel.
func (f *fileCall) isEmulated(n *seccompNotif) bool {
	return f.flags < 0 || n.Data.Args[f.flags]&unix.O_PATH == 0
}

// dropEffectiveRights reduces the calling thread to the user's rights, and gives it a separate
// umask. It enters the worker's IPC namespace and its mounts, because the kernel protects a mount
// point from being renamed or removed only in the namespace that sees the mount. The thread can
// regain its rights.
//
// No signal interrupts the thread: during the delivery of a descriptor, a signal would give the
// program descriptor 0 instead.
func (b *Sandbox) dropEffectiveRights() error {
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
	if err := unix.Setns(b.ipcNS, unix.CLONE_NEWIPC); err != nil {
		return err
	}
	if err := unix.Setns(b.mountNS, unix.CLONE_NEWNS); err != nil {
		return err
	}
	return setEffective(0)
}

// setEffective sets the effective capabilities of the thread, of those that are permitted.
func setEffective(rights uint32) error {
	var data [2]unix.CapUserData
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := unix.Capget(&header, &data[0]); err != nil {
		return err
	}
	data[0].Effective, data[1].Effective = data[0].Permitted&rights, 0
	return unix.Capset(&header, &data[0])
}

// withRights runs f with the right to inspect any program of the session.
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

// emulateCall makes a call whose paths were read. For an open it returns the descriptor, otherwise
// -1.
func (b *Sandbox) emulateCall(n *seccompNotif, f *fileCall, paths [2]string) (fd int, err error) {
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
	return -1, b.withNewName(paths[0], strings.HasPrefix(f.name, "symlink"), func(s nameInDir) error {
		switch f.name {
		case "mkdir", "mkdirat":
			err := b.withUmask(n, func() error { return unix.Mkdirat(s.dir, s.name, uint32(args[f.paths[0].path+1])) })
			if err == nil {
				b.recordFreshDir(s)
			}
			return err
		case "mknod", "mknodat":
			mode := uint32(args[f.paths[0].path+1])
			if isSetuidMode(mode) {
				return unix.EPERM
			}
			return b.withUmask(n, func() error {
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
func (b *Sandbox) pathsOf(n *seccompNotif, f *fileCall) (paths [2]string, err error) {
	for i, p := range f.paths {
		if paths[i], err = b.pathOf(n, p); err != nil {
			break
		}
	}
	return paths, err
}

// pathOf returns an absolute path of a call. A path in the program's own /proc gets the number of
// the program.
func (b *Sandbox) pathOf(n *seccompNotif, p pathArgs) (string, error) {
	dir := unix.AT_FDCWD
	if p.dir >= 0 {
		dir = int(int32(n.Data.Args[p.dir]))
	}
	buf := b.pathBuffers.Get().(*userPath) // pooled: it is large, and the collector runs seldom
	defer b.pathBuffers.Put(buf)
	err := b.readUserPath(buf, int(n.PID), dir, n.Data.Args[p.path])
	if err == unix.EPERM || err == unix.EACCES {
		err = withRights(func() error { return b.readUserPath(buf, int(n.PID), dir, n.Data.Args[p.path]) })
	}
	if err != nil {
		return "", err
	}
	if buf.len == 0 {
		return "", unix.ENOENT
	}
	return buf.String(), nil
}

// A nameInDir is a name in an open directory.
type nameInDir struct {
	dir      int
	name     string
	fullPath string // path of the name when the directory was opened
}

// openNameInDir opens the directory of a name.
func (b *Sandbox) openNameInDir(dir, name string) (nameInDir, error) {
	fd, err := b.openDir(dir)
	if err != nil {
		return nameInDir{}, err
	}
	full, err := b.fullPathOf(fd, name)
	if err != nil {
		unix.Close(fd)
		return nameInDir{}, err
	}
	return nameInDir{fd, name, full}, nil
}

// fullPathOf returns the path of a name in an open directory.
func (b *Sandbox) fullPathOf(dir int, name string) (string, error) {
	above, err := b.realPath(dir)
	return strings.TrimRight(above, "/") + "/" + name, err
}

func (s nameInDir) close() { unix.Close(s.dir) }

// fileType returns the type of the file with this name, or 0 if it does not exist.
func (s nameInDir) fileType() uint32 {
	kind, _ := s.typeAndMode()
	return kind
}

// typeAndMode returns the type and the mode of the file with this name.
func (s nameInDir) typeAndMode() (kind, mode uint32) {
	var st unix.Stat_t
	if unix.Fstatat(s.dir, s.name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return 0, 0
	}
	return st.Mode & unix.S_IFMT, st.Mode & 0o7777
}

// isSame reports whether two names belong to the same file.
func (s nameInDir) isSame(other nameInDir) bool {
	var a, b unix.Stat_t
	return unix.Fstatat(s.dir, s.name, &a, unix.AT_SYMLINK_NOFOLLOW) == nil && unix.Fstatat(other.dir, other.name, &b, unix.AT_SYMLINK_NOFOLLOW) == nil && a.Dev == b.Dev && a.Ino == b.Ino
}

// withParent opens the directory of a path and calls do with it and the last name, unless that name
// must not be made. moving means that the name may be given to a directory with content.
func (b *Sandbox) withParent(file string, moving bool, do func(nameInDir) error) error {
	dir, last := path.Split(strings.TrimRight(file, "/"))
	if last == "" || last == "." || last == ".." {
		return unix.EEXIST
	}
	s, err := b.openNameInDir(dir, last)
	if err != nil {
		return err
	}
	defer s.close()
	if err := b.checkCreate(s, moving); err != nil {
		return err
	}
	return do(s)
}

// createChecked calls do, which makes a name, and undoes it if the check of the result fails.
func (b *Sandbox) createChecked(s nameInDir, do func(nameInDir) error) error {
	err := do(s)
	if err != nil {
		return err
	}
	if err = b.checkCreated(s, false); err != nil {
		s.removeOrRename()
	}
	return err
}

// removeOrRename removes a name that must not exist. A directory that was filled in the meantime is
// renamed instead.
func (s nameInDir) removeOrRename() {
	err := unix.Unlinkat(s.dir, s.name, 0)
	if err == unix.EISDIR {
		err = unix.Unlinkat(s.dir, s.name, unix.AT_REMOVEDIR)
	}
	if err != nil {
		s.renameAside()
	}
}

// renameAside renames a name that must not exist.
func (s nameInDir) renameAside() {
	_ = unix.Renameat2(s.dir, s.name, s.dir, "refused-"+rand.Text(), unix.RENAME_NOREPLACE)
}

// withNewName is withParent for a call that fails if the name exists, even if it is protected.
func (b *Sandbox) withNewName(file string, moving bool, do func(nameInDir) error) error {
	tried := false
	err := b.withParent(file, moving, func(s nameInDir) error {
		tried = true
		return b.createChecked(s, do)
	})
	if denied, isDenied := err.(protectedNameError); isDenied && !tried && isPresent(denied.path) {
		return unix.EEXIST
	}
	return err
}

// openDir opens a directory as the worker sees it, except in /proc, where it would see the
// monitor's own files.
func (b *Sandbox) openDir(dir string) (int, error) {
	fd, err := b.openPath(append([]byte(dir), 0))
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

// withUmask runs f with the umask of the program.
func (b *Sandbox) withUmask(n *seccompNotif, f func() error) error {
	mask, err := b.umaskOf(int(n.PID))
	if err != nil {
		return err
	}
	unix.Umask(mask)
	return f()
}

func (b *Sandbox) umaskOf(tid int) (int, error) {
	value, err := b.threadStatus(tid, "Umask:")
	if err != nil {
		return 0, err
	}
	mask, err := strconv.ParseUint(value, 8, 32)
	return int(mask), err
}

func (b *Sandbox) renamePath(f *fileCall, args *[6]uint64, paths [2]string) error {
	var flags uint
	if f.name == "renameat2" {
		flags = uint(args[4])
	}
	dir, old := path.Split(strings.TrimRight(paths[0], "/"))
	if old == "." || old == ".." || old == "" {
		return unix.EBUSY
	}
	from, err := b.openNameInDir(dir, old)
	if err != nil {
		return err
	}
	defer from.close()
	if err := b.checkMove(from); err != nil {
		return err
	}
	exchanges := flags&unix.RENAME_EXCHANGE != 0
	if exchanges {
		if err := b.checkCreate(from, true); err != nil {
			return err
		}
	}
	if strings.HasSuffix(paths[0], "/") || strings.HasSuffix(paths[1], "/") {
		switch from.fileType() {
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
	err = b.withParent(paths[1], true, func(to nameInDir) error {
		tried = true
		if exchanges { // an exchange moves it as well
			if err := b.checkMove(to); err != nil {
				return err
			}
		}
		return b.moveName(from, to, flags)
	})
	if denied, isDenied := err.(protectedNameError); isDenied && !tried && !exchanges { // the kernel would refuse a rename to another type of file anyway, so return its error
		switch isDir, replacesDir := from.fileType() == unix.S_IFDIR, isDirectoryAt(unix.AT_FDCWD, denied.path); {
		case areOnDifferentMounts(from.dir, path.Dir(denied.path)):
			return unix.EXDEV // mv then copies, and the copy is checked
		case replacesDir && !isDir:
			return unix.EISDIR
		case isDir && !replacesDir && isPresent(denied.path):
			return unix.ENOTDIR
		}
	}
	return err
}

// areOnDifferentMounts reports whether two directories are on different mounts, across which
// rename(2) does not work.
func areOnDifferentMounts(dir int, other string) bool {
	var a, b unix.Statx_t
	return unix.Statx(dir, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &a) == nil &&
		unix.Statx(unix.AT_FDCWD, other, 0, unix.STATX_MNT_ID, &b) == nil && a.Mnt_id != b.Mnt_id
}

// moveName renames, and renames back if the result is not allowed. A rename over an existing file
// is not undone: the name existed before, and the replaced file cannot be restored.
func (b *Sandbox) moveName(from, to nameInDir, flags uint) error {
	if flags&unix.RENAME_EXCHANGE != 0 {
		return b.exchangeNames(from, to, flags)
	}
	oldType, mode := to.typeAndMode()
	if b.isGitLink(from, to.fullPath) {
		return protectedNameError{path: to.fullPath}
	}
	if oldType == unix.S_IFDIR {
		if err := b.checkRemove(to); err != nil {
			return err
		}
	}
	err := unix.Renameat2(from.dir, from.name, to.dir, to.name, flags)
	switch {
	case err != nil:
		return err
	case oldType != 0 && oldType != unix.S_IFDIR:
		if b.isGitLink(to, to.fullPath) { // another session has exchanged it in the meantime
			_ = unix.Unlinkat(to.dir, to.name, 0)
			return protectedNameError{path: to.fullPath}
		}
		return nil
	}
	if err = b.checkCreated(to, true); err != nil {
		if unix.Renameat2(to.dir, to.name, from.dir, from.name, flags|unix.RENAME_NOREPLACE) != nil {
			to.renameAside() // the old name was taken in the meantime
		}
		if oldType == unix.S_IFDIR {
			b.remakeDir(to, mode)
		}
	}
	return err
}

// exchangeNames exchanges two names, and exchanges them back if one result is not allowed.
func (b *Sandbox) exchangeNames(from, to nameInDir, flags uint) error {
	err := unix.Renameat2(from.dir, from.name, to.dir, to.name, flags)
	if err != nil {
		return err
	}
	if err = b.checkCreated(to, true); err == nil {
		err = b.checkCreated(from, true)
	}
	if err != nil && unix.Renameat2(to.dir, to.name, from.dir, from.name, flags) != nil {
		to.renameAside() // the other name was removed in the meantime
	}
	return err
}

// remakeDir makes an empty directory again that a rename has replaced.
func (b *Sandbox) remakeDir(s nameInDir, mode uint32) {
	if unix.Mkdirat(s.dir, s.name, 0o700) == nil {
		_ = unix.Fchmodat(s.dir, s.name, mode, 0)
		b.recordCreated(s.fullPath)
	}
}

// makeHardLink makes a hard link. Its first path is read here, because only a link may follow a
// name of an open file in /proc.
func (b *Sandbox) makeHardLink(n *seccompNotif, f *fileCall, args *[6]uint64, to string) error {
	first, flags := pathArgs{dir: -1, path: 0}, 0
	if f.name == "linkat" {
		first, flags = pathArgs{dir: 0, path: 1}, int(int32(args[4]))
	}
	if flags&^(unix.AT_SYMLINK_FOLLOW|unix.AT_EMPTY_PATH) != 0 {
		return unix.EINVAL
	}
	if flags&unix.AT_EMPTY_PATH != 0 {
		return unix.ENOENT // as for all unprivileged programs, which then use the name in /proc
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
		if err := b.checkWrite(fd); err != nil {
			return err
		}
		return b.withNewName(to, false, func(s nameInDir) error {
			return unix.Linkat(unix.AT_FDCWD, selfFDPath(fd), s.dir, s.name, unix.AT_SYMLINK_FOLLOW)
		})
	}
	for range maxLinks {
		dir, last := path.Split(strings.TrimRight(old, "/"))
		from, err := b.openNameInDir(dir, last)
		if err != nil {
			return err
		}
		if flags&unix.AT_SYMLINK_FOLLOW != 0 {
			var isLink bool
			if old, isLink = from.resolveLink(old); isLink {
				from.close()
				continue
			}
		}
		defer from.close()
		if err := b.checkLink(from); err != nil {
			return err
		}
		return b.withNewName(to, false, func(s nameInDir) error { return unix.Linkat(from.dir, last, s.dir, s.name, 0) })
	}
	return unix.ELOOP
}

// resolveLink returns the path to which a symbolic link leads, or the file itself. A relative
// target begins at the real directory of the link, because the directory of its path may be a link,
// too.
func (s nameInDir) resolveLink(file string) (string, bool) {
	var text [unix.PathMax]byte
	k, err := unix.Readlinkat(s.dir, s.name, text[:])
	if err != nil {
		return file, false
	}
	to := string(text[:k])
	if !strings.HasPrefix(to, "/") {
		to = path.Dir(s.fullPath) + "/" + to
	}
	return to, true
}

func selfFDPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// openFile returns a copy of the open file that a path in /proc or /dev names. The error is ENOENT
// if the path does not name one.
func (b *Sandbox) openFile(n *seccompNotif, file string) (int, error) {
	if !strings.HasPrefix(file, "/proc/") && !strings.HasPrefix(file, "/dev/") {
		return -1, unix.ENOENT
	}
	leader, err := b.threadGroupID(int(n.PID))
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
		err = unix.ENXIO // ENOENT would mean that it is not such a name
	}
	return copied, err
}

// openCopy returns a copy of an open file of a thread. For a descriptor that was opened with
// O_PATH, it opens the file that has the path now.
func (b *Sandbox) openCopy(n *seccompNotif, tid, fd int) (int, error) {
	copied, err := b.copyDescriptorWithRights(tid, fd)
	if err == nil && isPathOnly(copied) {
		return b.reopenByName(n, copied)
	}
	return copied, err
}

// isPathOnly reports whether a descriptor was opened with O_PATH.
func isPathOnly(fd int) bool {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	return err == nil && flags&unix.O_PATH != 0
}

// reopenByName closes such a descriptor and opens the file that has its path now. The descriptor
// itself may be of a file that was hidden and has since lost its name, or of one that the session
// does not see.
func (b *Sandbox) reopenByName(n *seccompNotif, fd int) (int, error) {
	defer unix.Close(fd)
	full, err := b.realPath(fd)
	if err != nil {
		return -1, err
	}
	named, onward := -1, ""
	if strings.HasPrefix(full, "/proc/") {
		named, onward, err = b.openProcPath(n, full)
	} else {
		named, err = b.openPathWith(append([]byte(full), 0), unix.O_NOFOLLOW)
	}
	if err != nil || onward != "" {
		return -1, unix.EACCES
	}
	return named, nil
}

// openProcess opens a file of a process in /proc, such as oom_score_adj, through the session's own
// /proc. It never opens a file of the monitor.
func (b *Sandbox) openProcess(n *seccompNotif, file string, flags int) (int, error) {
	leader, err := b.threadGroupID(int(n.PID))
	if err != nil {
		return -1, err
	}
	process, rest, _ := strings.Cut(strings.TrimPrefix(path.Clean(file), "/proc/"), "/")
	switch process {
	case "self":
		process = strconv.Itoa(leader)
	case "thread-self":
		process, rest = strconv.Itoa(leader), "task/"+strconv.Itoa(int(n.PID))+"/"+rest
	}
	if pid, err := strconv.Atoi(process); err != nil || pid < 2 || rest == "" {
		return -1, unix.EACCES
	}
	dir, err := unix.Openat(b.procFD, process, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(dir)
	if of, err := processOf(dir); err != nil || of == 1 { // the pid may be a thread of the monitor
		return -1, unix.EACCES
	}
	how := unix.OpenHow{
		Flags:   uint64(flags&(unix.O_ACCMODE|unix.O_APPEND|unix.O_TRUNC|unix.O_NONBLOCK) | unix.O_CLOEXEC),
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	}
	return unix.Openat2(dir, rest, &how)
}

// processOf returns the process of a directory in /proc.
func processOf(dir int) (int, error) {
	text, err := readAt(dir, "status")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(valueIn(text, "Tgid:"))
}

// terminalOf returns the path of a thread's controlling terminal, which /dev/tty stands for.
// Processes in the first POSIX session have the terminal of the turnstone session.
func (b *Sandbox) terminalOf(tid int) (string, error) {
	leader, err := b.threadGroupID(tid)
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
	const firstPtsMajor, minorsPerMajor = 136, 256
	major, minor := terminal>>8&0xfff, terminal&0xff|terminal>>12&0xfff00
	if major < firstPtsMajor || major > firstPtsMajor+7 {
		return "", unix.ENXIO
	}
	return "/dev/pts/" + strconv.Itoa((major-firstPtsMajor)*minorsPerMajor+minor), nil
}

// terminalIn returns the POSIX session of a process and the device of its terminal.
func (b *Sandbox) terminalIn(pid int) (session, terminal int, err error) {
	text, err := readAt(b.procFD, strconv.Itoa(pid)+"/stat")
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

// openUnnamed opens an unnamed file in a directory.
func (b *Sandbox) openUnnamed(n *seccompNotif, dir string, flags int, mode uint32) (int, error) {
	if isSetuidMode(mode) {
		return -1, unix.EPERM
	}
	above, err := b.openDir(dir)
	if err != nil {
		return -1, err
	}
	defer unix.Close(above)
	fd := -1
	err = b.withUmask(n, func() (err error) {
		fd, err = unix.Openat(above, ".", flags|unix.O_CLOEXEC, mode&0o7777)
		return err
	})
	return fd, err
}

// removeName removes a file or directory.
func (b *Sandbox) removeName(file string, directory bool) error {
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
	s, err := b.openNameInDir(dir, last)
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
	if kind := s.fileType(); kind != 0 && (kind == unix.S_IFDIR) == directory {
		if err := b.checkRemove(s); err != nil {
			return err
		}
	}
	return unix.Unlinkat(s.dir, s.name, flags)
}

// truncateFile changes the size of a file.
func (b *Sandbox) truncateFile(n *seccompNotif, file string, size int64) error {
	fd, err := b.openOrCreate(n, file, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Ftruncate(fd, size)
}

// bindSocket binds a socket to an address. The address of a Unix socket is reported as the text
// that its program chose. So the kernel reads it here, from a copy, in the program's directory. If
// a directory was exchanged, so that the socket was made elsewhere, it is removed again.
func (b *Sandbox) bindSocket(n *seccompNotif, args *[6]uint64) error {
	if int32(args[2]) < 2 || args[2] > unix.SizeofSockaddrAny+16 {
		return unix.EINVAL
	}
	address := make([]byte, int(args[2]))
	if err := peekMemory(int(n.PID), args[1], address); err != nil {
		return unix.EFAULT
	}
	socket, err := b.copyDescriptorWithRights(int(n.PID), int(int32(args[0])))
	if err != nil {
		return err
	}
	defer unix.Close(socket)
	if binary.NativeEndian.Uint16(address) != unix.AF_UNIX || len(address) < 3 || address[2] == 0 {
		return bindTo(socket, address)
	}
	file := string(cutAtNul(address[2:]))
	if gitDirParts[foldPath(path.Base(file))] { // it could end up in another directory, and turn that into a repository
		return unix.EACCES
	}
	cwd, err := unix.Openat(b.procFD, strconv.Itoa(int(n.PID))+"/cwd", unix.O_PATH|unix.O_CLOEXEC, 0)
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
	return b.withParent(file, false, func(s nameInDir) error {
		if s.fileType() != 0 {
			return unix.EADDRINUSE
		}
		return b.createChecked(s, func(s nameInDir) error {
			err := b.withUmask(n, func() error { return bindTo(socket, address) })
			if err == nil && s.fileType() != unix.S_IFSOCK {
				b.removeSocket(file)
				err = unix.EAGAIN
			}
			return err
		})
	})
}

// removeSocket removes a socket, but no other file that has its path by now.
func (b *Sandbox) removeSocket(file string) {
	s, err := b.openNameInDir(path.Split(file))
	if err != nil {
		return
	}
	defer s.close()
	if s.fileType() == unix.S_IFSOCK {
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

// openOrCreate opens a file that may have to be made. It never waits: its caller tries a pipe
// without a reader again.
func (b *Sandbox) openOrCreate(n *seccompNotif, file string, flags int, mode uint32) (int, error) {
	switch {
	case flags&unix.O_TMPFILE == unix.O_TMPFILE:
		return b.openUnnamed(n, file, flags, mode)
	case strings.HasSuffix(file, "/"):
		return -1, unix.EISDIR
	case flags&unix.O_DIRECTORY != 0 && flags&unix.O_CREAT != 0:
		return -1, unix.EINVAL
	}
	openFlags := flags&^(unix.O_CREAT|unix.O_EXCL) | unix.O_CLOEXEC | unix.O_NOCTTY | unix.O_NONBLOCK
	for range maxLinks {
		if fd, err := b.openFile(n, file); err != unix.ENOENT {
			if err != nil {
				return -1, err
			}
			defer unix.Close(fd)
			if flags&writeFlags != 0 {
				if err := b.checkWrite(fd); err != nil {
					return -1, err
				}
			}
			return keepOpenFlags(flags)(unix.Open(selfFDPath(fd), openFlags&^unix.O_NOFOLLOW, 0))
		}
		if strings.HasPrefix(file, "/proc/") {
			return keepOpenFlags(flags)(b.openProcess(n, file, openFlags))
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
		fd, err := b.openOnce(n, dir, last, flags, openFlags, mode)
		if err == unix.EEXIST && flags&unix.O_EXCL == 0 {
			continue // another process was faster: the file exists now
		}
		if err != unix.ELOOP || flags&unix.O_NOFOLLOW != 0 {
			return keepOpenFlags(flags)(fd, err)
		}
		link, err := b.openNameInDir(dir, last)
		if err != nil {
			return -1, err
		}
		var isLink bool
		file, isLink = link.resolveLink(file)
		link.close()
		if !isLink {
			continue
		}
		if strings.HasPrefix(file, "/proc/") || strings.HasPrefix(file, "/dev/") {
			flags &^= unix.O_CREAT // no files are made there
		}
	}
	return -1, unix.ELOOP
}

// openOnce opens the file with a name, or makes it.
func (b *Sandbox) openOnce(n *seccompNotif, dir, last string, flags, openFlags int, mode uint32) (int, error) {
	s, err := b.openNameInDir(dir, last)
	if err != nil {
		return -1, err
	}
	defer s.close()
	if err := b.checkCreate(s, false); err != nil {
		if s.fileType() == unix.S_IFLNK && !b.isHidden(s.fullPath) {
			return -1, unix.ELOOP // the target is checked instead
		}
		if flags&unix.O_CREAT != 0 && b.isCommondir(s) {
			return b.openCommondir(n, s)
		}
		if b.needsDraft(s, flags) {
			return b.openDraft(n, s, flags, mode)
		}
		return -1, err
	}
	if flags&unix.O_EXCL == 0 || flags&unix.O_CREAT == 0 {
		fd, err := unix.Openat(s.dir, s.name, openFlags|unix.O_NOFOLLOW, 0)
		if err != unix.ENOENT || flags&unix.O_CREAT == 0 {
			if err == nil && flags&unix.O_CREAT != 0 && isDirectory(fd) {
				unix.Close(fd)
				return -1, unix.EISDIR
			}
			if err == nil && flags&writeFlags != 0 && b.isRestricted(s.fullPath) { // a repository was made around it a moment ago
				unix.Close(fd)
				return -1, protectedNameError{path: s.fullPath}
			}
			return fd, err
		}
	}
	if isSetuidMode(mode) {
		return -1, unix.EPERM
	}
	fd := -1
	err = b.createChecked(s, func(s nameInDir) error {
		return b.withUmask(n, func() (err error) {
			fd, err = unix.Openat(s.dir, s.name, openFlags|unix.O_CREAT|unix.O_EXCL, mode&0o7777)
			return err
		})
	})
	if err != nil && fd >= 0 {
		unix.Close(fd)
		fd = -1
	}
	return fd, err
}

// isDirectoryAt reports whether a name in a directory is a directory itself.
func isDirectoryAt(dir int, name string) bool {
	var st unix.Stat_t
	return unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR
}

func isDirectory(fd int) bool {
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR
}

// keepOpenFlags sets the flags of a descriptor that its program asked for.
func keepOpenFlags(flags int) func(int, error) (int, error) {
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

// deliverDescriptor gives a program a descriptor as the result of its call, and closes it here.
func (b *Sandbox) deliverDescriptor(n *seccompNotif, fd int, closeOnExec bool) error {
	defer unix.Close(fd)
	a := notifAddFD{ID: n.ID, Flags: addFDFlagSend, From: uint32(fd)}
	if closeOnExec {
		a.NewFlags = unix.O_CLOEXEC
	}
	return callIoctl(b.notifyFD, ioctlNotifAddFD, unsafe.Pointer(&a))
}

// addProtected adds names that must not be made, and mounts that must stay where they are.
func (b *Sandbox) addProtected(absent []Path, mounts []Mount) {
	b.protectMu.Lock()
	defer b.protectMu.Unlock()
	if b.protectedPaths == nil {
		b.protectedPaths, b.protectedLastNames, b.protectedParents = map[string]bool{}, map[string]bool{}, map[string]bool{}
		b.mountKinds, b.mountNames = map[string]MountKind{}, map[string]bool{}
	}
	for _, p := range mounts {
		b.mountKinds[string(p.Path)] = p.Kind
		b.mountNames[path.Base(string(p.Path))] = true
	}
	for _, p := range absent {
		full := foldPath(string(p))
		b.protectedPaths[full] = true
		b.protectedLastNames[path.Base(full)] = true
		for above := path.Dir(full); above != "/"; above = path.Dir(above) {
			b.protectedParents[above] = true
		}
	}
}

// A protectedNameError reports that a name must not be made or changed.
type protectedNameError struct {
	path    string
	setting string // the git setting, if the path is a git config file
}

func (k protectedNameError) Error() string { return k.path + " must not be made or changed" }

// checkCreatePath returns a protectedNameError if a name must not be made. A directory that would
// hold a protected name may be made, but not moved there with content.
func (b *Sandbox) checkCreatePath(s nameInDir, moving bool) error {
	if b.isRestricted(s.fullPath) || b.mustBeEmpty(s.fullPath, moving) {
		return protectedNameError{path: s.fullPath}
	}
	b.protectMu.RLock()
	defer b.protectMu.RUnlock()
	if !moving && !b.protectedLastNames[foldPath(s.name)] {
		return nil
	}
	if folded := foldPath(s.fullPath); b.protectedPaths[folded] || moving && b.protectedParents[folded] {
		return protectedNameError{path: s.fullPath}
	}
	return nil
}

// runUnprivileged runs f on a thread without rights, which ends with it. If the thread cannot drop
// its rights, f gets the error.
func (b *Sandbox) runUnprivileged(f func(error)) {
	go func() {
		runtime.LockOSThread()
		f(b.dropEffectiveRights())
	}()
}
