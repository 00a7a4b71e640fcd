package host

import (
	"math/rand/v2"
	"os"

	"golang.org/x/sys/unix"
)

// systemLimits are the limits that this system has.
var systemLimits = Limits{Memory: 1, Processes: 1, CPUs: 1, Files: 1, Disk: 1}

// useCPUs puts this thread, and what it starts, on n of these processors; 0 means on all, and no
// processors mean those that it has.
func useCPUs(among []int, n int) (err error) {
	if len(among) == 0 && n == 0 {
		return nil
	}
	if len(among) == 0 {
		if among, err = ownCPUs(); err != nil {
			return err
		}
	}
	if n == 0 {
		n = len(among)
	}
	var some unix.CPUSet
	for _, one := range someOf(among, n) {
		some.Set(one)
	}
	return unix.SchedSetaffinity(0, &some)
}

// SomeCPUs returns n of the processors that this program may use; none if it has no more.
func SomeCPUs(n int) ([]int, error) {
	all, err := ownCPUs()
	if err != nil || n == 0 || n >= len(all) {
		return nil, err
	}
	return someOf(all, n), nil
}

// ownCPUs are the processors that this thread may use.
func ownCPUs() (numbers []int, err error) {
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

// someOf returns n of these numbers. Which ones is left to chance, so that sessions do not meet on
// the first.
func someOf(numbers []int, n int) (some []int) {
	first := rand.IntN(len(numbers))
	for i := range min(n, len(numbers)) {
		some = append(some, numbers[(first+i)%len(numbers)])
	}
	return some
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
