package proctree

// SupportedLimits are the limits that macOS supports: none that apply to another process.
var SupportedLimits = ProcessLimits{}

// SetCPUAffinity does nothing.
func SetCPUAffinity([]int, int) error { return nil }

// SetRlimits does nothing.
func SetRlimits(int, ProcessLimits, RlimitScope) error { return nil }
