//go:build linux || darwin

package host

import (
	"os"
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
	pid, parent, session int
	zombie               bool
}

// scan finds the tree in the process table: what is in its session, carries
// its tag, or descends from either or from root. Without root. It is for
// systems and moments where the stage does not collect orphans.
func (t tree) scan() []int {
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
	var pids []int
	for _, p := range table {
		if in[p.pid] && p.pid != t.root && p.pid != os.Getpid() && !p.zombie {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

// sweep kills what find finds, again and again, until it finds nothing or
// limit is over; it returns what find found last. pause waits for a change, at
// most as long as it is told.
//
// Groups are killed as well as processes: the kernel signals all members of a
// group at once, so a process that only forks cannot keep ahead.
func sweep(limit time.Duration, find func() []int, pause func(time.Duration)) []int {
	own := unix.Getpgrp()
	for deadline := time.Now().Add(limit); ; {
		left := find()
		if len(left) == 0 || time.Now().After(deadline) {
			return left
		}
		for _, pid := range left {
			if group, err := unix.Getpgid(pid); err == nil && group > 1 && group != own {
				unix.Kill(-group, unix.SIGKILL)
			}
			unix.Kill(pid, unix.SIGKILL)
		}
		pause(5 * time.Millisecond)
	}
}
