//go:build unix

package cli

import "syscall"

// ownSession starts a process in a session of its own: what ends this one's
// terminal or group does not end it.
func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
