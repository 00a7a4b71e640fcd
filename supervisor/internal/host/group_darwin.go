package host

import (
	"context"

	"github.com/turnstone-repl/turnstone/supervisor/internal/monitorproto"
)

// macOS has neither control groups nor limits that they could enforce.
type (
	cgroup       struct{}
	cgroupSwitch struct{}
)

func newCgroup(context.Context, int, string, monitorproto.ProcessLimits, string) (*cgroup, error) {
	return nil, nil
}

func (*cgroup) removeDir()                                               {}
func (*cgroup) groupDirs() (_, _ []byte)                                 { return nil, nil }
func openCgroupSwitch(*monitorproto.WorkerCommand) (cgroupSwitch, error) { return cgroupSwitch{}, nil }
func (cgroupSwitch) joinWorkerGroup() error                              { return nil }
func (cgroupSwitch) rejoinMonitorGroup() error                           { return nil }

func uncountedMemory(int64, bool, error) string { return "" }
