package host

import (
	"math"
	"time"

	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/supervisor/internal/monitorproto"
)

// threadStackBytes is the stack that a thread reserves but hardly uses.
const threadStackBytes = 8 << 20

// retainedBytes is what a process keeps of its earlier allowance when nothing is left. A runtime
// that frees memory to show an error can use it for that.
const retainedBytes = 8 << 20

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
		now[p.PID] = p.data
		if p.data > m.lastDataBytes[p.PID] {
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
			setSoftLimit(p.PID, unix.RLIMIT_DATA, func(before uint64) uint64 {
				retained := min(before, uint64(p.data+retainedBytes))
				return max(retained, uint64(min(p.data+share, a.MaxProcessBytes+a.SpareBytes+int64(p.tasks)*threadStackBytes)))
			})
		}
		switch {
		case alone && !a.ApplyInSandbox:
		case a.ForkPolicy == ForksRefused:
			setSoftLimit(p.PID, unix.RLIMIT_NPROC, func(uint64) uint64 { return 1 })
		case a.ForkPolicy == ForksAllowed || limitChanged:
			setSoftLimit(p.PID, unix.RLIMIT_NPROC, func(uint64) uint64 { return m.maxTasks })
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
	if n := userTaskLimit(m.cgroup, m.limits, m.sandboxConfig); n > 0 {
		m.maxTasks = uint64(max(n-u.Tasks, 1))
		return true
	}
	return false
}

// userTaskLimit returns a bound for all tasks of the user, the worker's included, if the kernel counts
// them that way; 0 means none.
func userTaskLimit(g *Cgroup, l monitorproto.ProcessLimits, s *SandboxConfig) int {
	if s.hasNamespaces() && hasTaskCountPerNamespace() {
		return 0
	}
	return g.taskLimit(l, s != nil)
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

func (m *monitorClient) killMembers(pids []int) { m.tree.killMembers(pids) }
