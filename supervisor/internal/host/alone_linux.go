package host

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// maxThreads bounds the threads of a worker that company knows, each by two
// descriptors. One that has more is looked at as any program is.
const maxThreads = 16

// company tells, in a few microseconds, whether a worker has children, its stage has
// taken in orphans, or a second thread of it waits for the terminal. Its files stay
// open; they are about these processes and threads for ever, whoever gets their
// numbers later. They are bare descriptors: it is asked before each turn, and each
// look is one system call.
type company struct {
	mu     sync.Mutex // held over a look, so that nothing is closed meanwhile
	opened bool       // guarded by mu, as all that follows; true as well once closed
	known  bool       // all files are open

	tasks   int // a directory with a link for each thread of the worker
	threads []thread

	// The children of the stage: of the thread that started the worker, which has
	// no other, and of its main thread, which the kernel gives orphans to.
	siblings, orphans int
	same              bool // that is one thread
}

// A thread of the worker, as files.
type thread struct {
	children int
	call     int // the system call that it is in; -1 for the main thread, which waits for us
}

func (c *company) openLocked(pid int) {
	c.opened = true
	c.tasks, c.siblings, c.orphans = -1, -1, -1
	stage := parentOf(pid)
	for _, tid := range threads(stage) {
		name := childrenFile(stage, tid)
		if b, err := os.ReadFile(name); err == nil && slices.Contains(strings.Fields(string(b)), strconv.Itoa(pid)) {
			c.siblings = openProc(name)
			c.same = tid == strconv.Itoa(stage)
		}
	}
	c.orphans = openProc(childrenFile(stage, strconv.Itoa(stage)))
	c.tasks = openProc(fmt.Sprintf("/proc/%d/task", pid))
	c.known = c.tasks >= 0 && c.siblings >= 0 && c.orphans >= 0
}

// meetLocked opens the files of the threads that there are now.
func (c *company) meetLocked(pid int) (ok bool) {
	c.leaveLocked()
	tids := threads(pid)
	if len(tids) > maxThreads {
		return false
	}
	ok = true
	for _, tid := range tids {
		t := thread{children: openProc(childrenFile(pid, tid)), call: -1}
		isMain := tid == strconv.Itoa(pid)
		if !isMain {
			t.call = openProc(fmt.Sprintf("/proc/%d/task/%s/syscall", pid, tid))
		}
		c.threads = append(c.threads, t)
		ok = ok && t.children >= 0 && (isMain || t.call >= 0)
	}
	return ok
}

func (c *company) leaveLocked() {
	for _, t := range c.threads {
		closeProc(t.children)
		closeProc(t.call)
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

// children is how many processes a file of them names; two stand for more. A
// thread that is no more has none.
func children(fd int) int {
	var b [24]byte
	n, _ := unix.Pread(fd, b[:], 0)
	return min(2, bytes.Count(b[:max(n, 0)], []byte{' '})) // one behind each number
}

// parentOf is 0 when it cannot be known.
func parentOf(pid int) int {
	_, rest, _ := strings.Cut(readProc(pid, "stat"), ") ") // the name in parentheses may hold anything
	if fields := strings.Fields(rest); len(fields) > 1 {
		parent, _ := strconv.Atoi(fields[1])
		return parent
	}
	return 0
}

func (c *company) alone(pid int, terminal tty) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.opened {
		c.openLocked(pid)
	}
	if !c.known || children(c.siblings) != 1 || !c.same && children(c.orphans) > 0 {
		return false
	}
	var st unix.Stat_t
	if unix.Fstat(c.tasks, &st) != nil {
		return false
	}
	if int(st.Nlink) != len(c.threads)+2 && !c.meetLocked(pid) { // with "." and ".."
		c.leaveLocked()
		return false
	}
	for _, t := range c.threads {
		quiet, alive := t.look(pid, terminal)
		if !alive {
			c.leaveLocked() // another may have come in its place
		}
		if !quiet {
			return false
		}
	}
	return true
}

// look reports whether a thread certainly has no children and does not wait for the
// terminal. It is neither known of one that is gone.
func (t thread) look(pid int, terminal tty) (quiet, alive bool) {
	if children(t.children) > 0 {
		return false, true
	}
	if t.call < 0 {
		return true, true
	}
	var b [192]byte // a number and eight addresses
	n, err := unix.Pread(t.call, b[:], 0)
	p, ok := terminal.(*pseudo)
	if err != nil || !ok {
		return false, false
	}
	call, blocked := parseCall(string(b[:n]))
	return !blocked || !p.waitsHere(pid, call), true
}

func (c *company) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.opened {
		c.leaveLocked()
		closeProc(c.tasks)
		closeProc(c.siblings)
		closeProc(c.orphans)
	}
	c.opened, c.known = true, false // never opened again
}
