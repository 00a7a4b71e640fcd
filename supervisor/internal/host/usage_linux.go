package host

import (
	"math"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// stackBytes is what a thread reserves and hardly uses.
const stackBytes = 8 << 20

// usage looks at the tree, parents before their children. A file in memory that is open and not
// mapped counts once: with what is mapped it is the larger of both, since most are.
func (t tree) usage(exact int64) Usage {
	var u Usage
	var several bool
	var open, mapped int64
	files := map[uint64]bool{}
	t.members(func(pid, _ int) {
		one, ok := partOf(pid)
		if !ok {
			return
		}
		u.parts = append(u.parts, one)
		u.Tasks += one.tasks
		u.Memory += one.memory
		mapped += one.mapped
		open += memoryFiles(pid, files)
		several = len(u.parts) > 1
	})
	if several && u.Memory >= exact {
		u.Memory, mapped = 0, 0
		for i, one := range u.parts {
			if own, ok := ownMemory(one.pid); ok {
				u.parts[i].memory, u.parts[i].mapped = own.memory, own.mapped
			} else if _, alive := partOf(one.pid); !alive {
				u.parts[i].memory, u.parts[i].mapped = 0, 0 // it has ended meanwhile
			}
			u.Memory += u.parts[i].memory
			mapped += u.parts[i].mapped
		}
	}
	u.Memory += max(open-mapped, 0)
	return u
}

// memoryFiles are the bytes of the files without a name (memfd_create) that a process has open,
// without those that were seen in another.
func memoryFiles(pid int, seen map[uint64]bool) (n int64) {
	dir, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/fd", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	defer unix.Close(dir)
	var entries [4096]byte
	for {
		k, err := unix.ReadDirent(dir, entries[:])
		if err != nil || k <= 0 {
			return n
		}
		_, _, names := unix.ParseDirent(entries[:k], -1, nil)
		for _, name := range names {
			var text [len("/memfd:")]byte
			var st unix.Stat_t
			if _, err := unix.Readlinkat(dir, name, text[:]); err != nil || string(text[:]) != "/memfd:" {
				continue
			}
			if unix.Fstatat(dir, name, &st, 0) == nil && !seen[st.Ino] {
				seen[st.Ino] = true
				n += st.Blocks * 512
			}
		}
	}
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
		case "RssShmem":
			p.mapped = kilobytes(value)
			p.memory += p.mapped
		case "RssAnon", "VmSwap":
			p.memory += kilobytes(value)
		}
	}
	return p, ok
}

// ownMemory is the memory of a process, with its share of what it has in common with others.
func ownMemory(pid int) (p part, ok bool) {
	for line := range strings.Lines(readProc(pid, "smaps_rollup")) {
		name, value, _ := strings.Cut(line, ":")
		switch name {
		case "Pss_Shmem":
			p.mapped = kilobytes(value)
			p.memory += p.mapped
		case "Pss_Anon", "SwapPss":
			p.memory, ok = p.memory+kilobytes(value), true
		}
	}
	return p, ok
}

// kilobytes reads a value such as "  123 kB".
func kilobytes(value string) int64 {
	n, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
	return n << 10
}

// countPause is how long the tasks of the user are taken for as many as they were.
const countPause = time.Second

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
	alone := s.confined && countsBoxes() // then the kernel counts the processes of this sandbox
	moved := !alone && s.countOthers(u)
	for _, p := range u.parts {
		if a.Most > 0 {
			moveLimit(p.pid, unix.RLIMIT_DATA, func(before uint64) uint64 {
				kept := min(before, uint64(p.data+keptBytes))
				return max(kept, uint64(min(p.data+share, a.Most+a.Spare+int64(p.tasks)*stackBytes)))
			})
		}
		switch {
		case alone && !a.Uncounted:
		case a.Forks == ForksRefused:
			moveLimit(p.pid, unix.RLIMIT_NPROC, func(uint64) uint64 { return 1 })
		case a.Forks == ForksAllowed || moved:
			moveLimit(p.pid, unix.RLIMIT_NPROC, func(uint64) uint64 { return s.tasks })
		}
	}
	s.data = now
}

// countOthers bounds the tasks of this tree with those that the user has beside it, and reports whether that
// is new: they come and go, and a bomb must meet its bound with as much room as at the start.
func (s *staged) countOthers(u Usage) bool {
	if time.Since(s.othersAt) < countPause {
		return false
	}
	s.othersAt, s.tasks = time.Now(), unix.RLIM_INFINITY
	if n := s.group.tasksFor(s.limits, s.box); n > 0 {
		s.tasks = uint64(max(n-u.Tasks, 1))
		return true
	}
	return false
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

func (s *staged) usage(exact int64) Usage {
	counted, ok := s.group.memory()
	if ok {
		exact = math.MaxInt64
	}
	u := s.tree.usage(exact)
	if ok {
		u.Memory = counted
	}
	u.Killed = s.group.killed()
	return u
}

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
