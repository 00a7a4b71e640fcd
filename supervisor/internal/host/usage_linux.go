package host

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/turnstone-repl/turnstone/supervisor/internal/procinfo"
	"golang.org/x/sys/unix"
)

// threadStackBytes is the stack that a thread reserves but hardly uses.
const threadStackBytes = 8 << 20

// measureUsage measures the tree, parents before their children. A file in memory that is open but not
// mapped counts once. Since most open files are also mapped, the larger of the two sums counts.
func (t processTree) measureUsage(exact int64) Usage {
	var u Usage
	var several bool
	var open, mapped int64
	files := map[uint64]bool{}
	t.visitMembers(func(pid, _ int) {
		one, ok := readProcessUsage(pid)
		if !ok {
			return
		}
		u.processes = append(u.processes, one)
		u.Tasks += one.tasks
		u.Memory += one.memory
		mapped += one.mapped
		open += memfdBytes(pid, files)
		several = len(u.processes) > 1
	})
	if several && u.Memory >= exact {
		u.Memory, mapped = 0, 0
		for i, one := range u.processes {
			if own, ok := readProportionalMemory(one.pid); ok {
				u.processes[i].memory, u.processes[i].mapped = own.memory, own.mapped
			} else if _, alive := readProcessUsage(one.pid); !alive {
				u.processes[i].memory, u.processes[i].mapped = 0, 0 // the process has ended
			}
			u.Memory += u.processes[i].memory
			mapped += u.processes[i].mapped
		}
	}
	u.Memory += max(open-mapped, 0)
	return u
}

// memfdBytes returns the bytes of unnamed files (memfd_create) that a process has open, without the
// files in seen, to which it adds them.
func memfdBytes(pid int, seen map[uint64]bool) (n int64) {
	dir, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/fd", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	defer unix.Close(dir)
	var entries [4096]byte
	for {
		k, err := unix.ReadDirent(dir, entries[:])
		if err != nil || k <= 0 {
			return n
		}
		_, _, names := unix.ParseDirent(entries[:k], -1, nil)
		for _, name := range names {
			var text [len("/memfd:")]byte
			var st unix.Stat_t
			if _, err := unix.Readlinkat(dir, name, text[:]); err != nil || string(text[:]) != "/memfd:" {
				continue
			}
			if unix.Fstatat(dir, name, &st, 0) == nil && !seen[st.Ino] {
				seen[st.Ino] = true
				n += st.Blocks * 512
			}
		}
	}
}

// readProcessUsage reads one process; a zombie has no memory.
func readProcessUsage(pid int) (p processUsage, ok bool) {
	p.pid = pid
	for line := range strings.Lines(procinfo.ReadProc(pid, "status")) {
		name, value, _ := strings.Cut(line, ":")
		switch name {
		case "Name":
			p.name = strings.TrimSpace(value)
		case "Threads":
			p.tasks = procinfo.ParseInt(strings.TrimSpace(value))
		case "VmData":
			p.data, ok = parseKilobytes(value), true
		case "RssShmem":
			p.mapped = parseKilobytes(value)
			p.memory += p.mapped
		case "RssAnon", "VmSwap":
			p.memory += parseKilobytes(value)
		}
	}
	return p, ok
}

// readProportionalMemory reads the memory of a process, including its share of what it shares with others.
func readProportionalMemory(pid int) (p processUsage, ok bool) {
	for line := range strings.Lines(procinfo.ReadProc(pid, "smaps_rollup")) {
		name, value, _ := strings.Cut(line, ":")
		switch name {
		case "Pss_Shmem":
			p.mapped = parseKilobytes(value)
			p.memory += p.mapped
		case "Pss_Anon", "SwapPss":
			p.memory, ok = p.memory+parseKilobytes(value), true
		}
	}
	return p, ok
}

// parseKilobytes reads a value such as "  123 kB".
func parseKilobytes(value string) int64 {
	n, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
	return n << 10
}

// taskCountInterval is how long a count of the user's tasks stays valid.
const taskCountInterval = time.Second

