package host

import (
	"os"
	"syscall"
)

func monitorExecutable() (string, error) { return os.Executable() }

// A childProcess is a process that this one has started.
type childProcess struct{ *os.Process }

func startChild(path string, args []string, attr *os.ProcAttr) (childProcess, error) {
	p, err := os.StartProcess(path, args, attr)
	return childProcess{p}, err
}

func (c childProcess) pid() int { return c.Pid }
func (c childProcess) kill()    { _ = c.Kill() }
func (c childProcess) wait()    { _, _ = c.Wait() }

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

// adoptOrphans does nothing: orphans go to launchd, and processTree.visitTable finds them.
func adoptOrphans() error { return nil }

func surviveSignals() {}

func workerAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// oomCounter has nothing to count here.
type oomCounter struct{ limit int64 }

func newOOMCounter(*workerCommand) oomCounter { return oomCounter{} }
func (oomCounter) hasIncreased() bool         { return false }

// releaseImagePages does nothing: the system does it when memory is short.
func releaseImagePages() {}

// growPipe does nothing: this system makes a pipe larger by itself.
func growPipe(fd, n int) {}
