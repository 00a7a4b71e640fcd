package host

// MeasureUsage measures the tree. Its processes share memory after a fork. If they use exact bytes
// or more, shared memory is counted once, which takes milliseconds for each gigabyte.
func (p *WorkerProcess) MeasureUsage(exact int64) Usage { return p.backend.measureUsage(exact) }

// ApplyLimits applies update a to the process tree that u describes.
func (p *WorkerProcess) ApplyLimits(u Usage, a LimitUpdate) { p.backend.applyLimits(u, a) }

// EndLargest kills the largest process of the tree except the worker, if it uses at least this
// many bytes. It returns the name of that process, or "".
func (p *WorkerProcess) EndLargest(u Usage, bytes int64) string {
	var largest ProcessUsage
	for _, one := range u.processes {
		if one.PID != p.pid && one.memory > largest.memory {
			largest = one
		}
	}
	if largest.memory < bytes || largest.PID == 0 {
		return ""
	}
	p.backend.killMembers([]int{largest.PID})
	return largest.name
}

// EndNewest kills the newest processes of the tree except the worker, until there are this many
// tasks fewer.
func (p *WorkerProcess) EndNewest(u Usage, tasks int) {
	var pids []int
	for i := len(u.processes) - 1; i >= 0 && tasks > 0; i-- {
		if one := u.processes[i]; one.PID != p.pid {
			tasks -= one.tasks
			pids = append(pids, one.PID)
		}
	}
	p.backend.killMembers(pids)
}
