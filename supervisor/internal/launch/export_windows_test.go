package launch

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"
	"unsafe"

	"github.com/turnstone-repl/turnstone/supervisor/internal/monitorproto"
	"github.com/turnstone-repl/turnstone/supervisor/internal/proctree"
	"golang.org/x/sys/windows"
)

// MonitorPID returns the process id of a worker's monitor.
func MonitorPID(p *WorkerProcess) int { return p.backend.(*monitorClient).monitorPID }

// CountHandles returns how many handles this process has, among the first 2048 possible ones.
// GetProcessHandleCount returns 0 under Wine.
func CountHandles() (count int) {
	information := windows.NewLazySystemDLL("kernel32.dll").NewProc("GetHandleInformation")
	for h := uintptr(4); h <= 4*2048; h += 4 {
		var flags uint32
		if ok, _, _ := information.Call(h, uintptr(unsafe.Pointer(&flags))); ok != 0 {
			count++
		}
	}
	return count
}

// CountStartSteps returns how many steps a start has.
func CountStartSteps(c *StartConfig) int { return len(newMonitorClient().startSteps(c)) }

// ErrInjected is the error of the step that fails in StartWithFailure.
var ErrInjected = errors.New("injected")

// StartWithFailure runs a start whose step n fails after its work. It returns the name of that
// step, the process id of the monitor if there was one, and the result of the start.
func StartWithFailure(c *StartConfig, n int) (name string, monitor int, err error) {
	s, steps := stepsWithInjection(c, n, func() error { return ErrInjected })
	err = s.runSteps(steps)
	return steps[n].name, s.monitorPID, err
}

// StartAndDie runs a start up to step n, and then ends this process.
func StartAndDie(c *StartConfig, n int) error {
	s, steps := stepsWithInjection(c, n, func() error {
		return windows.TerminateProcess(windows.CurrentProcess(), 1)
	})
	return s.runSteps(steps)
}

// stepsWithInjection returns the steps of a start, with a call of then after step n.
func stepsWithInjection(c *StartConfig, n int, then func() error) (*monitorClient, []startStep) {
	s := newMonitorClient()
	steps := s.startSteps(c)
	do := steps[n].do
	steps[n].do = func() error {
		if err := do(); err != nil {
			return fmt.Errorf("before the injection: %w", err)
		}
		return then()
	}
	return s, steps
}

// StartWithHungMonitor returns the error of a start whose monitor hangs in a step.
func StartWithHungMonitor(step, path string) (err error) {
	s := newMonitorClient()
	defer s.releaseHandles()
	s.monitorPID = os.Getpid() // we are the monitor
	if s.commands, err = listenPipe(windows.PIPE_ACCESS_OUTBOUND); err != nil {
		return err
	}
	if s.events, err = listenPipe(windows.PIPE_ACCESS_INBOUND); err != nil {
		return err
	}
	down, err := os.OpenFile(s.commands.Name, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer down.Close()
	up, err := os.OpenFile(s.events.Name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer up.Close()
	if err := s.awaitMonitor(time.Time{}); err != nil {
		return err
	}
	if err := json.NewEncoder(up).Encode(monitorproto.MonitorEvent{Kind: monitorproto.EventStep, Step: step, Path: []byte(path)}); err != nil {
		return err
	}
	return s.startWorker(&StartConfig{}, time.Now().Add(50*time.Millisecond))
}

// JobLimits returns the limits of a worker's job as the system reports them.
func JobLimits(p *WorkerProcess) (l windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION) {
	return p.backend.(*monitorClient).job.CurrentLimits()
}

// NewJobLimits returns the limits for a job.
func NewJobLimits(l proctree.ProcessLimits) windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION {
	return proctree.JobLimits(l)
}

// PipeHandle returns the supervisor's end of the command pipe to a worker's monitor.
func PipeHandle(p *WorkerProcess) windows.Handle { return p.backend.(*monitorClient).commands.Handle }
