//go:build linux || darwin

package proctree

import (
	"os"
	"slices"
	"time"

	"github.com/turnstone-repl/turnstone/supervisor/internal/procinfo"
	"golang.org/x/sys/unix"
)

// A ProcessTree identifies a worker and everything it started.
type ProcessTree struct {
	Root    int    // the monitor, or the worker without a monitor
	Session int    // the terminal's session; the same number as root
	Tag     string // the value of TURNSTONE_TAG in the environment of the tree
}

// TagVariable is the environment variable that marks the processes of a tree. It finds them
// when their ancestry is lost.
const TagVariable = "TURNSTONE_TAG"

// VisitTable visits the tree as the process table shows it. The tree consists of all processes in
// its session or with its tag, and all descendants of these and of root. It visits neither root nor
// zombies. It is for systems where no monitor adopts orphans.
func (t ProcessTree) VisitTable(visit func(pid, group int)) {
	table := procinfo.ListProcesses()
	in := map[int]bool{t.Root: true}
	for _, p := range table {
		if p.Session == t.Session || procinfo.HasEnvironment(p.PID, TagVariable+"="+t.Tag) {
			in[p.PID] = true
		}
	}
	for grown := true; grown; {
		grown = false
		for _, p := range table {
			if in[p.Parent] && !in[p.PID] {
				in[p.PID], grown = true, true
			}
		}
	}
	for _, p := range table {
		if in[p.PID] && p.PID != t.Root && p.PID != os.Getpid() && !p.Zombie {
			visit(p.PID, p.Group)
		}
	}
}

// KillRemaining kills the processes that each visits, repeatedly, until none are left or limit
// has passed. It returns those of the last visit. pause waits for a change, at most for the
// given time.
//
// Whole groups are killed as well, because the kernel signals all members of a group together.
// Otherwise processes that only fork would stay ahead, each gone by the time its pid is read.
func KillRemaining(limit time.Duration, each func(visit func(pid, group int)), pause func(time.Duration)) []int {
	own := unix.Getpgrp()
	for deadline := time.Now().Add(limit); ; {
		var left []int
		each(func(pid, group int) {
			left = append(left, pid)
			if group > 1 && group != own {
				unix.Kill(-group, unix.SIGKILL)
			}
			unix.Kill(pid, unix.SIGKILL)
		})
		if len(left) == 0 || time.Now().After(deadline) {
			return left
		}
		pause(5 * time.Millisecond)
	}
}

// DyingTimeout bounds the wait for processes that SIGKILL has reached. They cannot refuse it,
// but releasing gigabytes takes seconds.
const DyingTimeout = 3 * time.Second

// AwaitProcessEnd waits, for limit at most, until these processes are gone. It returns those
// that still exist.
func AwaitProcessEnd(pids []int, limit time.Duration) []int {
	for deadline := time.Now().Add(limit); len(pids) > 0; time.Sleep(5 * time.Millisecond) {
		var left []int
		for _, p := range procinfo.ListProcesses() {
			if slices.Contains(pids, p.PID) && !p.Zombie {
				left = append(left, p.PID)
			}
		}
		if pids = left; time.Now().After(deadline) {
			break
		}
	}
	return pids
}
