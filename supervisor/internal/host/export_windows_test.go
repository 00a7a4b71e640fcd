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

// StagePID is the process id of a worker's stage.
func StagePID(p *Process) int { return p.backend.(*staged).pid }

// HandleCount is how many handles this process has, of the first 2048 that it can
// have. GetProcessHandleCount says 0 under Wine.
func HandleCount() (count int) {
	information := kernel32.NewProc("GetHandleInformation")
	for h := uintptr(4); h <= 4*2048; h += 4 {
		var flags uint32
		if ok, _, _ := information.Call(h, uintptr(unsafe.Pointer(&flags))); ok != 0 {
			count++
		}
	}
	return count
}

// StartSteps is how many steps a start has.
func StartSteps(c *Command) int { return len(newStaged().steps(c)) }

// ErrInjected is what a step of StartFailing fails of.
var ErrInjected = errors.New("injected")

// StartFailing runs a start whose step n fails after its work. It returns the name of that
// step, the process id of the stage if there was one, and the result of the start.
func StartFailing(c *Command, n int) (name string, stage int, err error) {
	s, steps := stepsUpTo(c, n, func() error { return ErrInjected })
	err = s.begin(steps)
	return steps[n].name, s.pid, err
}

// StartDying goes through a start up to step n, and ends this process then.
func StartDying(c *Command, n int) error {
	s, steps := stepsUpTo(c, n, func() error {
		return windows.TerminateProcess(windows.CurrentProcess(), terminatedCode)
	})
	return s.begin(steps)
}

// stepsUpTo is the steps of a start, with something behind step n.
func stepsUpTo(c *Command, n int, then func() error) (*staged, []step) {
	s := newStaged()
	steps := s.steps(c)
	do := steps[n].do
	steps[n].do = func() error {
		if err := do(); err != nil {
			return fmt.Errorf("before the injection: %w", err)
		}
		return then()
	}
	return s, steps
}

// StartHanging returns the error of a start whose stage hangs in a step.
func StartHanging(step, path string) (err error) {
	s := newStaged()
	defer s.release()
	s.pid = os.Getpid() // we are the stage
	if s.orders, err = listen(windows.PIPE_ACCESS_OUTBOUND); err != nil {
		return err
	}
	if s.reports, err = listen(windows.PIPE_ACCESS_INBOUND); err != nil {
		return err
	}
	down, err := os.OpenFile(s.orders.name, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer down.Close()
	up, err := os.OpenFile(s.reports.name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer up.Close()
	if err := s.awaitStage(time.Time{}); err != nil {
		return err
	}
	if err := json.NewEncoder(up).Encode(report{What: whatStep, Step: step, Path: []byte(path)}); err != nil {
		return err
	}
	return s.startWorker(&Command{}, time.Now().Add(50*time.Millisecond))
}

// JobLimits is what the system says of the limits of a worker's job.
func JobLimits(p *Process) (l windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION) {
	p.backend.(*staged).job.query(windows.JobObjectExtendedLimitInformation, unsafe.Pointer(&l), unsafe.Sizeof(l))
	return l
}

// LimitsFor returns the limits for a job.
func LimitsFor(l Limits) windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION { return jobLimits(l) }

// PipeHandle is the supervisor's end of a pipe of a worker's stage.
func PipeHandle(p *Process) windows.Handle { return p.backend.(*staged).orders.handle }

// ReadConsole reads what a pseudo console writes to a pipe.
func ReadConsole(out *os.File, b []byte) (int, error) {
	raw, err := out.SyscallConn()
	if err != nil {
		return 0, err
	}
	return (&console{out: out, outRaw: raw}).read(b)
}
