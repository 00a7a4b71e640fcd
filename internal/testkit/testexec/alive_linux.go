package testexec

import (
	"bytes"
	"os"
	"strconv"
)

// IsAlive reports whether a process has not ended. One that nobody has reaped has: what was its parent
// may be gone, and the first process of a container often reaps nobody.
func IsAlive(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	state := stat[bytes.LastIndexByte(stat, ')')+1:] // the name before it may have any byte
	return !bytes.HasPrefix(state, []byte(" Z")) && !bytes.HasPrefix(state, []byte(" X"))
}
