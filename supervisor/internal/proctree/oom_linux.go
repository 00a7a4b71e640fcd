package proctree

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// An OOMCounter detects whether the kernel's out-of-memory killer has acted since the counter was
// created. It looks at the worker's group, or at the memory cgroup (v1 or v2) of this process.
type OOMCounter struct {
	file     string // memory.events or memory.oom_control; "" without one
	baseline int
	Limit    int64 // bytes, of the worker's group; 0 without one
}

// NewOOMCounter returns a counter that starts from the present count. workerCgroup is the worker's
// group with its memory limit; it may be "".
func NewOOMCounter(workerCgroup string, memory int64) OOMCounter {
	if workerCgroup != "" {
		return OOMCounter{file: memoryEventsFile(workerCgroup), Limit: memory}
	}
	groups, _ := os.ReadFile("/proc/self/cgroup")
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	for _, file := range oomCounterFiles(string(groups), string(mounts)) {
		if n, ok := readOOMKills(file); ok {
			return OOMCounter{file: file, baseline: n}
		}
	}
	return OOMCounter{}
}

// HasIncreased reports whether the killer has acted since.
func (c OOMCounter) HasIncreased() bool {
	n, ok := readOOMKills(c.file)
	return ok && n > c.baseline
}

// readOOMKills reads the counter from one of the two files.
func readOOMKills(file string) (n int, ok bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(text)) {
		if v, found := strings.CutPrefix(line, "oom_kill "); found {
			n, err := strconv.Atoi(strings.TrimSpace(v))
			return n, err == nil
		}
	}
	return 0, false
}

// oomCounterFiles returns the files that may hold the counter, likelier ones first. They are the
// file in the group's own directory, then the one at the top of the mount. In a container without a
// cgroup namespace, the latter is the container's own.
func oomCounterFiles(groups, mounts string) []string {
	var files []string
	for line := range strings.Lines(mounts) {
		// 36 35 98:0 /root /mount/point opts [tag…] - type source superopts
		left, right, ok := strings.Cut(strings.TrimSpace(line), " - ")
		f, t := strings.Fields(left), strings.Fields(right)
		if !ok || len(f) < 5 || len(t) < 3 {
			continue
		}
		root, point := f[3], f[4]
		var name, group string
		switch {
		case t[0] == "cgroup2":
			name, group = "memory.events", controllerPath(groups, "")
		case t[0] == "cgroup" && hasWord(t[2], "memory"):
			name, group = "memory.oom_control", controllerPath(groups, "memory")
		default:
			continue
		}
		if below, err := filepath.Rel(root, group); err == nil && !strings.HasPrefix(below, "..") {
			files = append(files, filepath.Join(point, below, name))
		}
		files = append(files, filepath.Join(point, name))
	}
	return files
}

// controllerPath returns the path of a controller in /proc/self/cgroup; "" names v2.
func controllerPath(groups, controller string) string {
	for line := range strings.Lines(groups) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) == 3 && hasWord(f[1], controller) {
			return f[2]
		}
	}
	return ""
}

func hasWord(list, word string) bool {
	for w := range strings.SplitSeq(list, ",") {
		if w == word {
			return true
		}
	}
	return false
}
