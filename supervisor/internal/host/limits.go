package host

import (
	"errors"
	"fmt"
)

// Limits bound what a worker and everything it starts use; zero fields bound nothing.
type Limits struct {
	Memory    int64 `json:",omitempty"` // bytes
	Processes int   `json:",omitempty"`
	CPUs      int   `json:",omitempty"`
	Files     int   `json:",omitempty"` // open in each process
	Disk      int64 `json:",omitempty"` // bytes of one file; the rest of it is the sandbox's
}

// checkSupported reports the limits that this system does not have, and those that need a stage
// where there is none, as a choice of processors does.
func (l Limits) checkSupported(cpus bool) error {
	has := systemLimits
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
			return fmt.Errorf("a limit of %s: %w on this system; leave it out", one.what, errors.ErrUnsupported)
		}
	}
	if (l != (Limits{}) || cpus) && !IsMonitorAvailable() {
		return errors.New("limits need the stage: call StageMain first in main")
	}
	return nil
}

// HardMemoryLimit is what a tree with a limit of memory may use for no moment: beyond it a program is ended
// at once, by the looks or by the kernel.
func HardMemoryLimit(limit int64) int64 { return limit + max(limit/4, 128<<20) }
