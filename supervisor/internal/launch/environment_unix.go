//go:build linux || darwin

package launch

import "syscall"

// PagerEnv makes programs show text whole, without waiting for keys.
const PagerEnv = "PAGER=cat"

// MaxOpenFiles returns how many open files this process may have. The Go runtime has raised the
// soft limit to the hard one.
func MaxOpenFiles() int {
	var l syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l) != nil {
		return 0
	}
	return int(min(l.Cur, 1<<30))
}
