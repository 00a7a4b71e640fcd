package host

import (
	"os"
	"syscall"
)

func stageExecutable() (string, error) { return os.Executable() }

// maxrssUnit is the unit of Rusage.Maxrss in bytes.
const maxrssUnit = 1

// ignoredSignals is all that can be ignored: which are cannot be asked here.
func ignoredSignals() []os.Signal {
	var signals []os.Signal
	for s := syscall.Signal(1); s < 32; s++ {
		signals = append(signals, s)
	}
	return signals
}

// clearSignalMask does nothing: the mask of a thread cannot be set here
// without C. A worker inherits what was blocked when this program started.
func clearSignalMask() error { return nil }

// adoptOrphans does nothing: orphans go to launchd, and tree.scan finds them.
func adoptOrphans() error { return nil }

func workerAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// oomCounter has nothing to count here.
type oomCounter struct{}

func newOOMCounter() oomCounter { return oomCounter{} }
func (oomCounter) moved() bool  { return false }

// forgetImage leaves it to the system, which does it under pressure.
func forgetImage() {}
