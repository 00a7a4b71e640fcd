//go:build unix && !linux

package testexec

import (
	"os/exec"
	"strconv"
	"strings"
)

// IsAlive reports whether a process is still running. A zombie is not.
func IsAlive(pid int) bool {
	state, _ := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
	s := strings.TrimSpace(string(state))
	return s != "" && !strings.HasPrefix(s, "Z")
}
