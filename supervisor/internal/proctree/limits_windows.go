package proctree

import "github.com/turnstone-repl/turnstone/supervisor/internal/monitorproto"

// SupportedLimits are the limits that a job supports; 1 stands for any value.
var SupportedLimits = monitorproto.ProcessLimits{Memory: 1, Processes: 1}
