package host

import "github.com/turnstone-repl/turnstone/supervisor/internal/monitorproto"

// supportedLimits are the limits that macOS supports: none that apply to another process.
var supportedLimits = monitorproto.ProcessLimits{}

func setCPUAffinity([]int, int) error                         { return nil }
func setRlimits(int, *monitorproto.WorkerCommand, bool) error { return nil }
