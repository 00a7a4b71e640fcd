//go:build !linux

package proctree

// HasSharedLimits says whether this system limits what all sessions use together.
const HasSharedLimits = false

// PickCPUs returns nil: only Linux restricts a worker to some processors.
func PickCPUs(int) ([]int, error) { return nil, nil }

// MachineMemory returns 0: only Linux limits the memory of all sessions together.
func MachineMemory() int64 { return 0 }