// applyLimits adjusts the soft limits of each process. RLIMIT_DATA counts private writable memory,
// and so not what a process only reserves. Each process may use all that is left; when little is
// left, the processes that have grown since the last time share it.
func (m *monitorClient) applyLimits(u Usage, a LimitUpdate) {
	m.limitsMu.Lock()
	defer m.limitsMu.Unlock()
	growing := 0
	now := make(map[int]int64, len(u.processes))
	for _, p := range u.processes {
		now[p.pid] = p.data
		if p.data > m.lastDataBytes[p.pid] {
			growing++
		}
	}
	share := a.RemainingBytes
	if a.RemainingBytes < a.MaxProcessBytes/2 {
		share /= int64(max(growing, 1))
	}
	share = max(share, a.SpareBytes)
	alone := m.isConfined && hasTaskCountPerNamespace() // then the kernel counts the processes of this sandbox
	limitChanged := !alone && m.updateTaskLimit(u)
	for _, p := range u.processes {
		if a.MaxProcessBytes > 0 {
			setSoftLimit(p.pid, unix.RLIMIT_DATA, func(before uint64) uint64 {
				retained := min(before, uint64(p.data+retainedBytes))
				return max(retained, uint64(min(p.data+share, a.MaxProcessBytes+a.SpareBytes+int64(p.tasks)*threadStackBytes)))
			})
		}
		switch {
		case alone && !a.ApplyInSandbox:
		case a.ForkPolicy == ForksRefused:
			setSoftLimit(p.pid, unix.RLIMIT_NPROC, func(uint64) uint64 { return 1 })
		case a.ForkPolicy == ForksAllowed || limitChanged:
			setSoftLimit(p.pid, unix.RLIMIT_NPROC, func(uint64) uint64 { return m.maxTasks })
		}
	}
	m.lastDataBytes = now
}

// updateTaskLimit updates the bound for the tasks of this tree together with the user's other tasks. It
// reports whether the bound is new. The other tasks come and go, and a fork bomb must always have the
// same distance to the bound as at the start.
func (m *monitorClient) updateTaskLimit(u Usage) bool {
	if time.Since(m.tasksCountedAt) < taskCountInterval {
		return false
	}
	m.tasksCountedAt, m.maxTasks = time.Now(), unix.RLIM_INFINITY
	if n := m.cgroup.taskLimit(m.limits, m.sandboxConfig); n > 0 {
		m.maxTasks = uint64(max(n-u.Tasks, 1))
		return true
	}
	return false
}

// setSoftLimit sets a soft limit of a process, within its hard limit and our own soft one.
func setSoftLimit(pid, resource int, to func(before uint64) uint64) {
	var ours, now unix.Rlimit
	if unix.Getrlimit(resource, &ours) != nil || unix.Prlimit(pid, resource, nil, &now) != nil {
		return // it has ended, or belongs to another user
	}
	now.Cur = min(to(now.Cur), ours.Cur, now.Max)
	_ = unix.Prlimit(pid, resource, &now, nil)
}

func (m *monitorClient) measureUsage(exact int64) Usage {
	counted, ok := m.cgroup.memoryBytes()
	if ok {
		exact = math.MaxInt64
	}
	u := m.tree.measureUsage(exact)
	if ok {
		u.Memory = counted
	}
	u.OOMKills = m.cgroup.countOOMKills()
	return u
}

// killMembers kills those of the given processes that belong to the tree. A handle for each keeps its
// pid from being reused while the tree is searched.
func (m *monitorClient) killMembers(pids []int) {
	handles := make(map[int]int, len(pids))
	for _, pid := range pids {
		if handle, err := unix.PidfdOpen(pid, 0); err == nil {
			handles[pid] = handle
			defer unix.Close(handle)
		}
	}
	m.tree.visitMembers(func(pid, _ int) {
		if handle, ok := handles[pid]; ok {
			_ = unix.PidfdSendSignal(handle, unix.SIGKILL, nil, 0)
		}
	})
}
