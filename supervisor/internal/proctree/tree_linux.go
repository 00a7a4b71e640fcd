package proctree

import (
	"os"
	"strconv"
	"strings"

	"github.com/turnstone-repl/turnstone/supervisor/internal/procinfo"
	"golang.org/x/sys/unix"
)

// VisitMembers visits every descendant of root, parents first, zombies included. Nothing
// escapes, because root adopts orphans.
func (t ProcessTree) VisitMembers(visit func(pid, group int)) {
	last := t.Root
	procinfo.VisitThreads(t.Root, func(pid int, _ string) {
		if pid == last {
			return // another thread
		}
		last = pid
		group, err := unix.Getpgid(pid)
		if err != nil {
			group = 0
		}
		visit(pid, group)
	})
}

// ResidentMemory returns the resident set of the tree in bytes, without root.
func (t ProcessTree) ResidentMemory() int64 {
	var pages int64
	t.VisitMembers(func(pid, _ int) { pages += residentPages(pid) })
	return pages * int64(os.Getpagesize())
}

func residentPages(pid int) int64 {
	f := strings.Fields(procinfo.ReadProc(pid, "statm"))
	if len(f) < 2 {
		return 0
	}
	n, _ := strconv.ParseInt(f[1], 10, 64)
	return n
}
