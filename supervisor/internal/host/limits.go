package host

import (
	"errors"
	"fmt"
)

// ProcessLimits bound what a worker and everything it starts may use; zero fields set no bound.
type ProcessLimits struct {
	Memory    int64 `json:",omitempty"` // bytes
	Processes int   `json:",omitempty"`
	CPUs      int   `json:",omitempty"`
	Files     int   `json:",omitempty"` // open in each process
	Disk      int64 `json:",omitempty"` // bytes of one file; the sandbox enforces the rest
}

// checkSupported returns an error for limits that this system does not have. It also returns one
// if there is no monitor, which limits and a choice of processors need.
func (l ProcessLimits) checkSupported(cpus bool) error {
	has := supportedLimits
	for _, one := range []struct {
		given, has bool
		what       string
	}{
		{l.Memory > 0, has.Memory > 0, "memory"},
		{l.Processes > 0, has.Processes > 0, "processes"},
		{l.CPUs > 0, has.CPUs > 0, "CPUs"},
		{l.Files > 0, has.Files > 0, "open files"},
		{l.Disk > 0, has.Disk > 0, "disk"},
	} {
		if one.given && !one.has {
			return fmt.Errorf("limit on %s: %w on this system; remove it", one.what, errors.ErrUnsupported)
		}
	}
	if (l != (ProcessLimits{}) || cpus) && !IsMonitorAvailable() {
		return errors.New("limits need the monitor; call MonitorMain first in main")
	}
	return nil
}

// HardMemoryLimit returns the bytes of memory that a tree with a memory limit may not exceed even
// briefly. Beyond them, the limit enforcer or the kernel kills a program at once.
func HardMemoryLimit(limit int64) int64 { return limit + max(limit/4, 128<<20) }
