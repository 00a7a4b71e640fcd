package proctree

import (
	"strconv"
	"strings"

	"github.com/turnstone-repl/turnstone/supervisor/internal/procinfo"
	"golang.org/x/sys/unix"
)

// MeasureUsage measures the tree, parents before their children. A file in memory that is open but not
// mapped counts once. Since most open files are also mapped, the larger of the two sums counts.
func (t ProcessTree) MeasureUsage(exact int64) Usage {
	var u Usage
	var several bool
	var open, mapped int64
	files := map[uint64]bool{}
	t.VisitMembers(func(pid, _ int) {
		one, ok := readProcessUsage(pid)
		if !ok {
			return
		}
		u.Processes = append(u.Processes, one)
		u.Tasks += one.Tasks
		u.Memory += one.Memory
		mapped += one.mapped
		open += memfdBytes(pid, files)
		several = len(u.Processes) > 1
	})
	if several && u.Memory >= exact {
		u.Memory, mapped = 0, 0
		for i, one := range u.Processes {
			if own, ok := readProportionalMemory(one.PID); ok {
				u.Processes[i].Memory, u.Processes[i].mapped = own.Memory, own.mapped
			} else if _, alive := readProcessUsage(one.PID); !alive {
				u.Processes[i].Memory, u.Processes[i].mapped = 0, 0 // the process has ended
			}
			u.Memory += u.Processes[i].Memory
			mapped += u.Processes[i].mapped
		}
	}
	u.Memory += max(open-mapped, 0)
	return u
}

// memfdBytes returns the bytes of unnamed files (memfd_create) that a process has open, without the
// files in seen, to which it adds them.
func memfdBytes(pid int, seen map[uint64]bool) (n int64) {
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

// readProcessUsage reads one process; a zombie has no memory.
func readProcessUsage(pid int) (p ProcessUsage, ok bool) {
	p.PID = pid
	for line := range strings.Lines(procinfo.ReadProc(pid, "status")) {
		name, value, _ := strings.Cut(line, ":")
		switch name {
		case "Name":
			p.Name = strings.TrimSpace(value)
		case "Threads":
			p.Tasks = procinfo.ParseInt(strings.TrimSpace(value))
		case "VmData":
			p.Data, ok = procinfo.ParseKilobytes(value), true
		case "RssShmem":
			p.mapped = procinfo.ParseKilobytes(value)
			p.Memory += p.mapped
		case "RssAnon", "VmSwap":
			p.Memory += procinfo.ParseKilobytes(value)
		}
	}
	return p, ok
}

// readProportionalMemory reads the memory of a process, including its share of what it shares with others.
func readProportionalMemory(pid int) (p ProcessUsage, ok bool) {
	for line := range strings.Lines(procinfo.ReadProc(pid, "smaps_rollup")) {
		name, value, _ := strings.Cut(line, ":")
		switch name {
		case "Pss_Shmem":
			p.mapped = procinfo.ParseKilobytes(value)
			p.Memory += p.mapped
		case "Pss_Anon", "SwapPss":
			p.Memory, ok = p.Memory+procinfo.ParseKilobytes(value), true
		}
	}
	return p, ok
}

// SetSoftLimit sets a soft limit of a process, within its hard limit and our own soft one.
func SetSoftLimit(pid, resource int, to func(before uint64) uint64) {
	var ours, now unix.Rlimit
	if unix.Getrlimit(resource, &ours) != nil || unix.Prlimit(pid, resource, nil, &now) != nil {
		return // it has ended, or belongs to another user
	}
	now.Cur = min(to(now.Cur), ours.Cur, now.Max)
	_ = unix.Prlimit(pid, resource, &now, nil)
}

// SignalMembers sends a signal to those of the given processes that belong to the tree. A handle for
// each keeps its pid from being reused while the tree is searched.
func (t ProcessTree) SignalMembers(pids []int, s unix.Signal) {
	handles := make(map[int]int, len(pids))
	for _, pid := range pids {
		if handle, err := unix.PidfdOpen(pid, 0); err == nil {
			handles[pid] = handle
			defer unix.Close(handle)
		}
	}
	t.VisitMembers(func(pid, _ int) {
		if handle, ok := handles[pid]; ok {
			_ = unix.PidfdSendSignal(handle, s, nil, 0)
		}
	})
}
