package host

import (
	"bytes"
	"fmt"
	"os"
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
	siblings *os.File // the children of the stage, which are the worker and orphans
	tasks    *os.File // a directory with a link for each thread of the worker
}

func (c *company) open(pid int) {
	c.children, _ = os.Open(childrenFile(pid))
	c.tasks, _ = os.Open(fmt.Sprintf("/proc/%d/task", pid))
	if stage := parentOf(pid); stage > 0 {
		c.siblings, _ = os.Open(childrenFile(stage))
	}
}

func childrenFile(pid int) string { return fmt.Sprintf("/proc/%d/task/%d/children", pid, pid) }

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
	if c.children == nil || c.tasks == nil || c.siblings == nil {
		return false // unknown
	}
	var b [24]byte // more than one number
	if n, _ := c.children.ReadAt(b[:], 0); n > 0 {
		return false
	}
	if n, _ := c.siblings.ReadAt(b[:], 0); len(bytes.Fields(b[:n])) != 1 {
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
	for _, f := range []*os.File{c.children, c.siblings, c.tasks} {
		if f != nil {
			_ = f.Close()
		}
	}
}
