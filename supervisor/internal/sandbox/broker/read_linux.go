package broker

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/linkpath"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/workerview"
)

// A mount over a hidden file ends when a program outside replaces the file, as editors do when they
// save. In a built home directory the session sees only the other names. Elsewhere, if a session
// has hidden files, the monitor also opens files for reading on its behalf. It decides by what each
// name means at that time.

// openToRead opens a file on behalf of a program. It never waits: a pipe without a writer is left
// to openPipe.
func (b *Broker) openToRead(n *seccompNotif, file string, flags int) (int, error) {
	found, err := b.openVisible(n, file, flags)
	if err != nil {
		return -1, err
	}
	defer unix.Close(found)
	if flags&unix.O_NONBLOCK == 0 && waitsForWriter(found) {
		return -1, unix.ENXIO
	}
	return keepOpenFlags(flags)(unix.Open(workerview.SelfFDPath(found), readFlags(flags), 0))
}

func readFlags(flags int) int {
	return flags&^unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_NOCTTY | unix.O_NONBLOCK
}

// openPipe opens a pipe and waits for a writer, as the kernel does.
func (b *Broker) openPipe(n *seccompNotif, file string, flags int) (int, error) {
	found, err := b.openVisible(n, file, flags)
	if err != nil {
		return -1, err
	}
	defer unix.Close(found)
	fd, err := unix.Open(workerview.SelfFDPath(found), readFlags(flags), 0)
	if err != nil {
		return -1, err
	}
	for !hasWriter(fd) {
		if !b.IsPending(n.ID) {
			unix.Close(fd)
			return -1, unix.EINTR
		}
		time.Sleep(readerPollInterval)
	}
	return keepOpenFlags(flags)(fd, nil)
}

// waitsForWriter reports whether an open of a file for reading would wait: the file is a named
// pipe.
func waitsForWriter(fd int) bool {
	var st unix.Stat_t
	var fs unix.Statfs_t
	return unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFIFO && unix.Fstatfs(fd, &fs) == nil && fs.Type != unix.PIPEFS_MAGIC
}

// hasWriter reports whether an open pipe has a writer, or had one since it was opened. A tee of its
// content shows that without consuming anything.
func hasWriter(fd int) bool {
	var other [2]int
	if unix.Pipe2(other[:], unix.O_CLOEXEC|unix.O_NONBLOCK) != nil {
		return true // cannot tell, so do not wait
	}
	defer unix.Close(other[0])
	defer unix.Close(other[1])
	if k, err := unix.Tee(fd, other[1], 1, unix.SPLICE_F_NONBLOCK); k != 0 || err != nil {
		return true
	}
	polled := []unix.PollFd{{Fd: int32(fd)}}
	k, err := unix.Poll(polled, 0)
	return err != nil || k > 0 // the writer was there and has closed the pipe
}

// openVisible opens the path of a file with O_PATH, if the session may see the file.
func (b *Broker) openVisible(n *seccompNotif, file string, flags int) (int, error) {
	for range linkpath.MaxLinks {
		fd, onward, err := b.openPathOnce(n, file, flags)
		if err != nil {
			return -1, err
		}
		if onward != "" {
			file = onward
			continue
		}
		full, err := b.RealPath(fd)
		if err == nil && b.IsHidden(full) {
			err = unix.EACCES
		}
		if err != nil {
			unix.Close(fd)
			return -1, err
		}
		return fd, nil
	}
	return -1, unix.ELOOP
}

// openPathOnce opens a path, or returns the path to which a link or a name in /proc leads.
func (b *Broker) openPathOnce(n *seccompNotif, file string, flags int) (fd int, onward string, err error) {
	if fd, err := b.openFile(n, file); err != unix.ENOENT {
		return fd, "", err
	}
	if strings.HasPrefix(file, "/proc/") {
		return b.openProcPath(n, file)
	}
	if path.Clean(file) == "/dev/tty" {
		if file, err = b.terminalOf(int(n.PID)); err != nil {
			return -1, "", err
		}
	}
	if fd, err = b.OpenPathWith(append([]byte(file), 0), unix.O_NOFOLLOW); err != nil {
		return -1, "", err
	}
	keep := false
	defer func() {
		if !keep {
			unix.Close(fd)
		}
	}()
	full, err := b.RealPath(fd)
	if err != nil {
		return -1, "", err
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil || fs.Type == unix.PROC_SUPER_MAGIC && full != "/proc" {
		return -1, "", unix.EACCES // it would be the monitor's own /proc
	}
	switch {
	case fileTypeOf(fd) != unix.S_IFLNK:
		keep = true
		return fd, "", nil
	case flags&unix.O_NOFOLLOW != 0:
		return -1, "", unix.ELOOP
	case b.IsHidden(full):
		return -1, "", unix.EACCES
	}
	onward, err = readLinkIn(path.Dir(full), fd)
	return -1, onward, err
}

func fileTypeOf(fd int) uint32 {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return 0
	}
	return st.Mode & unix.S_IFMT
}

