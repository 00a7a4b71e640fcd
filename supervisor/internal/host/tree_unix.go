//go:build linux || darwin

package host

import (
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// A tree is a worker and everything it started.
type tree struct {
	root    int    // the stage, or the worker where there is none
	session int    // of the terminal; the same process as root
	tag     string // the value of REPL_TAG in the environment of the tree
}

// tagName is the variable that marks the processes of a tree, for systems and
// moments where ancestry does not tell.
const tagName = "REPL_TAG"

// process is one row of the system's process table.
type process struct {
	pid, parent, group, session int
	zombie                      bool
}

// scan visits the tree as the process table shows it: what is in its session,
// carries its tag, or descends from either or from root. Without root and
// zombies. It is for systems and moments where the stage does not collect
// orphans.
func (t tree) scan(visit func(pid, group int)) {
	table := processTable()
	in := map[int]bool{t.root: true}
	for _, p := range table {
		if p.session == t.session || hasEnvironment(p.pid, tagName+"="+t.tag) {
			in[p.pid] = true
		}
	}
	for grown := true; grown; {
		grown = false
		for _, p := range table {
			if in[p.parent] && !in[p.pid] {
				in[p.pid], grown = true, true
			}
		}
	}
	for _, p := range table {
		if in[p.pid] && p.pid != t.root && p.pid != os.Getpid() && !p.zombie {
			visit(p.pid, p.group)
		}
	}
}

// sweep kills what each visits, again and again, until it visits nothing or
// limit is over; it returns what was visited last. pause waits for a change,
// at most as long as it is told.
//
// Groups are killed as well as processes, and at once: the kernel signals all
// members of a group together, so processes that only fork cannot keep ahead,
// even though each is gone by the time its pid is read.
func sweep(limit time.Duration, each func(visit func(pid, group int)), pause func(time.Duration)) []int {
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

// dyingLimit is how long the end of what SIGKILL has reached is waited for after a
// sweep. It cannot be refused, but gigabytes take seconds to be given back.
const dyingLimit = 3 * time.Second

// outlast waits until none of these processes is there any more, for limit at most, and
// returns those that still are.
func outlast(pids []int, limit time.Duration) []int {
	for deadline := time.Now().Add(limit); len(pids) > 0; time.Sleep(5 * time.Millisecond) {
		var left []int
		for _, p := range processTable() {
			if slices.Contains(pids, p.pid) && !p.zombie {
				left = append(left, p.pid)
			}
		}
		if pids = left; time.Now().After(deadline) {
			break
		}
	}
	return pids
}
