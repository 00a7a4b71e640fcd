package host

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// company tells, in a few microseconds, whether a worker has children or more
// than one thread, or its stage has taken in orphans. Its files stay open; they
// are about these processes for ever, whoever gets their numbers later.
type company struct {
	once     sync.Once
	children *os.File // of the worker's main thread
	tasks    *os.File // a directory with a link for each thread of the worker

	// The children of the stage: of the thread that started the worker, which has
	// no other, and of its main thread, which the kernel gives orphans to.
	siblings, orphans *os.File
}

func (c *company) open(pid int) {
	c.children, _ = os.Open(childrenFile(pid))
	c.tasks, _ = os.Open(fmt.Sprintf("/proc/%d/task", pid))
	stage := parentOf(pid)
	for _, thread := range threads(stage) {
		name := fmt.Sprintf("/proc/%d/task/%s/children", stage, thread)
		if b, err := os.ReadFile(name); err == nil && slices.Contains(strings.Fields(string(b)), strconv.Itoa(pid)) {
			c.siblings, _ = os.Open(name)
			c.orphans, _ = os.Open(childrenFile(stage))
		}
	}
}

func childrenFile(pid int) string { return fmt.Sprintf("/proc/%d/task/%d/children", pid, pid) }

// children is how many processes a file of them names; two stand for more.
func children(f *os.File) int {
	var b [24]byte
	n, _ := f.ReadAt(b[:], 0)
	return len(bytes.Fields(b[:n]))
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

func (c *company) alone(pid int) bool {
	c.once.Do(func() { c.open(pid) })
	if c.children == nil || c.tasks == nil || c.siblings == nil || c.orphans == nil {
		return false // unknown
	}
	if children(c.children) > 0 || children(c.siblings) != 1 {
		return false
	}
	if c.siblings.Name() != c.orphans.Name() && children(c.orphans) > 0 {
		return false
	}
	info, err := c.tasks.Stat()
	if err != nil {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Nlink == 3 // ".", ".." and the one thread
}

func (c *company) close() {
	c.once.Do(func() {}) // never opened: and never will be
	for _, f := range []*os.File{c.children, c.siblings, c.orphans, c.tasks} {
		if f != nil {
			_ = f.Close()
		}
	}
}
