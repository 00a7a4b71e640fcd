package launch

import (
	"github.com/turnstone-repl/turnstone/supervisor/internal/monitorproto"
	"github.com/turnstone-repl/turnstone/supervisor/internal/proctree"
)

// measureUsage returns nothing, and the other two methods do nothing: a job enforces its limits
// without the supervisor.
func (m *monitorClient) measureUsage(int64) proctree.Usage                { return proctree.Usage{} }
func (m *monitorClient) applyLimits(proctree.Usage, proctree.LimitUpdate) {}
func (m *monitorClient) signalMembers([]int, monitorproto.Signal)         {}
