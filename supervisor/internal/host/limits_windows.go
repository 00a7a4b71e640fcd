package host

import "github.com/turnstone-repl/turnstone/supervisor/internal/monitorproto"

// supportedLimits are the limits that a job supports.
var supportedLimits = monitorproto.ProcessLimits{Memory: 1, Processes: 1}
