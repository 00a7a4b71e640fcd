package confine

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A mount over something that is hidden ends when a program outside replaces it, as editors do when they
// save. In a home directory that is built the session sees the names beside it alone. Elsewhere, the stage
// makes all opens to read as well, of a session that has something hidden there, and decides by what the
// name means then.

// closeMore adds paths that the session cannot open.
func (b *Box) closeMore(paths []Path) {
	b.keep(paths, nil) // nor make, move or remove
	b.keeping.Lock()
	defer b.keeping.Unlock()
	for _, p := range paths {
		if as := folded(string(p)); !slices.Contains(b.closed, as) {
			b.closed = append(b.closed, as)
		}
	}
}

// closes reports whether the session cannot open a path without links. The path of a file that was removed
// while it was open ends with a word of the kernel's.
func (b *Box) closes(full string) bool {
	b.keeping.RLock()
	defer b.keeping.RUnlock()
	return b.isClosed(full)
}

// isClosed is closes for who has keeping.
func (b *Box) isClosed(full string) bool {
	full = folded(strings.TrimSuffix(full, " (deleted)"))
	return slices.ContainsFunc(b.closed, func(c string) bool { return inside(full, c) })
}

// opensToRead reports whether a call opens a file without changing anything.
func (f *fileCall) opensToRead(n *notification) bool {
	return f.flags >= 0 && n.Data.Args[f.flags]&writes == 0
}

// openToRead opens a file in a program's place. It never waits: a pipe without a writer is left to
// openPipe.
func (b *Box) openToRead(n *notification, file string, flags int) (int, error) {
	found, err := b.find(n, file, flags)
	if err != nil {
		return -1, err
	}
	defer unix.Close(found)
	if flags&unix.O_NONBLOCK == 0 && waitsForWriter(found) {
		return -1, unix.ENXIO
	}
	return opened(flags)(unix.Open(ownFile(found), readFlags(flags), 0))
}

func readFlags(flags int) int {
	return flags&^unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_NOCTTY | unix.O_NONBLOCK
}

// openPipe opens a pipe and waits for a writer, as the kernel does.
func (b *Box) openPipe(n *notification, file string, flags int) (int, error) {
	found, err := b.find(n, file, flags)
	if err != nil {
		return -1, err
	}
	defer unix.Close(found)
	fd, err := unix.Open(ownFile(found), readFlags(flags), 0)
	if err != nil {
		return -1, err
	}
	for !hasWriter(fd) {
		if !b.isHere(n.ID) {
			unix.Close(fd)
			return -1, unix.EINTR
		}
		time.Sleep(readerPause)
	}
	return opened(flags)(fd, nil)
}

// waitsForWriter reports whether an open of a file would wait for its other end: a pipe with a name.
func waitsForWriter(fd int) bool {
	var st unix.Stat_t
	var fs unix.Statfs_t
	return unix.Fstat(fd, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFIFO && unix.Fstatfs(fd, &fs) == nil && fs.Type != unix.PIPEFS_MAGIC
}

// hasWriter reports whether an open pipe has a writer, or had one since it was opened. A copy of what is in
// it says so, and takes nothing out.
func hasWriter(fd int) bool {
	var other [2]int
	if unix.Pipe2(other[:], unix.O_CLOEXEC|unix.O_NONBLOCK) != nil {
		return true // it is then open without one
	}
	defer unix.Close(other[0])
	defer unix.Close(other[1])
	if k, err := unix.Tee(fd, other[1], 1, unix.SPLICE_F_NONBLOCK); k != 0 || err != nil {
		return true
	}
	look := []unix.PollFd{{Fd: int32(fd)}}
	k, err := unix.Poll(look, 0)
	return err != nil || k > 0 // it has gone
}

// find opens the path of what an open names, if the session may see that.
func (b *Box) find(n *notification, file string, flags int) (int, error) {
	for range mostLinks {
		fd, onward, err := b.lookOnce(n, file, flags)
		if err != nil {
			return -1, err
		}
		if onward != "" {
			file = onward
			continue
		}
		full, err := b.realPath(fd)
		if err == nil && b.closes(full) {
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

// lookOnce opens a path, or returns the one to which it leads: by a link, or by a name in /proc.
func (b *Box) lookOnce(n *notification, file string, flags int) (fd int, onward string, err error) {
	if fd, err := b.openFile(n, file); err != unix.ENOENT {
		return fd, "", err
	}
	if strings.HasPrefix(file, "/proc/") {
		return b.lookProcess(n, file)
	}
	if path.Clean(file) == "/dev/tty" {
		if file, err = b.terminalOf(int(n.PID)); err != nil {
			return -1, "", err
		}
	}
	if fd, err = b.lookAt(append([]byte(file), 0), unix.O_NOFOLLOW); err != nil {
		return -1, "", err
	}
	keep := false
	defer func() {
		if !keep {
			unix.Close(fd)
		}
	}()
	full, err := b.realPath(fd)
	if err != nil {
		return -1, "", err
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil || fs.Type == unix.PROC_SUPER_MAGIC && full != "/proc" {
		return -1, "", unix.EACCES // it would be the stage's own
	}
	switch {
	case kindOf(fd) != unix.S_IFLNK:
		keep = true
		return fd, "", nil
	case flags&unix.O_NOFOLLOW != 0:
		return -1, "", unix.ELOOP
	case b.closes(full):
		return -1, "", unix.EACCES
	}
	onward, err = linkIn(path.Dir(full), fd)
	return -1, onward, err
}

func kindOf(fd int) uint32 {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return 0
	}
	return st.Mode & unix.S_IFMT
}

// linkIn returns where an open link leads that is in a directory without links.
func linkIn(dir string, link int) (string, error) {
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

// ofStage are the files of the stage's own process that a session reads: lists of processes have them.
var ofStage = []string{"stat", "status", "statm", "cmdline", "comm", "cgroup"}

// lookProcess opens the path of a file of /proc by the session's own. Names in it that stand for another
// file lead onward.
func (b *Box) lookProcess(n *notification, file string) (fd int, onward string, err error) {
	leader, err := b.leader(int(n.PID))
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
	process := b.proc
	if pid, e := strconv.Atoi(first); e != nil {
		rest = path.Join(first, rest)
	} else {
		if process, err = unix.Openat(b.proc, first, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
			return -1, "", err
		}
		defer unix.Close(process)
		if of, err := processOf(process); err != nil || of == 1 && !(pid == 1 && (rest == "" || slices.Contains(ofStage, rest))) {
			return -1, "", unix.EACCES // a thread of the stage has a number, too
		}
		if fd, onward, err = b.leads(n, process, pid, rest); fd >= 0 || onward != "" || err != nil {
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

// leads returns what a name in the directory of a process stands for: an open file of it, or the path of
// another file.
func (b *Box) leads(n *notification, process, pid int, name string) (fd int, onward string, err error) {
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
