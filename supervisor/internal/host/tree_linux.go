package host

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// members is every descendant of root, zombies included; root adopts orphans,
// so nothing escapes from there.
func (t tree) members() []int {
	var pids []int
	walk(t.root, func(pid int, _ string) {
		if pid != t.root && (len(pids) == 0 || pids[len(pids)-1] != pid) {
			pids = append(pids, pid)
		}
	})
	return pids
}

// memory is the resident set of the tree in bytes, without root.
func (t tree) memory() int64 {
	var pages int64
	for _, pid := range t.members() {
		pages += residentPages(pid)
	}
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

// walk visits every thread of root and of its descendants, each process's
// threads in a row. A kernel without /proc/<pid>/task/<tid>/children shows
// them in the process table only.
func walk(root int, visit func(pid int, tid string)) {
	if unix.Access("/proc/thread-self/children", unix.F_OK) != nil {
		walkTable(root, visit)
		return
	}
	for pids := []int{root}; len(pids) > 0; {
		pid := pids[len(pids)-1]
		pids = pids[:len(pids)-1]
		for _, tid := range threads(pid) {
			visit(pid, tid)
			for c := range strings.FieldsSeq(readProc(pid, "task/"+tid+"/children")) {
				if n, err := strconv.Atoi(c); err == nil {
					pids = append(pids, n)
				}
			}
		}
	}
}

func walkTable(root int, visit func(pid int, tid string)) {
	table := processTable()
	pids := []int{root}
	for i := 0; i < len(pids); i++ {
		for _, tid := range threads(pids[i]) {
			visit(pids[i], tid)
		}
		for _, p := range table {
			if p.parent == pids[i] && !slices.Contains(pids, p.pid) {
				pids = append(pids, p.pid)
			}
		}
	}
}

// threads is the names of the threads of a process; none when it is gone.
func threads(pid int) []string {
	d, err := os.Open("/proc/" + strconv.Itoa(pid) + "/task")
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	return names
}

func processTable() []process {
	d, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	var table []process
	for _, n := range names {
		pid, err := strconv.Atoi(n)
		if err != nil {
			continue
		}
		if f := statFields(readProc(pid, "stat")); f != nil {
			table = append(table, process{
				pid:     pid,
				parent:  atoi(f[statParent]),
				session: atoi(f[statSession]),
				zombie:  f[statState] == "Z" || f[statState] == "X",
			})
		}
	}
	return table
}

// Fields of /proc/<pid>/stat behind the name, which may contain anything.
const (
	statState    = 0
	statParent   = 1
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

// readProc is the text of a file of a process, "" when it cannot be read. It
// bypasses os.File, which would offer every file to the poller first.
func readProc(pid int, name string) string {
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/"+name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
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

func atoi(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}
