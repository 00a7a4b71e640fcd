package monitor

import (
	"github.com/turnstone-repl/turnstone/supervisor/internal/monitorproto"
)

func (m *monitor) enterSandbox(*monitorproto.WorkerCommand) {}

// A sandboxHandle is always nil, because no monitor on macOS serves a sandbox.
type sandboxHandle *struct{}

func (m *monitor) handleSandboxCommand(monitorproto.MonitorCommand) bool { return false }

func (m *monitor) outerPID(pid int) int { return pid }
