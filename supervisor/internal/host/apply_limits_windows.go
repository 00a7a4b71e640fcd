package host

// A job enforces its limits without the supervisor.
func (m *monitorClient) measureUsage(int64) Usage       { return Usage{} }
func (m *monitorClient) applyLimits(Usage, LimitUpdate) {}
func (m *monitorClient) killMembers([]int)              {}
