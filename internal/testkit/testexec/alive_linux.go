package testexec

import (
	"bytes"
	"os"
	"strconv"
)

// IsAlive reports whether a process is still running. A zombie is not: its parent may be gone, and
// the first process of a container often reaps no children.
func IsAlive(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	state := stat[bytes.LastIndexByte(stat, ')')+1:] // the preceding name may contain any byte
	return !bytes.HasPrefix(state, []byte(" Z")) && !bytes.HasPrefix(state, []byte(" X"))
}
