package proctree

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/turnstone-repl/turnstone/supervisor/internal/procinfo"
	"golang.org/x/sys/unix"
)

// SupportedLimits are the limits that Linux supports; 1 stands for any value.
var SupportedLimits = ProcessLimits{Memory: 1, Processes: 1, CPUs: 1, Files: 1, Disk: 1}

// SetCPUAffinity restricts this thread, and everything it starts, to n of these processors; 0 means
// all of them. Without processors, it chooses from those that the thread may use.
func SetCPUAffinity(among []int, n int) (err error) {
	if len(among) == 0 && n == 0 {
		return nil
	}
	if len(among) == 0 {
		if among, err = allowedCPUs(); err != nil {
			return err
		}
	}
	if n == 0 {
		n = len(among)
	}
	var some unix.CPUSet
	for _, one := range pickFromRandomStart(among, n) {
		some.Set(one)
	}
	return unix.SchedSetaffinity(0, &some)
}

// PickCPUs returns n of the processors that this program may use, or nil if it has no more than n.
func PickCPUs(n int) ([]int, error) {
	all, err := allowedCPUs()
	if err != nil || n == 0 || n >= len(all) {
		return nil, err
	}
	return pickFromRandomStart(all, n), nil
}

// allowedCPUs returns the processors that this thread may use.
func allowedCPUs() (numbers []int, err error) {
	var has unix.CPUSet
	if err := unix.SchedGetaffinity(0, &has); err != nil {
		return nil, err
	}
	for i := 0; len(numbers) < has.Count(); i++ {
		if has.IsSet(i) {
			numbers = append(numbers, i)
		}
	}
	return numbers, nil
}

// pickFromRandomStart returns n of these numbers. The choice is random, so that not all sessions use the
// first ones.
func pickFromRandomStart(numbers []int, n int) (some []int) {
	first := rand.IntN(len(numbers))
	for i := range min(n, len(numbers)) {
		some = append(some, numbers[(first+i)%len(numbers)])
	}
	return some
}

const (
	// bytesPerSocket is roughly the most data that one socket buffers. Without a control group it is
	// not counted. So a process may open only as many files as would fill its memory limit, but at
	// least minFiles.
	bytesPerSocket = 208 << 10
	minFiles       = 256

	// A sandbox may have this many tasks if no limit is lower, or this many for each processor. It never
	// gets more than half of what the user may have: a fork bomb leaves the other half.
	baseSandboxTasks   = 2048
	sandboxTasksPerCPU = 256
	minSandboxTasks    = 256 // below this, the user's own limit is tight enough

	// If a limit is enforced by measuring at intervals, the kernel stops a fast fork bomb at this
	// multiple of the limit, but not below baseSandboxTasks. The margin is for what else the user
	// starts between two measurements.
	taskLimitFactor = 4
)

// SetRlimits sets the limits that the kernel enforces for each process, or for each user in a
// namespace, and that a worker's children inherit. The kernel counts the processes of a sandbox
// separately, together with the threads of the monitor. Otherwise it counts all tasks of the
// user. Then the supervisor counts, and RlimitScope.MaxUserTasks stops a fork bomb that is faster.
func SetRlimits(pid int, l ProcessLimits, scope RlimitScope) error {
	set := func(resource int, n int64) error {
		var now unix.Rlimit
		if err := unix.Prlimit(pid, resource, nil, &now); err != nil {
			return err
		}
		most := min(uint64(n), now.Max)
		return unix.Prlimit(pid, resource, &unix.Rlimit{Cur: most, Max: most}, nil)
	}
	files := int64(l.Files)
	if most := max(l.Memory/bytesPerSocket, minFiles); l.Memory > 0 && !scope.HasCgroup && (files == 0 || files > most) {
		files = most
	}
	if files > 0 {
		if err := set(unix.RLIMIT_NOFILE, files); err != nil {
			return err
		}
	}
	if l.Disk > 0 {
		if err := set(unix.RLIMIT_FSIZE, l.Disk); err != nil {
			return err
		}
	}
	switch {
	case scope.MaxUserTasks > 0: // soft, because it changes with what else the user starts
		SetSoftLimit(pid, unix.RLIMIT_NPROC, func(uint64) uint64 { return uint64(scope.MaxUserTasks) })
	case scope.Sandboxed && l.Processes > 0:
		own, _ := os.ReadDir("/proc/self/task") // not by pid: this thread may see the /proc of the machine, where our pid is another process
		return set(unix.RLIMIT_NPROC, int64(l.Processes+len(own)))
	case scope.Sandboxed:
		if most := sandboxTaskLimit(); most > 0 {
			return set(unix.RLIMIT_NPROC, most)
		}
	}
	return nil
}

// sandboxTaskLimit returns how many tasks a sandbox may have if no limit is set; 0 leaves that to the system.
func sandboxTaskLimit() int64 {
	most := uint64(max(baseSandboxTasks, sandboxTasksPerCPU*runtime.NumCPU()))
	var own unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NPROC, &own) == nil {
		most = min(most, own.Cur/2)
	}
	if all, err := strconv.ParseUint(strings.TrimSpace(procinfo.ReadFile("/proc/sys/kernel/threads-max")), 10, 64); err == nil {
		most = min(most, all/2)
	}
	if most < minSandboxTasks {
		return 0
	}
	return int64(most)
}

// TaskLimit returns a bound for all tasks of the user, the worker's included; 0 means none. It is for
// kernels that count them together: see HasTaskCountPerNamespace.
func (c *Cgroup) TaskLimit(l ProcessLimits, sandboxed bool) int {
	switch {
	case l.Processes > 0 && c == nil: // the kernel counts those of a control group
		return countUserTasks() + max(taskLimitFactor*l.Processes, baseSandboxTasks)
	case sandboxed:
		return countUserTasks() + int(sandboxTaskLimit())
	}
	return 0
}

// HasTaskCountPerNamespace reports whether this kernel counts the processes of each user namespace: 5.14 and newer.
func HasTaskCountPerNamespace() bool {
	var name unix.Utsname
	if unix.Uname(&name) != nil {
		return false
	}
	var major, minor int
	_, err := fmt.Sscanf(unix.ByteSliceToString(name.Release[:]), "%d.%d", &major, &minor)
	return err == nil && (major > 5 || major == 5 && minor >= 14)
}

// countUserTasks returns how many processes and threads this user has on the machine, as far as they are visible.
func countUserTasks() (n int) {
	d, err := os.Open("/proc")
	if err != nil {
		return 0
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	own := strconv.Itoa(os.Getuid())
	for _, name := range names {
		if pid := procinfo.ParseInt(name); pid > 0 {
			n += countTasks(pid, own)
		}
	}
	return n
}

// countTasks returns the number of threads of a process, or 0 if it belongs to another user.
func countTasks(pid int, user string) int {
	for line := range strings.Lines(procinfo.ReadProc(pid, "status")) {
		switch name, value, _ := strings.Cut(line, ":"); name {
		case "Uid":
			if f := strings.Fields(value); len(f) == 0 || f[0] != user {
				return 0
			}
		case "Threads":
			return procinfo.ParseInt(strings.TrimSpace(value))
		}
	}
	return 0
}
