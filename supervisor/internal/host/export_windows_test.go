package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// MonitorPID is the process id of a worker's monitor.
func MonitorPID(p *Process) int { return p.backend.(*monitorClient).monitorPID }

// CountHandles is how many handles this process has, of the first 2048 that it can
// have. GetProcessHandleCount says 0 under Wine.
func CountHandles() (count int) {
	information := kernel32.NewProc("GetHandleInformation")
	for h := uintptr(4); h <= 4*2048; h += 4 {
		var flags uint32
		if ok, _, _ := information.Call(h, uintptr(unsafe.Pointer(&flags))); ok != 0 {
			count++
		}
	}
	return count
}

// CountStartSteps is how many steps a start has.
func CountStartSteps(c *Command) int { return len(newMonitorClient().startSteps(c)) }

// ErrInjected is what a step of StartWithFailure fails of.
var ErrInjected = errors.New("injected")

// StartWithFailure runs a start whose step n fails after its work. It returns the name of that
// step, the process id of the monitor if there was one, and the result of the start.
func StartWithFailure(c *Command, n int) (name string, monitor int, err error) {
	s, steps := stepsWithInjection(c, n, func() error { return ErrInjected })
	err = s.runSteps(steps)
	return steps[n].name, s.monitorPID, err
}

// StartAndDie goes through a start up to step n, and ends this process then.
func StartAndDie(c *Command, n int) error {
	s, steps := stepsWithInjection(c, n, func() error {
		return windows.TerminateProcess(windows.CurrentProcess(), terminatedCode)
	})
	return s.runSteps(steps)
}

// stepsWithInjection is the steps of a start, with something behind step n.
func stepsWithInjection(c *Command, n int, then func() error) (*monitorClient, []startStep) {
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
	down, err := os.OpenFile(s.commands.name, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer down.Close()
	up, err := os.OpenFile(s.events.name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer up.Close()
	if err := s.awaitMonitor(time.Time{}); err != nil {
		return err
	}
	if err := json.NewEncoder(up).Encode(monitorEvent{Kind: eventStep, Step: step, Path: []byte(path)}); err != nil {
		return err
	}
	return s.startWorker(&Command{}, time.Now().Add(50*time.Millisecond))
}

// JobLimits is what the system says of the limits of a worker's job.
func JobLimits(p *Process) (l windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION) {
	p.backend.(*monitorClient).job.queryInfo(windows.JobObjectExtendedLimitInformation, unsafe.Pointer(&l), unsafe.Sizeof(l))
	return l
}

// NewJobLimits returns the limits for a job.
func NewJobLimits(l Limits) windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION { return jobLimits(l) }

// PipeHandle is the supervisor's end of a pipe of a worker's monitor.
func PipeHandle(p *Process) windows.Handle { return p.backend.(*monitorClient).commands.handle }

// ReadConsole reads what a pseudo console writes to a pipe.
func ReadConsole(out *os.File, b []byte) (int, error) {
	raw, err := out.SyscallConn()
	if err != nil {
		return 0, err
	}
	return (&console{out: out, outRaw: raw}).read(b)
}
