package host

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// stackBytes is what a thread reserves and hardly uses.
const stackBytes = 8 << 20

// usage looks at the tree, parents before their children.
func (t tree) usage(exact int64) Usage {
	var u Usage
	var shared bool
	t.members(func(pid, _ int) {
		one, ok := partOf(pid)
		if !ok {
			return
		}
		u.parts = append(u.parts, one)
		u.Tasks += one.tasks
		u.Memory += one.memory
		shared = len(u.parts) > 1
	})
	if shared && u.Memory >= exact {
		u.Memory = 0
		for i, one := range u.parts {
			if n, ok := ownMemory(one.pid); ok {
				u.parts[i].memory = n
			} else if _, alive := partOf(one.pid); !alive {
				u.parts[i].memory = 0 // it has ended meanwhile
			}
			u.Memory += u.parts[i].memory
		}
	}
	return u
}

// partOf reads one process; a zombie has no memory.
func partOf(pid int) (p part, ok bool) {
	p.pid = pid
	for line := range strings.Lines(readProc(pid, "status")) {
		name, value, _ := strings.Cut(line, ":")
		switch name {
		case "Name":
			p.name = strings.TrimSpace(value)
		case "Threads":
			p.tasks = atoi(strings.TrimSpace(value))
		case "VmData":
			p.data, ok = kilobytes(value), true
		case "RssAnon", "RssShmem", "VmSwap":
			p.memory += kilobytes(value)
		}
	}
	return p, ok
}

// ownMemory is the memory of a process, with its share of what it has in common with others.
func ownMemory(pid int) (n int64, ok bool) {
	for line := range strings.Lines(readProc(pid, "smaps_rollup")) {
		name, value, _ := strings.Cut(line, ":")
		switch name {
		case "Pss_Anon", "Pss_Shmem", "SwapPss":
			n, ok = n+kilobytes(value), true
		}
	}
	return n, ok
}

// kilobytes reads a value such as "  123 kB".
func kilobytes(value string) int64 {
	n, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
	return n << 10
}

// allow moves the soft limits of each process. RLIMIT_DATA counts what a process may write
// alone, so not what it only reserves. Each process may have all that is left; close to the
// end, those that have grown since the last time share it.
func (s *staged) allow(u Usage, a Allowance) {
	s.bounding.Lock()
	defer s.bounding.Unlock()
	growing := 0
	now := make(map[int]int64, len(u.parts))
	for _, p := range u.parts {
		now[p.pid] = p.data
		if p.data > s.data[p.pid] {
			growing++
		}
	}
	share := a.Left
	if a.Left < a.Most/2 {
		share /= int64(max(growing, 1))
	}
	share = max(share, a.Spare)
	for _, p := range u.parts {
		if a.Most > 0 {
			moveLimit(p.pid, unix.RLIMIT_DATA, func(before uint64) uint64 {
				kept := min(before, uint64(p.data+keptBytes))
				return max(kept, uint64(min(p.data+share, a.Most+a.Spare+int64(p.tasks)*stackBytes)))
			})
		}
		if s.confined && !a.Uncounted { // the kernel counts the processes of a sandbox
			continue
		}
		switch a.Forks {
		case ForksRefused:
			moveLimit(p.pid, unix.RLIMIT_NPROC, func(uint64) uint64 { return 1 })
		case ForksAllowed:
			moveLimit(p.pid, unix.RLIMIT_NPROC, func(uint64) uint64 { return unix.RLIM_INFINITY })
		}
	}
	s.data = now
}

// moveLimit sets a soft limit of a process, within its hard limit and our own soft one.
func moveLimit(pid, resource int, to func(before uint64) uint64) {
	var ours, now unix.Rlimit
	if unix.Getrlimit(resource, &ours) != nil || unix.Prlimit(pid, resource, nil, &now) != nil {
		return // it has ended, or is another user's
	}
	now.Cur = min(to(now.Cur), ours.Cur, now.Max)
	_ = unix.Prlimit(pid, resource, &now, nil)
}

func (s *staged) usage(exact int64) Usage { return s.tree.usage(exact) }

// endMembers ends those of these processes that belong to the tree. A handle keeps the number
// of each from going to another process while that is looked up.
func (s *staged) endMembers(pids []int) {
	handles := make(map[int]int, len(pids))
	for _, pid := range pids {
		if handle, err := unix.PidfdOpen(pid, 0); err == nil {
			handles[pid] = handle
			defer unix.Close(handle)
		}
	}
	s.tree.members(func(pid, _ int) {
		if handle, ok := handles[pid]; ok {
			_ = unix.PidfdSendSignal(handle, unix.SIGKILL, nil, 0)
		}
	})
}
