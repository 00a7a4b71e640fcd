package launch

import "github.com/turnstone-repl/turnstone/supervisor/internal/proctree"

// MeasureUsage measures the tree. Its processes share memory after a fork. If they use exact bytes
// or more, shared memory is counted once, which takes milliseconds for each gigabyte.
func (p *WorkerProcess) MeasureUsage(exact int64) proctree.Usage {
	return p.backend.measureUsage(exact)
}

// ApplyLimits applies update a to the process tree that u describes.
func (p *WorkerProcess) ApplyLimits(u proctree.Usage, a proctree.LimitUpdate) {
	p.backend.applyLimits(u, a)
}

// EndLargest kills the largest process of the tree except the worker, if it uses at least this
// many bytes. It returns the name of that process, or "".
func (p *WorkerProcess) EndLargest(u proctree.Usage, bytes int64) string {
	var largest proctree.ProcessUsage
	for _, one := range u.Processes {
		if one.PID != p.pid && one.Memory > largest.Memory {
			largest = one
		}
	}
	if largest.Memory < bytes || largest.PID == 0 {
		return ""
	}
	p.backend.killMembers([]int{largest.PID})
	return largest.Name
}

// EndNewest kills the newest processes of the tree except the worker, until there are this many
// tasks fewer.
func (p *WorkerProcess) EndNewest(u proctree.Usage, tasks int) {
	var pids []int
	for i := len(u.Processes) - 1; i >= 0 && tasks > 0; i-- {
		if one := u.Processes[i]; one.PID != p.pid {
			tasks -= one.Tasks
			pids = append(pids, one.PID)
		}
	}
	p.backend.killMembers(pids)
}
