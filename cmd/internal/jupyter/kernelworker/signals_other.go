//go:build !linux

package kernelworker

// ignoresInterrupts returns false, because this system does not show it.
func ignoresInterrupts(int) bool { return false }

// wakeMainThread does nothing, because no signal of this system is without another effect.
func wakeMainThread(int) {}
