package host

import "github.com/turnstone-repl/turnstone/supervisor/internal/monitorproto"

// userTaskLimit returns 0: macOS sets no limits on another process.
func userTaskLimit(*Cgroup, monitorproto.ProcessLimits, *SandboxConfig) int { return 0 }

func (m *monitorClient) measureUsage(int64) Usage       { return Usage{} }
func (m *monitorClient) applyLimits(Usage, LimitUpdate) {}
func (m *monitorClient) killMembers([]int)              {}
