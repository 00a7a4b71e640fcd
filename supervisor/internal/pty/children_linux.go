package pty

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/turnstone-repl/turnstone/supervisor/internal/procinfo"
	"golang.org/x/sys/unix"
)

// maxThreads bounds the threads of a worker whose files a ChildWatch keeps open, two
// descriptors each. A worker with more threads always needs the full search of FindReaders.
const maxThreads = 16

// A ChildWatch checks, in a few microseconds, whether anything but the worker's main thread
// could be reading the terminal. That may be a child of the worker, an orphan adopted by the
// monitor, or another thread. It keeps files of /proc open. An open file stays bound to its process
// or thread, even if the number is reused. The files are bare descriptors because each is
// read before every turn, in one system call.
type ChildWatch struct {
	mu         sync.Mutex // held while files are read, so that none is closed in the meantime
	closed     bool       // nothing is opened any more; guarded by mu, like everything below
	opened     bool
	isComplete bool // all files are open

	tasks   int // a directory with a link for each thread of the worker
	threads []threadFiles

	// Files that list the children of the monitor. siblings lists those of the thread that started
	// the worker, which has no other child. orphans lists those of the main thread, to which the
	// kernel gives orphans; it is -1 if both are the same thread.
	siblings, orphans int
	sameThread        bool
}

// A threadFiles holds open files of /proc for one thread of the worker.
type threadFiles struct {
	childrenFD int
	syscallFD  int // its current system call; -1 for the main thread, which waits for frames
}

func (c *ChildWatch) openLocked(pid int) {
	c.opened = true
	c.tasks, c.siblings, c.orphans = -1, -1, -1
	monitor := procinfo.ParentPID(pid)
	for _, tid := range procinfo.ThreadIDs(monitor) {
		name := childrenFile(monitor, tid)
		if b, err := os.ReadFile(name); err == nil && slices.Contains(strings.Fields(string(b)), strconv.Itoa(pid)) {
			c.siblings = openProc(name)
			c.sameThread = tid == strconv.Itoa(monitor)
		}
	}
	if !c.sameThread {
		c.orphans = openProc(childrenFile(monitor, strconv.Itoa(monitor)))
	}
	c.tasks = openProc(fmt.Sprintf("/proc/%d/task", pid))
	c.isComplete = c.tasks >= 0 && c.siblings >= 0 && (c.sameThread || c.orphans >= 0)
}

// openThreadsLocked opens the files of all threads that exist now.
func (c *ChildWatch) openThreadsLocked(pid int) (ok bool) {
	c.closeThreadsLocked()
	tids := procinfo.ThreadIDs(pid)
	if len(tids) > maxThreads {
		return false
	}
	ok = true
	for _, tid := range tids {
		t := threadFiles{childrenFD: openProc(childrenFile(pid, tid)), syscallFD: -1}
		isMain := tid == strconv.Itoa(pid)
		if !isMain {
			t.syscallFD = openProc(fmt.Sprintf("/proc/%d/task/%s/syscall", pid, tid))
		}
		c.threads = append(c.threads, t)
		ok = ok && t.childrenFD >= 0 && (isMain || t.syscallFD >= 0)
	}
	return ok
}

func (c *ChildWatch) closeThreadsLocked() {
	for _, t := range c.threads {
		closeProc(t.childrenFD)
		closeProc(t.syscallFD)
	}
	c.threads = nil
}

// openProc returns -1 for a file that cannot be opened.
func openProc(name string) int {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1
	}
	return fd
}

func closeProc(fd int) {
	if fd >= 0 {
		_ = unix.Close(fd)
	}
}

func childrenFile(pid int, tid string) string {
	return fmt.Sprintf("/proc/%d/task/%s/children", pid, tid)
}

// countChildren counts the processes in a "children" file; 2 means two or more. A thread
// that has ended has none.
func countChildren(fd int) int {
	var b [24]byte
	n, _ := unix.Pread(fd, b[:], 0)
	return min(2, bytes.Count(b[:max(n, 0)], []byte{' '})) // one after each number
}

// HasNoOtherReader reports whether nothing but the main thread of a worker can be reading its terminal.
func (c *ChildWatch) HasNoOtherReader(pid int, t *Terminal) bool {
	openWatches.markUsed(c)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		openWatches.removeWatch(c)
		return false
	}
	if !c.opened {
		c.openLocked(pid)
	}
	if !c.isComplete || countChildren(c.siblings) != 1 || !c.sameThread && countChildren(c.orphans) > 0 {
		return false
	}
	var st unix.Stat_t
	if unix.Fstat(c.tasks, &st) != nil {
		return false
	}
	if int(st.Nlink) != len(c.threads)+2 && !c.openThreadsLocked(pid) { // with "." and ".."
		c.closeThreadsLocked()
		return false
	}
	for _, thread := range c.threads {
		quiet, alive := thread.checkQuiet(pid, t)
		if !alive {
			c.closeThreadsLocked() // a new thread may have taken its place
		}
		if !quiet {
			return false
		}
	}
	return true
}

// checkQuiet reports whether the thread is quiet: it certainly has no children and does not
// wait for the terminal. A thread that has ended is neither quiet nor alive.
func (t threadFiles) checkQuiet(pid int, terminal *Terminal) (quiet, alive bool) {
	if countChildren(t.childrenFD) > 0 {
		return false, true
	}
	if t.syscallFD < 0 {
		return true, true
	}
	var b [192]byte // a number and eight addresses
	n, err := unix.Pread(t.syscallFD, b[:], 0)
	p, ok := terminal.tty.(*Master)
	if err != nil || !ok {
		return false, false
	}
	call, blocked := parseBlockedCall(string(b[:n]))
	if !blocked || inputCalls[call.number] == noCall {
		return true, true
	}
	modes, err := p.currentModes()
	return err == nil && p.inputWaitOf(pid, call, modes) == noWait, true
}

// Close closes the files permanently.
func (c *ChildWatch) Close() {
	openWatches.removeWatch(c)
	c.closeFiles()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
}

// closeFiles closes the files until they are needed again.
func (c *ChildWatch) closeFiles() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.opened {
		c.closeThreadsLocked()
		closeProc(c.tasks)
		closeProc(c.siblings)
		closeProc(c.orphans)
	}
	c.opened, c.isComplete, c.sameThread = false, false, false
}

// maxOpenWatches bounds the ChildWatches with open files, usually three descriptors each. The most
// recently used ones stay open; opening one takes tens of microseconds.
const maxOpenWatches = 64

// openWatches lists the ChildWatches with open files. The bound is for the process, and so is this variable.
var openWatches openWatchList

// An openWatchList is ordered by last use, the most recent at its end.
type openWatchList struct {
	mu   sync.Mutex
	list []*ChildWatch // guarded by mu
}

// markUsed moves c to the end, and closes the files of the first entry if there are too many.
func (l *openWatchList) markUsed(c *ChildWatch) {
	var first *ChildWatch
	l.mu.Lock()
	switch i := slices.Index(l.list, c); {
	case i >= 0:
		copy(l.list[i:], l.list[i+1:])
		l.list[len(l.list)-1] = c
	case len(l.list) < maxOpenWatches:
		l.list = append(l.list, c)
	default:
		first = l.list[0]
		copy(l.list, l.list[1:])
		l.list[len(l.list)-1] = c
	}
	l.mu.Unlock()
	if first != nil {
		first.closeFiles()
	}
}

func (l *openWatchList) removeWatch(c *ChildWatch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.list, c); i >= 0 {
		l.list = slices.Delete(l.list, i, i+1)
	}
}
