package host

import (
	"context"

	"github.com/turnstone-repl/turnstone/supervisor/internal/monitorproto"
)

// macOS has neither control groups nor limits that they could enforce.
type (
	Cgroup       struct{}
	CgroupSwitch struct{}
)

func newCgroup(context.Context, int, string, monitorproto.ProcessLimits, string) (*Cgroup, error) {
	return nil, nil
}

func (*Cgroup) removeDir()                                               {}
func (*Cgroup) groupDirs() (_, _ []byte)                                 { return nil, nil }
func openCgroupSwitch(*monitorproto.WorkerCommand) (CgroupSwitch, error) { return CgroupSwitch{}, nil }
func (CgroupSwitch) joinWorkerGroup() error                              { return nil }
func (CgroupSwitch) rejoinMonitorGroup() error                           { return nil }

func uncountedMemory(int64, bool, error) string { return "" }
