package procinfo

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// maxVisitedProcesses bounds the processes of one walk. Without it, a walk could follow
// processes that only fork, without end.
const maxVisitedProcesses = 10_000

// VisitThreads visits every thread of root and of its descendants, all threads of one process
// in a row. On a kernel without /proc/<pid>/task/<tid>/children it uses the process
// table.
func VisitThreads(root int, visit func(pid int, tid string)) {
	if unix.Access("/proc/thread-self/children", unix.F_OK) != nil {
		visitThreadsByTable(root, visit)
		return
	}
	pids := []int{root}
	for i := 0; i < len(pids) && i < maxVisitedProcesses; i++ {
		pid := pids[i]
		for _, tid := range ThreadIDs(pid) {
			visit(pid, tid)
			for c := range strings.FieldsSeq(ReadProc(pid, "task/"+tid+"/children")) {
				if n, err := strconv.Atoi(c); err == nil {
					pids = append(pids, n)
				}
			}
		}
	}
}

func visitThreadsByTable(root int, visit func(pid int, tid string)) {
	table := ListProcesses()
	pids := []int{root}
	for i := 0; i < len(pids) && i < maxVisitedProcesses; i++ {
		for _, tid := range ThreadIDs(pids[i]) {
			visit(pids[i], tid)
		}
		for _, p := range table {
			if p.Parent == pids[i] && !slices.Contains(pids, p.PID) {
				pids = append(pids, p.PID)
			}
		}
	}
}

// ThreadIDs returns the names of the threads of a process, or nil if it is gone.
func ThreadIDs(pid int) []string {
	d, err := os.Open("/proc/" + strconv.Itoa(pid) + "/task")
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	return names
}

// ListProcesses returns the system's process table, or nil if it cannot be read.
func ListProcesses() []ProcessRow {
	d, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	var table []ProcessRow
	for _, n := range names {
		pid, err := strconv.Atoi(n)
		if err != nil {
			continue
		}
		if f := ParseStat(ReadProc(pid, "stat")); f != nil {
			table = append(table, ProcessRow{
				PID:     pid,
				Parent:  ParseInt(f[statParent]),
				Group:   ParseInt(f[StatGroup]),
				Session: ParseInt(f[statSession]),
				Zombie:  f[StatState] == "Z" || f[StatState] == "X",
			})
		}
	}
	return table
}

// Indexes into the fields that ParseStat returns.
const (
	StatState    = 0
	statParent   = 1
	StatGroup    = 2
	statSession  = 3
	StatTerminal = 4
	statUser     = 11 // in clock ticks
	statSystem   = 12 // in clock ticks
	StatThreads  = 17
	StatStart    = 19 // in clock ticks since boot
)

// tickTime is the length of a clock tick in /proc, on every architecture (proc_pid_stat(5), USER_HZ).
const tickTime = 10 * time.Millisecond

// CPUTime returns the processor time that a process has used, from its stat fields.
func CPUTime(stat []string) time.Duration {
	return time.Duration(ParseInt(stat[statUser])+ParseInt(stat[statSystem])) * tickTime
}

// ParseStat returns the fields of /proc/<pid>/stat after the name, or nil if some are missing.
func ParseStat(stat string) []string {
	// The name may contain anything.
	f := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(f) <= StatStart {
		return nil
	}
	return f
}

// HasEnvironment reports whether a process was started with this variable.
func HasEnvironment(pid int, variable string) bool {
	env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil {
		return false
	}
	return bytes.Contains(append([]byte{0}, env...), []byte("\x00"+variable+"\x00"))
}

// ReadProc returns the text of a file in /proc/<pid>, or "" if it cannot be read. It does not
// use os.File, which would first register every file with the poller.
func ReadProc(pid int, name string) string {
	return ReadFile("/proc/" + strconv.Itoa(pid) + "/" + name)
}

// ReadFile returns the text of a file of the kernel, or "" if it cannot be read.
func ReadFile(name string) string {
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

// ParseInt returns the number in s, or 0 if s is not a number.
func ParseInt(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}

// ParentPID returns the parent of a process, or 0 for an unknown process.
func ParentPID(pid int) int {
	_, rest, _ := strings.Cut(ReadProc(pid, "stat"), ") ") // the name in parentheses may contain anything
	if fields := strings.Fields(rest); len(fields) > 1 {
		parent, _ := strconv.Atoi(fields[1])
		return parent
	}
	return 0
}

// ParseKilobytes returns the bytes of a value such as "  123 kB".
func ParseKilobytes(value string) int64 {
	n, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
	return n << 10
}
