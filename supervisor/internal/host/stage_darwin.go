package host

import (
	"os"
	"syscall"
)

func stageExecutable() (string, error) { return os.Executable() }

// A child is a process that this one has started.
type child struct{ *os.Process }

func startChild(path string, args []string, attr *os.ProcAttr) (child, error) {
	p, err := os.StartProcess(path, args, attr)
	return child{p}, err
}

func (c child) pid() int { return c.Pid }
func (c child) kill()    { _ = c.Kill() }
func (c child) wait()    { _, _ = c.Wait() }

// maxrssUnit is the unit of Rusage.Maxrss in bytes.
const maxrssUnit = 1

// ignoredSignals returns every signal that can be ignored: macOS does not say which are.
func ignoredSignals() []os.Signal {
	var signals []os.Signal
	for s := syscall.Signal(1); s < 32; s++ {
		signals = append(signals, s)
	}
	return signals
}

// clearSignalMask does nothing: without C, macOS cannot set the mask of a thread. A
// worker inherits the signals that were blocked when this program started.
func clearSignalMask() error { return nil }

// adoptOrphans does nothing: orphans go to launchd, and tree.scan finds them.
func adoptOrphans() error { return nil }

func outliveSignals() {}

func workerAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// oomCounter has nothing to count here.
type oomCounter struct{ limit int64 }

func newOOMCounter(*plan) oomCounter { return oomCounter{} }
func (oomCounter) increased() bool   { return false }

// forgetImage does nothing: the system does it when memory is short.
func forgetImage() {}

// widen does nothing: this system makes a pipe larger by itself.
func widen(fd, n int) {}
