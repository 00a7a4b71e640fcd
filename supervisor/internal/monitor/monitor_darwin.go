package monitor

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Executable returns the path of this program. An upgrade may have removed it, as Homebrew does.
func Executable() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("the file of this program was upgraded or removed, so it starts no session any more; end it, for a daemon with repl daemon drain (%w)", err)
	}
	return path, nil
}

// ignoredSignals returns every signal that can be ignored: macOS does not report which ones are
// ignored.
func ignoredSignals() []os.Signal {
	var signals []os.Signal
	for s := syscall.Signal(1); s < 32; s++ {
		signals = append(signals, s)
	}
	return signals
}

// clearSignalMask does nothing: without C, the mask of a thread cannot be set on macOS. A
// worker inherits the signals that were blocked when this program started.
func clearSignalMask() error { return nil }

// adoptOrphans does nothing: orphans go to launchd, and proctree.ProcessTree.VisitTable finds them.
func adoptOrphans() error { return nil }

func surviveSignals() {}

func workerAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// releaseImagePages does nothing: macOS reclaims the pages when memory is short.
func releaseImagePages() {}

// resumeOutput resumes suspended output, like tcflow(TCOON).
func resumeOutput(fd int) error { return unix.IoctlSetInt(fd, unix.TIOCSTART, 0) }
