//go:build !linux

package host

// HasSharedLimits says whether this system bounds what all sessions use together.
const HasSharedLimits = false

// PickCPUs chooses none: only Linux puts a worker on some processors.
func PickCPUs(int) ([]int, error) { return nil, nil }

// MachineMemory is 0: only Linux bounds the memory of all sessions together.
func MachineMemory() int64 { return 0 }
