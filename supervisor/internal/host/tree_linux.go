package host

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// visitMembers visits every descendant of root, parents first, zombies included. Nothing
// escapes, because root adopts orphans.
func (t processTree) visitMembers(visit func(pid, group int)) {
	last := t.root
	visitThreads(t.root, func(pid int, _ string) {
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

// residentMemory returns the resident set of the tree in bytes, without root.
func (t processTree) residentMemory() int64 {
	var pages int64
	t.visitMembers(func(pid, _ int) { pages += residentPages(pid) })
	return pages * int64(os.Getpagesize())
}

func residentPages(pid int) int64 {
	f := strings.Fields(readProc(pid, "statm"))
	if len(f) < 2 {
		return 0
	}
	n, _ := strconv.ParseInt(f[1], 10, 64)
	return n
}

// maxVisitedProcesses bounds the processes of one walk. Without it, a walk could follow
// processes that only fork, without end.
const maxVisitedProcesses = 10_000

// visitThreads visits every thread of root and of its descendants, all threads of one process
// in a row. On a kernel without /proc/<pid>/task/<tid>/children it uses the process
// table.
func visitThreads(root int, visit func(pid int, tid string)) {
	if unix.Access("/proc/thread-self/children", unix.F_OK) != nil {
		visitThreadsByTable(root, visit)
		return
	}
	pids := []int{root}
	for i := 0; i < len(pids) && i < maxVisitedProcesses; i++ {
		pid := pids[i]
		for _, tid := range threadIDs(pid) {
			visit(pid, tid)
			for c := range strings.FieldsSeq(readProc(pid, "task/"+tid+"/children")) {
				if n, err := strconv.Atoi(c); err == nil {
					pids = append(pids, n)
				}
			}
		}
	}
}

func visitThreadsByTable(root int, visit func(pid int, tid string)) {
	table := processTable()
	pids := []int{root}
	for i := 0; i < len(pids) && i < maxVisitedProcesses; i++ {
		for _, tid := range threadIDs(pids[i]) {
			visit(pids[i], tid)
		}
		for _, p := range table {
			if p.parent == pids[i] && !slices.Contains(pids, p.pid) {
				pids = append(pids, p.pid)
			}
		}
	}
}

// threadIDs returns the names of the threads of a process, or nil if it is gone.
func threadIDs(pid int) []string {
	d, err := os.Open("/proc/" + strconv.Itoa(pid) + "/task")
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	return names
}

func processTable() []processRow {
	d, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	var table []processRow
	for _, n := range names {
		pid, err := strconv.Atoi(n)
		if err != nil {
			continue
		}
		if f := statFields(readProc(pid, "stat")); f != nil {
			table = append(table, processRow{
				pid:     pid,
				parent:  parseInt(f[statParent]),
				group:   parseInt(f[statGroup]),
				session: parseInt(f[statSession]),
				zombie:  f[statState] == "Z" || f[statState] == "X",
			})
		}
	}
	return table
}

// Fields of /proc/<pid>/stat after the name, which may contain anything.
const (
	statState    = 0
	statParent   = 1
	statGroup    = 2
	statSession  = 3
	statTerminal = 4
	statStart    = 19 // in clock ticks since boot
)

func statFields(stat string) []string {
	f := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(f) <= statStart {
		return nil
	}
	return f
}

// hasEnvironment reports whether a process was started with this variable.
func hasEnvironment(pid int, variable string) bool {
	env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false
	}
	return bytes.Contains(append([]byte{0}, env...), []byte("\x00"+variable+"\x00"))
}

// readProc returns the text of a file in /proc/<pid>, or "" if it cannot be read. It does not
// use os.File, which would first register every file with the poller.
func readProc(pid int, name string) string {
	return readFile("/proc/" + strconv.Itoa(pid) + "/" + name)
}

func readFile(name string) string {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	var text []byte
	var buf [2048]byte
	for {
		n, err := unix.Read(fd, buf[:])
		if err == unix.EINTR {
			continue
		}
		if n <= 0 {
			return string(text)
		}
		text = append(text, buf[:n]...)
	}
}

func parseInt(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}
