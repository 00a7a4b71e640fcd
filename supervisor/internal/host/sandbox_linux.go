package host

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/turnstone-repl/turnstone/supervisor/internal/confine"
)

// prepareSandbox gives a stage that is about to start the rights to confine.
func prepareSandbox(a *syscall.SysProcAttr) { confine.Attributes(a) }

// confine confines this thread, if the plan has a sandbox. Then it enters the directory again,
// because the old one is the machine's and not the sandbox's.
func (s *stage) confine(plan *plan) {
	if plan.Sandbox == nil {
		return
	}
	if plan.Sandbox.Rules != nil {
		box, err := confine.Restrict(plan.Sandbox)
		s.mustConfine(err)
		if box != nil {
			s.must("sandbox: outlet", "", box.OpenOutlet(os.NewFile(fdOutlet, "outlet")))
			box.Serve(func(confine.Denial) {}, func() {}) // it reports connects only, which the supervisor refuses
		}
		return
	}
	dir, err := os.Getwd()
	s.must("chdir", "", err)
	box, err := confine.Enter(plan.Sandbox)
	s.mustConfine(err)
	s.must("chdir", dir, os.Chdir(dir))
	if plan.Sandbox.Outlet { // otherwise that descriptor is another one, which a collection would close with the file
		s.must("sandbox: outlet", "", box.OpenOutlet(os.NewFile(fdOutlet, "outlet")))
	}
	box.Serve(func(d confine.Denial) { s.report(report{What: whatDenied, Denied: deniedOf(d)}) }, func() { s.report(report{What: whatLook}) })
	s.box = box
	s.notices = bytesOf(box.Notices())
}

// mustConfine ends the stage with a report if a step of the sandbox failed.
func (s *stage) mustConfine(err error) {
	if e, ok := errors.AsType[*confine.StepError](err); ok {
		s.must("sandbox: "+e.Step, e.Path, e.Err)
	}
}

// A box is the sandbox of a worker.
type box = *confine.Box

// obeySandbox obeys an order for the sandbox. It returns false for other orders.
func (s *stage) obeySandbox(o order) bool {
	switch {
	case s.box == nil:
		return false
	case o.Do == doPermit:
		s.box.Permit(o.ID)
	case o.Do == doRefresh && o.Grant != nil:
		s.report(report{What: whatSent, Notices: bytesOf(s.box.Refresh(o.Grant))})
	case o.Do == doForget:
		s.box.Forget()
		s.report(report{What: whatSent})
	case o.Do == doGrant && o.Grant != nil:
		s.box.Grant(o.Grant, func(err error) {
			r := report{What: whatGranted, ID: o.ID}
			if e, ok := errors.AsType[*confine.StepError](err); ok {
				r.Step, r.Path = "grant: "+e.Step, []byte(e.Path)
				r.setCause(e.Err)
			}
			s.report(r)
		})
	default:
		return false
	}
	return true
}

// seenFromOutside returns the worker's pid as the supervisor sees it. This thread sees the
// pids of its namespace; another thread sees the machine's.
func (s *stage) seenFromOutside(worker int) int {
	if s.box == nil {
		return worker
	}
	s.box.Worker(worker)
	found := make(chan int)
	go func() {
		own, _ := os.Readlink("/proc/self")
		outer := 0
		walk(atoi(own), func(pid int, _ string) {
			for line := range strings.Lines(readProc(pid, "status")) {
				if f := strings.Fields(line); len(f) > 2 && f[0] == "NSpid:" && f[len(f)-1] == strconv.Itoa(worker) && strconv.Itoa(parentOf(pid)) == own {
					outer = pid
				}
			}
		})
		found <- outer
	}()
	pid := <-found
	if pid == 0 {
		s.must("sandbox: processes", "", fmt.Errorf("process %d of the sandbox is not seen from outside", worker))
	}
	return pid
}
