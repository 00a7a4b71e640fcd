package proctree

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/turnstone-repl/turnstone/supervisor/internal/procinfo"
)

// HasSharedLimits says whether this system limits what all sessions use together.
const HasSharedLimits = true

// MachineMemory returns the bytes of memory available to this program and what it starts: the
// machine's, or the limit of its control group. 0 means unknown.
func MachineMemory() int64 {
	limit := int64(0)
	for line := range strings.Lines(procinfo.ReadFile("/proc/meminfo")) {
		if value, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			limit = procinfo.ParseKilobytes(strings.TrimSpace(value))
		}
	}
	groups, _ := os.ReadFile("/proc/self/cgroup")
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	for _, file := range oomCounterFiles(string(groups), string(mounts)) {
		for dir := filepath.Dir(file); len(dir) > len("/sys/fs"); dir = filepath.Dir(dir) {
			for _, name := range []string{"memory.max", "memory.limit_in_bytes"} {
				n, err := strconv.ParseInt(strings.TrimSpace(procinfo.ReadFile(filepath.Join(dir, name))), 10, 64)
				if err == nil && n > 0 { // v2 says "max", and v1 a number larger than any machine
					limit = min(limit, n)
				}
			}
		}
	}
	return limit
}
