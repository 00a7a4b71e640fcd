package launch

import (
	"math"
	"time"

	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/supervisor/internal/monitorproto"
	"github.com/turnstone-repl/turnstone/supervisor/internal/proctree"
)

// threadStackBytes is the stack that a thread reserves but hardly uses.
const threadStackBytes = 8 << 20

// retainedBytes is what a process keeps of its earlier allowance when nothing is left. A runtime
// that frees memory to show an error can use it for that.
const retainedBytes = 8 << 20

// taskCountInterval is how long a count of the user's tasks stays valid.
const taskCountInterval = time.Second

// applyLimits adjusts the soft limits of each process. RLIMIT_DATA counts private writable memory,
// but not memory that a process only reserves. Each process may use all that is left; when little
// is left, the processes that have grown since the last time share it.
func (m *monitorClient) applyLimits(u proctree.Usage, a proctree.LimitUpdate) {
	m.limitsMu.Lock()
	defer m.limitsMu.Unlock()
	growing := 0
	now := make(map[int]int64, len(u.Processes))
	for _, p := range u.Processes {
		now[p.PID] = p.Data
		if p.Data > m.lastDataBytes[p.PID] {
			growing++
		}
	}
	share := a.RemainingBytes
	if a.RemainingBytes < a.MaxProcessBytes/2 {
		share /= int64(max(growing, 1))
	}
	share = max(share, a.SpareBytes)
	alone := m.isConfined && proctree.HasTaskCountPerNamespace() // then the kernel counts the processes of this sandbox
	limitChanged := !alone && m.updateTaskLimit(u)
	for _, p := range u.Processes {
		if a.MaxProcessBytes > 0 {
			proctree.SetSoftLimit(p.PID, unix.RLIMIT_DATA, func(before uint64) uint64 {
				retained := min(before, uint64(p.Data+retainedBytes))
				return max(retained, uint64(min(p.Data+share, a.MaxProcessBytes+a.SpareBytes+int64(p.Tasks)*threadStackBytes)))
			})
		}
		switch {
		case alone && !a.ApplyInSandbox:
		case a.ForkPolicy == proctree.ForksRefused:
			proctree.SetSoftLimit(p.PID, unix.RLIMIT_NPROC, func(uint64) uint64 { return 1 })
		case a.ForkPolicy == proctree.ForksAllowed || limitChanged:
			proctree.SetSoftLimit(p.PID, unix.RLIMIT_NPROC, func(uint64) uint64 { return m.maxTasks })
		}
	}
	m.lastDataBytes = now
}

// updateTaskLimit updates the bound for the tasks of this tree together with the user's other
// tasks. It reports whether the bound is new. The number of other tasks changes, and a fork bomb
// must always have the same room below the bound as at the start.
func (m *monitorClient) updateTaskLimit(u proctree.Usage) bool {
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
func userTaskLimit(g *proctree.Cgroup, l proctree.ProcessLimits, s *SandboxConfig) int {
	if s.hasNamespaces() && proctree.HasTaskCountPerNamespace() {
		return 0
	}
	return g.TaskLimit(l, s != nil)
}

func (m *monitorClient) measureUsage(exact int64) proctree.Usage {
	counted, ok := m.cgroup.MemoryBytes()
	if ok {
		exact = math.MaxInt64
	}
	u := m.tree.MeasureUsage(exact)
	if ok {
		u.Memory = counted
	}
	u.OOMKills = m.cgroup.CountOOMKills()
	return u
}

func (m *monitorClient) signalMembers(pids []int, s monitorproto.Signal) {
	m.tree.SignalMembers(pids, systemSignal(s))
}
