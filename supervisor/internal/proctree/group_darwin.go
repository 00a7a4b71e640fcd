package proctree

import (
	"context"
)

// macOS has neither control groups nor limits that they could enforce.
type (
	// A Cgroup stands for a control group, which no worker has here.
	Cgroup struct{}
	// A CgroupSwitch does nothing, because no monitor changes groups here.
	CgroupSwitch struct{}
)

// NewCgroup creates nothing.
func NewCgroup(context.Context, int, string, ProcessLimits, string) (*Cgroup, error) {
	return nil, nil
}

// RemoveDir does nothing.
func (*Cgroup) RemoveDir() {}

// GroupDirs returns no directories.
func (*Cgroup) GroupDirs() (_, _ []byte) { return nil, nil }

// OpenCgroupSwitch opens nothing.
func OpenCgroupSwitch(string, string) (CgroupSwitch, error) { return CgroupSwitch{}, nil }

// JoinWorkerGroup does nothing.
func (CgroupSwitch) JoinWorkerGroup() error { return nil }

// RejoinMonitorGroup does nothing.
func (CgroupSwitch) RejoinMonitorGroup() error { return nil }

// UncountedMemory returns "": there is no memory limit that could miss anything.
func UncountedMemory(int64, bool, error) string { return "" }
