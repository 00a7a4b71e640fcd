package proctree

import "github.com/turnstone-repl/turnstone/supervisor/internal/monitorproto"

// SupportedLimits are the limits that macOS supports: none that apply to another process.
var SupportedLimits = monitorproto.ProcessLimits{}

// SetCPUAffinity does nothing.
func SetCPUAffinity([]int, int) error { return nil }

// SetRlimits does nothing.
func SetRlimits(int, *monitorproto.WorkerCommand, bool) error { return nil }
