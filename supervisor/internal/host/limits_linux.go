package host

import (
	"math/rand/v2"
	"os"

	"golang.org/x/sys/unix"
)

// systemLimits are the limits that this system has.
var systemLimits = Limits{Memory: 1, Processes: 1, CPUs: 1, Files: 1, Disk: 1}

// useCPUs puts this thread, and what it starts, on n of its processors; 0 means all. Which
// ones is left to chance, so that sessions do not meet on the first.
func useCPUs(n int) error {
	var has, some unix.CPUSet
	if n == 0 {
		return nil
	}
	if err := unix.SchedGetaffinity(0, &has); err != nil || n >= has.Count() {
		return err
	}
	var numbers []int
	for i := 0; len(numbers) < has.Count(); i++ {
		if has.IsSet(i) {
			numbers = append(numbers, i)
		}
	}
	first := rand.IntN(len(numbers))
	for i := range n {
		some.Set(numbers[(first+i)%len(numbers)])
	}
	return unix.SchedSetaffinity(0, &some)
}

// limit sets the limits of a worker that the kernel keeps for each process, or for each
// user in a namespace, and that its children inherit. The kernel counts the processes of a
// sandbox by themselves, and the threads of the stage with them; elsewhere it counts all
// that the user has, so the count is ours.
func limit(pid int, l Limits, boxed bool) error {
	set := func(resource int, n int64) error {
		var now unix.Rlimit
		if err := unix.Prlimit(pid, resource, nil, &now); err != nil {
			return err
		}
		most := min(uint64(n), now.Max)
		return unix.Prlimit(pid, resource, &unix.Rlimit{Cur: most, Max: most}, nil)
	}
	if l.Files > 0 {
		if err := set(unix.RLIMIT_NOFILE, int64(l.Files)); err != nil {
			return err
		}
	}
	if l.Disk > 0 {
		if err := set(unix.RLIMIT_FSIZE, l.Disk); err != nil {
			return err
		}
	}
	if l.Processes > 0 && boxed {
		return set(unix.RLIMIT_NPROC, int64(l.Processes+len(threads(os.Getpid()))))
	}
	return nil
}
