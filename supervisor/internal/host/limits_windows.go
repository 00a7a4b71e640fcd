package host

// supportedLimits are the limits that a job supports.
var supportedLimits = ProcessLimits{Memory: 1, Processes: 1}

// A job enforces its limits without the supervisor.
func (m *monitorClient) measureUsage(int64) Usage       { return Usage{} }
func (m *monitorClient) applyLimits(Usage, LimitUpdate) {}
func (m *monitorClient) killMembers([]int)              {}
