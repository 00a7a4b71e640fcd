package launch

import "github.com/turnstone-repl/turnstone/supervisor/internal/proctree"

// A job enforces its limits without the supervisor.
func (m *monitorClient) measureUsage(int64) proctree.Usage                { return proctree.Usage{} }
func (m *monitorClient) applyLimits(proctree.Usage, proctree.LimitUpdate) {}
func (m *monitorClient) killMembers([]int)                                {}
