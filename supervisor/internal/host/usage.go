package host

// A Usage records what a worker and everything it started use at one moment.
type Usage struct {
	Memory    int64 // bytes not backed by a file: heap, stacks, shared memory, swapped out
	Tasks     int   // processes with their threads
	OOMKills  int   // processes that the kernel has killed for lack of memory, if it counts them
	processes []processUsage
}

// A processUsage records what one process of a tree uses.
type processUsage struct {
	pid, tasks   int
	name         string
	data, memory int64 // bytes: its private writable memory, and what it uses
	mapped       int64 // bytes of memory that are in files in memory
}

// A LimitUpdate says what the processes of a tree may use from now on.
type LimitUpdate struct {
	RemainingBytes  int64 // bytes that it may still use
	MaxProcessBytes int64 // bytes that one process may ask for, used or not; 0: memory is not bounded

	// SpareBytes are allowed to each process even if nothing is left, so that a runtime can report
	// that and run code that frees something.
	SpareBytes int64

	// ForkPolicy applies without a sandbox, because the kernel counts a sandbox's processes. With
	// ApplyInSandbox it applies in a sandbox, too.
	ForkPolicy
	ApplyInSandbox bool
}

// retainedBytes is what a process keeps of its earlier allowance when nothing is left. A runtime
// that frees memory to show an error can use it for that.
const retainedBytes = 8 << 20

// ForkPolicy says whether a tree may start processes and threads.
type ForkPolicy int

const (
	ForksUnchanged ForkPolicy = iota // keep the current state
	ForksAllowed                     // as at the start
	ForksRefused
)

// MeasureUsage measures the tree. Its processes share memory after a fork. If they use exact bytes
// or more, shared memory is counted once, which takes milliseconds for each gigabyte.
func (p *WorkerProcess) MeasureUsage(exact int64) Usage { return p.backend.measureUsage(exact) }

// ApplyLimits applies update a to the process tree that u describes.
func (p *WorkerProcess) ApplyLimits(u Usage, a LimitUpdate) { p.backend.applyLimits(u, a) }

// EndLargest kills the largest process of the tree except the worker, if it uses at least this
// many bytes. It returns the name of that process, or "".
func (p *WorkerProcess) EndLargest(u Usage, bytes int64) string {
	var largest processUsage
	for _, one := range u.processes {
		if one.pid != p.pid && one.memory > largest.memory {
			largest = one
		}
	}
	if largest.memory < bytes || largest.pid == 0 {
		return ""
	}
	p.backend.killMembers([]int{largest.pid})
	return largest.name
}

// EndNewest kills the newest processes of the tree except the worker, until there are this many
// tasks fewer.
func (p *WorkerProcess) EndNewest(u Usage, tasks int) {
	var pids []int
	for i := len(u.processes) - 1; i >= 0 && tasks > 0; i-- {
		if one := u.processes[i]; one.pid != p.pid {
			tasks -= one.tasks
			pids = append(pids, one.pid)
		}
	}
	p.backend.killMembers(pids)
}
