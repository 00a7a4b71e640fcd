package broker

import (
	"path"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/linkpath"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/nameguard"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/seccomp"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/workerview"
)

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

// openFile returns a copy of the open file that a path in /proc or /dev names. The error is ENOENT
// if the path does not name one.
func (b *Broker) openFile(n *seccompNotif, file string) (int, error) {
	if !strings.HasPrefix(file, "/proc/") && !strings.HasPrefix(file, "/dev/") {
		return -1, unix.ENOENT
	}
	leader, err := b.ThreadGroupID(int(n.PID))
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
func (b *Broker) openCopy(n *seccompNotif, tid, fd int) (int, error) {
	copied, err := b.CopyDescriptorWithRights(tid, fd)
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

// reopenByName closes a descriptor that was opened with O_PATH, and opens the file that has its
// path now. The descriptor itself may refer to a hidden file that has since lost its name, or to a
// file that the session does not see.
func (b *Broker) reopenByName(n *seccompNotif, fd int) (int, error) {
	defer unix.Close(fd)
	full, err := b.RealPath(fd)
	if err != nil {
		return -1, err
	}
	named, onward := -1, ""
	if strings.HasPrefix(full, "/proc/") {
		named, onward, err = b.openProcPath(n, full)
	} else {
		named, err = b.OpenPathWith(append([]byte(full), 0), unix.O_NOFOLLOW)
	}
	if err != nil || onward != "" {
		return -1, unix.EACCES
	}
	return named, nil
}

// openProcess opens a file of a process in /proc, such as oom_score_adj, through the session's own
// /proc. It never opens a file of the monitor.
func (b *Broker) openProcess(n *seccompNotif, file string, flags int) (int, error) {
	leader, err := b.ThreadGroupID(int(n.PID))
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
	dir, err := unix.Openat(b.ProcFD, process, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
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
	text, err := workerview.ReadAt(dir, "status")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(workerview.ValueIn(text, "Tgid:"))
}

// terminalOf returns the path of a thread's controlling terminal, which /dev/tty stands for.
// Processes in the first POSIX session have the terminal of the turnstone session.
func (b *Broker) terminalOf(tid int) (string, error) {
	leader, err := b.ThreadGroupID(tid)
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
func (b *Broker) terminalIn(pid int) (session, terminal int, err error) {
	text, err := workerview.ReadAt(b.ProcFD, strconv.Itoa(pid)+"/stat")
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
func (b *Broker) openUnnamed(n *seccompNotif, dir string, flags int, mode uint32) (int, error) {
	if isSetuidMode(mode) {
		return -1, unix.EPERM
	}
	above, err := b.OpenDir(dir)
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

// truncateFile changes the size of a file.
func (b *Broker) truncateFile(n *seccompNotif, file string, size int64) error {
	fd, err := b.openOrCreate(n, file, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Ftruncate(fd, size)
}

// openOrCreate opens a file that may have to be created. It never waits: its caller tries a pipe
// without a reader again.
func (b *Broker) openOrCreate(n *seccompNotif, file string, flags int, mode uint32) (int, error) {
	switch {
	case flags&unix.O_TMPFILE == unix.O_TMPFILE:
		return b.openUnnamed(n, file, flags, mode)
	case strings.HasSuffix(file, "/"):
		return -1, unix.EISDIR
	case flags&unix.O_DIRECTORY != 0 && flags&unix.O_CREAT != 0:
		return -1, unix.EINVAL
	}
	openFlags := flags&^(unix.O_CREAT|unix.O_EXCL) | unix.O_CLOEXEC | unix.O_NOCTTY | unix.O_NONBLOCK
	for range linkpath.MaxLinks {
		if fd, err := b.openFile(n, file); err != unix.ENOENT {
			if err != nil {
				return -1, err
			}
			defer unix.Close(fd)
			if flags&seccomp.WriteFlags != 0 {
				if err := b.CheckWrite(fd); err != nil {
					return -1, err
				}
			}
			return keepOpenFlags(flags)(unix.Open(workerview.SelfFDPath(fd), openFlags&^unix.O_NOFOLLOW, 0))
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
		link, err := b.OpenNameInDir(dir, last)
		if err != nil {
			return -1, err
		}
		var isLink bool
		file, isLink = link.ResolveLink(file)
		link.Close()
		if !isLink {
			continue
		}
		if strings.HasPrefix(file, "/proc/") || strings.HasPrefix(file, "/dev/") {
			flags &^= unix.O_CREAT // no files are created there
		}
	}
	return -1, unix.ELOOP
}

// openOnce opens the file with a name, or creates it.
func (b *Broker) openOnce(n *seccompNotif, dir, last string, flags, openFlags int, mode uint32) (int, error) {
	s, err := b.OpenNameInDir(dir, last)
	if err != nil {
		return -1, err
	}
	defer s.Close()
	if err := b.CheckCreate(s, false); err != nil {
		if s.FileType() == unix.S_IFLNK && !b.IsHidden(s.FullPath) {
			return -1, unix.ELOOP // the target is checked instead
		}
		if flags&unix.O_CREAT != 0 && b.IsCommondir(s) {
			return b.openCommondir(n, s)
		}
		if b.needsDraft(s, flags) {
			return b.openDraft(n, s, flags, mode)
		}
		return -1, err
	}
	if flags&unix.O_EXCL == 0 || flags&unix.O_CREAT == 0 {
		fd, err := unix.Openat(s.Dir, s.Name, openFlags|unix.O_NOFOLLOW, 0)
		if err != unix.ENOENT || flags&unix.O_CREAT == 0 {
			if err == nil && flags&unix.O_CREAT != 0 && workerview.IsDirectory(fd) {
				unix.Close(fd)
				return -1, unix.EISDIR
			}
			if err == nil && flags&seccomp.WriteFlags != 0 && b.IsRestricted(s.FullPath) { // a repository was created around it a moment ago
				unix.Close(fd)
				return -1, nameguard.ProtectedNameError{Path: s.FullPath}
			}
			return fd, err
		}
	}
	if isSetuidMode(mode) {
		return -1, unix.EPERM
	}
	fd := -1
	err = b.createChecked(s, func(s workerview.NameInDir) error {
		return b.withUmask(n, func() (err error) {
			fd, err = unix.Openat(s.Dir, s.Name, openFlags|unix.O_CREAT|unix.O_EXCL, mode&0o7777)
			return err
		})
	})
	if err != nil && fd >= 0 {
		unix.Close(fd)
		fd = -1
	}
	return fd, err
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
func (b *Broker) deliverDescriptor(n *seccompNotif, fd int, closeOnExec bool) error {
	defer unix.Close(fd)
	a := notifAddFD{ID: n.ID, Flags: addFDFlagSend, From: uint32(fd)}
	if closeOnExec {
		a.NewFlags = unix.O_CLOEXEC
	}
	return callIoctl(b.NotifyFD, ioctlNotifAddFD, unsafe.Pointer(&a))
}

// openCommondir opens the file that leads from a linked work tree to its repository. Only one
// content is valid, so the monitor writes it, and the program gets an unnamed file.
func (b *Broker) openCommondir(n *seccompNotif, s workerview.NameInDir) (int, error) {
	fd := -1
	err := b.withUmask(n, func() (err error) {
		fd, err = unix.Openat(s.Dir, s.Name, unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
		return err
	})
	if err == nil {
		_, err = unix.Write(fd, []byte(nameguard.CommondirText+"\n"))
		unix.Close(fd)
	}
	if err != nil && err != unix.EEXIST {
		return -1, err
	}
	b.RecordCreated(s.FullPath)
	return unix.Openat(s.Dir, ".", unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
}
