//go:build unix

package supervisor

import "syscall"

// openAtOnce opens a pipe without waiting for its other end.
const openAtOnce = syscall.O_NONBLOCK
