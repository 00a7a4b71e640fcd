package host

// supportedLimits are the limits that a job supports.
var supportedLimits = ProcessLimits{Memory: 1, Processes: 1}

// A job enforces its limits without the supervisor.
func (s *monitorClient) measureUsage(int64) Usage       { return Usage{} }
func (s *monitorClient) applyLimits(Usage, LimitUpdate) {}
func (s *monitorClient) killMembers([]int)              {}
