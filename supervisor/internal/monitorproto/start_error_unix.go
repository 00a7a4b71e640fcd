//go:build linux || darwin

package monitorproto

import "syscall"

// Causes of a failed start that a hint explains.
const (
	errNotDirectory = syscall.ENOTDIR
	errExecFormat   = syscall.ENOEXEC
	errTooLong      = syscall.E2BIG
)
