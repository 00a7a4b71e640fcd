package host

import "syscall"

// prepareSandbox does nothing: Start rejects sandboxes on macOS.
func prepareSandbox(*syscall.SysProcAttr) {}

func (m *monitor) enterSandbox(*workerCommand) {}

// A sandboxHandle is always nil, because macOS has no sandbox that a monitor serves.
type sandboxHandle *struct{}

func (m *monitor) handleSandboxCommand(monitorCommand) bool { return false }

func (m *monitor) outerPID(pid int) int { return pid }
