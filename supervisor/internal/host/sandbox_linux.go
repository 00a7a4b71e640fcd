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
	dir, err := os.Getwd()
	s.must("chdir", "", err)
	box, err := confine.Enter(plan.Sandbox)
	if e, ok := errors.AsType[*confine.StepError](err); ok {
		s.must("sandbox: "+e.Step, e.Path, e.Err)
	}
	s.must("chdir", dir, os.Chdir(dir))
	box.Serve()
	s.boxed = true
	s.notices = bytesOf(box.Notices())
}

// seenFromOutside returns the worker's pid as the supervisor sees it. This thread sees the
// pids of its namespace; another thread sees the machine's.
func (s *stage) seenFromOutside(worker int) int {
	if !s.boxed {
		return worker
	}
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
