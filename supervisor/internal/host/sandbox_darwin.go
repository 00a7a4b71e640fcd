package host

import (
	"syscall"

	"github.com/turnstone-repl/turnstone/supervisor/internal/confine"
)

// prepareSandbox has nothing to do: the stage itself needs no rights.
func prepareSandbox(*syscall.SysProcAttr) {}

// confine has the worker start through a program of the system, which becomes the worker.
func (s *stage) confine(plan *plan) {
	if plan.Sandbox == nil {
		return
	}
	s.must("sandbox", "", confine.Supported(plan.Sandbox.By))
	program, args := plan.Sandbox.Seatbelt()
	args = append([]string{program}, args...)
	args = append(args, string(plan.Path))
	plan.Args = append(bytesOf(args), plan.Args[1:]...)
	plan.Path = []byte(program)
}

// A box is a sandbox that the stage serves: none.
type box *struct{}

func (s *stage) obeySandbox(order) bool { return false }

func (s *stage) seenFromOutside(pid int) int { return pid }
