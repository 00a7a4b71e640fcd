package launch

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/turnstone-repl/turnstone/supervisor/internal/monitor"
	"github.com/turnstone-repl/turnstone/supervisor/internal/monitorproto"
	"github.com/turnstone-repl/turnstone/supervisor/internal/proctree"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/linux"
)

// Start starts a worker on its own terminal and returns once the process exists. A failure
// is a *monitorproto.StartError that names the step, and leaves nothing behind. Start takes
// StartConfig.Timeout at most.
//
// In a program that called MonitorMain, the monitor starts the worker. Otherwise it is
// started directly, with weaker guarantees: see WorkerProcess.HasMonitor.
func Start(c *StartConfig) (*WorkerProcess, error) {
	if c.Sandbox != nil {
		if err := linux.CheckSupported(c.Sandbox.Mechanism); err != nil {
			return nil, &monitorproto.StartError{Step: "sandbox", Err: err}
		}
		if !IsMonitorAvailable() {
			return nil, &monitorproto.StartError{Step: "sandbox", Err: errors.New("a sandbox needs the monitor; call MonitorMain first in main")}
		}
	}
	if err := checkLimits(c.Limits, len(c.CPUs) > 0); err != nil {
		return nil, &monitorproto.StartError{Step: "limits", Err: err}
	}
	return start(c)
}

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

// monitorMainCalled records that main called MonitorMain. It is a package variable because
// the call leaves no other trace.
var monitorMainCalled atomic.Bool

// MonitorMain makes the monitor available. It must be the first line of main (and of
// TestMain). In the process that Start re-executes as a monitor it never returns; everywhere
// else it costs a string comparison.
func MonitorMain() {
	if monitor.IsMonitor() {
		monitor.Run()
	}
	monitorMainCalled.Store(true)
}

// IsMonitorAvailable reports whether this program called MonitorMain.
func IsMonitorAvailable() bool { return monitorMainCalled.Load() }
