package monitor

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/turnstone-repl/turnstone/supervisor/internal/monitorproto"
	"github.com/turnstone-repl/turnstone/supervisor/internal/procinfo"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/linux"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/plan"
)

// enterSandbox confines this thread if the command has a sandbox. Then it enters the working directory
// again, because the old one belongs to the machine's file system and not to the sandbox's.
func (m *monitor) enterSandbox(command *monitorproto.WorkerCommand) {
	if command.Sandbox == nil {
		return
	}
	if command.Sandbox.Rules != nil {
		box, err := linux.Restrict(command.Sandbox)
		m.exitOnSandboxError(err)
		if box != nil {
			m.exitOnError("sandbox: egress", "", box.OpenEgress(os.NewFile(fdEgress, "egress")))
			box.Serve(func(plan.Denial) {}, func() {}) // reports only connections, which the supervisor refuses
		}
		return
	}
	dir, err := os.Getwd()
	m.exitOnError("chdir", "", err)
	box, err := linux.Enter(command.Sandbox)
	m.exitOnSandboxError(err)
	m.exitOnError("chdir", dir, os.Chdir(dir))
	if command.Sandbox.Egress { // otherwise the descriptor is another file, which garbage collection would close
		m.exitOnError("sandbox: egress", "", box.OpenEgress(os.NewFile(fdEgress, "egress")))
	}
	box.Serve(func(d plan.Denial) {
		m.sendEvent(monitorproto.MonitorEvent{Kind: monitorproto.EventDenied, Denial: monitorproto.NewDenialEvent(d)})
	}, func() { m.sendEvent(monitorproto.MonitorEvent{Kind: monitorproto.EventFilesChanged}) })
	m.sandbox = box
	m.notices = monitorproto.ToByteSlices(box.Notices())
}

// exitOnSandboxError ends the monitor with a report if a step of the sandbox failed.
func (m *monitor) exitOnSandboxError(err error) {
	if e, ok := errors.AsType[*plan.StepError](err); ok {
		m.exitOnError("sandbox: "+e.Step, e.Path, e.Err)
	}
}

// A sandboxHandle is the running sandbox that a monitor serves; nil without one.
type sandboxHandle = *linux.ActiveSandbox

// handleSandboxCommand carries out a command for the sandbox. It returns false for other commands.
func (m *monitor) handleSandboxCommand(command monitorproto.MonitorCommand) bool {
	switch {
	case m.sandbox == nil:
		return false
	case command.Kind == monitorproto.CommandAnswerCall:
		m.sandbox.CloseQuestion(command.ID)
	case command.Kind == monitorproto.CommandRefreshSandbox && command.Grant != nil:
		m.sendEvent(monitorproto.MonitorEvent{Kind: monitorproto.EventSignalSent, Notices: monitorproto.ToByteSlices(m.sandbox.Refresh(command.Grant))})
	case command.Kind == monitorproto.CommandForgetDenials:
		m.sandbox.ForgetDenials()
		m.sendEvent(monitorproto.MonitorEvent{Kind: monitorproto.EventSignalSent})
	case command.Kind == monitorproto.CommandGrant && command.Grant != nil:
		m.sandbox.Grant(command.Grant, func(err error) {
			event := monitorproto.MonitorEvent{Kind: monitorproto.EventGranted, ID: command.ID}
			if e, ok := errors.AsType[*plan.StepError](err); ok {
				event.Step, event.Path = "grant: "+e.Step, []byte(e.Path)
				event.SetCause(e.Err)
			}
			m.sendEvent(event)
		})
	default:
		return false
	}
	return true
}

// outerPID returns the worker's pid as the supervisor sees it. This thread sees the
// pids of its namespace; another thread sees the machine's.
func (m *monitor) outerPID(worker int) int {
	if m.sandbox == nil {
		return worker
	}
	m.sandbox.SetWorkerPID(worker)
	found := make(chan int)
	go func() {
		own, _ := os.Readlink("/proc/self")
		outer := 0
		procinfo.VisitThreads(procinfo.ParseInt(own), func(pid int, _ string) {
			for line := range strings.Lines(procinfo.ReadProc(pid, "status")) {
				if f := strings.Fields(line); len(f) > 2 && f[0] == "NSpid:" && f[len(f)-1] == strconv.Itoa(worker) && strconv.Itoa(procinfo.ParentPID(pid)) == own {
					outer = pid
				}
			}
		})
		found <- outer
	}()
	pid := <-found
	if pid == 0 {
		m.exitOnError("sandbox: processes", "", fmt.Errorf("process %d of the sandbox is not visible from outside", worker))
	}
	return pid
}
