package launch

import (
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// A childProcess is a process that was started by this one. Unlike an os.Process it holds no
// descriptor: its pid cannot be reused before wait has reaped it.
type childProcess struct{ *childProcessState }

// A childProcessState holds the pid of a child for all copies of its childProcess.
type childProcessState struct {
	id     int
	mu     sync.Mutex
	reaped bool // guarded by mu
}

func startChild(path string, args []string, attr *os.ProcAttr) (childProcess, error) {
	files := make([]uintptr, len(attr.Files))
	for i, f := range attr.Files {
		files[i] = f.Fd()
	}
	pid, err := syscall.ForkExec(path, args, &syscall.ProcAttr{Dir: attr.Dir, Env: attr.Env, Files: files, Sys: attr.Sys})
	if err != nil {
		return childProcess{}, err
	}
	return childProcess{&childProcessState{id: pid}}, nil
}

func (c *childProcessState) pid() int { return c.id }

// kill does nothing to a child that has been reaped.
func (c *childProcessState) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.reaped {
		_ = unix.Kill(c.id, unix.SIGKILL)
	}
}

// wait waits for the end of the child and reaps it. kill works in the meantime.
func (c *childProcessState) wait() {
	for unix.Waitid(unix.P_PID, c.id, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if _, err := unix.Wait4(c.id, nil, 0, nil); err != unix.EINTR {
			break
		}
	}
	c.reaped = true
}
