package host

// A Usage is what a worker and everything it started use at one moment.
type Usage struct {
	Memory    int64 // bytes that no file has: on the heap, on stacks, in shared memory, swapped out
	Tasks     int   // processes with their threads
	OOMKills  int   // processes that the kernel has ended for a lack of memory, where it counts them
	processes []processUsage
}

// A processUsage is one process of a tree.
type processUsage struct {
	pid, tasks   int
	name         string
	data, memory int64 // bytes: what it may write alone, and what it uses
	mapped       int64 // of that, in files in memory
}

// LimitUpdate is what a tree may have from now on.
type LimitUpdate struct {
	RemainingBytes  int64 // bytes that it may still use
	MaxProcessBytes int64 // bytes that one process may ask for, used or not; 0: memory is not bounded

	// SpareBytes bytes are allowed to each process even where nothing is left, so that a runtime
	// can say so and take an order to free something.
	SpareBytes int64

	// Forks holds without a sandbox, whose kernel counts its processes; with Uncounted also in one.
	ForkPolicy
	ApplyInSandbox bool
}

// retainedBytes of what it was allowed before stays allowed to a process when nothing is left: a
// runtime that gives memory back to show an error can use it for that.
const retainedBytes = 8 << 20

// ForkPolicy says whether a tree may start processes and threads.
type ForkPolicy int

const (
	ForksUnchanged ForkPolicy = iota // as it is
	ForksAllowed                     // as at the beginning
	ForksRefused
)

// MeasureUsage looks at the tree. Its processes share memory after a fork; from exact bytes on, that
// is counted once, which takes milliseconds for each gigabyte.
func (p *Process) MeasureUsage(exact int64) Usage { return p.backend.measureUsage(exact) }

// ApplyLimits bounds the tree by an allowance, as it was seen.
func (p *Process) ApplyLimits(u Usage, a LimitUpdate) { p.backend.applyLimits(u, a) }

// EndLargest ends the largest process of the tree but the worker, if it uses this much. It
// returns its name, or "" if there is none.
func (p *Process) EndLargest(u Usage, bytes int64) string {
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

// EndNewest ends the newest processes of the tree but the worker, until they have this many
// tasks less.
func (p *Process) EndNewest(u Usage, tasks int) {
	var pids []int
	for i := len(u.processes) - 1; i >= 0 && tasks > 0; i-- {
		if one := u.processes[i]; one.pid != p.pid {
			tasks -= one.tasks
			pids = append(pids, one.pid)
		}
	}
	p.backend.killMembers(pids)
}
