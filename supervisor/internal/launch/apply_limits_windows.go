package launch

import "github.com/turnstone-repl/turnstone/supervisor/internal/proctree"

// measureUsage returns nothing, and neither of the others does anything: a job enforces its limits
// without the supervisor.
func (m *monitorClient) measureUsage(int64) proctree.Usage                { return proctree.Usage{} }
func (m *monitorClient) applyLimits(proctree.Usage, proctree.LimitUpdate) {}
func (m *monitorClient) killMembers([]int)                                {}