// readLinkIn returns the target of an open link in a directory without links.
func readLinkIn(dir string, link int) (string, error) {
	var text [unix.PathMax]byte
	k, err := unix.Readlinkat(link, "", text[:])
	if err != nil {
		return "", err
	}
	to := string(text[:k])
	if strings.HasPrefix(to, "/") {
		return to, nil
	}
	for { // such as ../proc/self/mounts
		rest, up := strings.CutPrefix(to, "../")
		if !up {
			return strings.TrimRight(dir, "/") + "/" + to, nil
		}
		dir, to = path.Dir(dir), strings.TrimLeft(rest, "/")
	}
}

// monitorProcFiles are the files in /proc of the monitor's own process that a session may read,
// because process lists need them.
var monitorProcFiles = []string{"stat", "status", "statm", "cmdline", "comm", "cgroup"}

// openProcPath opens the path of a file of /proc with O_PATH, through the session's own /proc. It
// returns the target of a name that stands for another file as onward.
func (b *Broker) openProcPath(n *seccompNotif, file string) (fd int, onward string, err error) {
	leader, err := b.ThreadGroupID(int(n.PID))
	if err != nil {
		return -1, "", err
	}
	first, rest, _ := strings.Cut(strings.TrimPrefix(path.Clean(file), "/proc/"), "/")
	own := strconv.Itoa(leader)
	switch first {
	case "self":
		first = own
	case "thread-self":
		first, rest = own, path.Join("task", strconv.Itoa(int(n.PID)), rest)
	case "mounts", "net":
		first, rest = own, path.Join(first, rest)
	}
	process := b.ProcFD
	if pid, atoiErr := strconv.Atoi(first); atoiErr != nil {
		rest = path.Join(first, rest)
	} else {
		if process, err = unix.Openat(b.ProcFD, first, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
			return -1, "", err
		}
		defer unix.Close(process)
		if of, err := processOf(process); err != nil || of == 1 && !(pid == 1 && (rest == "" || slices.Contains(monitorProcFiles, rest))) {
			return -1, "", unix.EACCES // the pid may be a thread of the monitor
		}
		if fd, onward, err = b.resolveProcName(n, process, pid, rest); fd >= 0 || onward != "" || err != nil {
			return fd, onward, err
		}
	}
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS}
	fd, err = unix.Openat2(process, path.Join(".", rest), &how)
	if err == unix.EXDEV || err == unix.ELOOP {
		err = unix.EACCES
	}
	return fd, "", err
}

// resolveProcName returns what a name in the directory of a process stands for: an open file of the
// process, or the path of another file.
func (b *Broker) resolveProcName(n *seccompNotif, process, pid int, name string) (fd int, onward string, err error) {
	parts := strings.Split(name, "/")
	at := 0
	if parts[0] == "task" && len(parts) > 2 {
		at = 2
	}
	switch parts[at] {
	case "cwd", "root", "exe":
		at++
	case "fd":
		if len(parts) == at+2 {
			number, err := strconv.Atoi(parts[at+1])
			if err != nil {
				return -1, "", unix.ENOENT
			}
			if fd, err = b.openCopy(n, pid, number); err == unix.EBADF {
				err = unix.ENOENT
			}
			return fd, "", err
		}
		at += 2
	default:
		return -1, "", nil
	}
	if at > len(parts) {
		return -1, "", nil // the directory fd
	}
	var text [unix.PathMax]byte
	k, err := unix.Readlinkat(process, path.Join(parts[:at]...), text[:])
	if err != nil {
		return -1, "", err
	}
	return -1, path.Join("/", string(text[:k]), path.Join(parts[at:]...)), nil
}
