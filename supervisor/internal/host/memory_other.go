//go:build !linux

package host

// MachineMemory is 0: only Linux bounds the memory of all sessions together.
func MachineMemory() int64 { return 0 }
