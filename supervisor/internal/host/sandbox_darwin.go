package host

import "syscall"

// prepareSandbox has nothing to do: Start refuses sandboxes on macOS.
func prepareSandbox(*syscall.SysProcAttr) {}

func (s *monitor) enterSandbox(*workerCommand) {}

// A sandboxHandle is a sandbox that the stage serves: none.
type sandboxHandle *struct{}

func (s *monitor) handleSandboxCommand(monitorCommand) bool { return false }

func (s *monitor) outerPID(pid int) int { return pid }
