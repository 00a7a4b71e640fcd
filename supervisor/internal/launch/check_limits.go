package launch

import (
	"errors"
	"fmt"

	"github.com/turnstone-repl/turnstone/supervisor/internal/proctree"
)

// checkLimits returns an error for limits that this system does not have. It also returns one
// if there is no monitor, which limits and a choice of processors need.
func checkLimits(l proctree.ProcessLimits, cpus bool) error {
	has := proctree.SupportedLimits
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
	if (l != (proctree.ProcessLimits{}) || cpus) && !IsMonitorAvailable() {
		return errors.New("limits need the monitor; call MonitorMain first in main")
	}
	return nil
}
