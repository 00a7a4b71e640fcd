package host

import "github.com/turnstone-repl/turnstone/supervisor/internal/monitorproto"

// supportedLimits are the limits that a job supports.
var supportedLimits = monitorproto.ProcessLimits{Memory: 1, Processes: 1}

// A job enforces its limits without the supervisor.
func (m *monitorClient) measureUsage(int64) Usage       { return Usage{} }
func (m *monitorClient) applyLimits(Usage, LimitUpdate) {}
func (m *monitorClient) killMembers([]int)              {}
