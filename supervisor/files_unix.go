//go:build unix

package supervisor

import "syscall"

// nonblockFlag makes opening a pipe return without waiting for its other end.
const nonblockFlag = syscall.O_NONBLOCK

// isInUse reports whether a file could not be removed because a program has it open. That never
// happens on Unix.
func isInUse(error) bool { return false }
