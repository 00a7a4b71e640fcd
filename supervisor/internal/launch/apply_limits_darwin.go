package launch

import (
	"github.com/turnstone-repl/turnstone/supervisor/internal/monitorproto"
	"github.com/turnstone-repl/turnstone/supervisor/internal/proctree"
)

// userTaskLimit returns 0: macOS sets no limits on another process.
func userTaskLimit(*proctree.Cgroup, proctree.ProcessLimits, *SandboxConfig) int { return 0 }

func (m *monitorClient) measureUsage(int64) proctree.Usage                { return proctree.Usage{} }
func (m *monitorClient) applyLimits(proctree.Usage, proctree.LimitUpdate) {}
func (m *monitorClient) signalMembers([]int, monitorproto.Signal)         {}
