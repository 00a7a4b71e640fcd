package workers

import (
	"fmt"
	"strings"
	"time"

	"github.com/turnstone-repl/turnstone/internal/text"
)

// MinMemoryBytes is the smallest memory limit, in bytes: a runtime needs that much before any
// user code runs.
const MinMemoryBytes = 64 << 20

// MinOpenFiles is the smallest limit of open files: a runtime opens some files itself.
const MinOpenFiles = 64

// MinDiskBytes is the smallest disk limit of a session, in bytes.
const MinDiskBytes = 1 << 20

// Limits bound the resources that a session uses. A zero field means no bound. If the system
// does not support a limit, the start fails, so that no user relies on a limit that has no
// effect.
type Limits struct {
	// Memory bounds the bytes that the worker and all its descendants use together:
	// MinMemoryBytes or more. Beyond it, allocations fail: Python raises a MemoryError, R
	// reports that it cannot allocate a vector. Linux and Windows support it.
	Memory int64

	// Processes bounds the processes of the session, including their threads. Linux and Windows
	// support it; on Windows threads do not count.
	Processes int

	// CPUs is the number of processors that the session may use at a time. Only Linux supports
	// it.
	CPUs int

	// Files bounds the open files of each process: MinOpenFiles or more. Only Linux supports it.
	Files int

	// Disk bounds the bytes that a session with a sandbox stores for itself. The bound applies to
	// its files in /tmp together with its copies of caches and libraries. It applies separately to
	// /dev/shm, and to any single file that the session writes elsewhere. It must be MinDiskBytes
	// or more. Only Linux supports it, and keeps these files in memory.
	Disk int64

	// Turn bounds how long a turn runs. A longer turn is interrupted, then interrupted in a way
	// that code cannot catch, and finally the worker is ended. The time in which a turn waits for
	// input does not count. Every system supports it.
	Turn time.Duration
}

// Validate returns an error for limits that make no sense.
func (l Limits) Validate() error {
	switch {
	case l.Memory < 0 || l.Processes < 0 || l.CPUs < 0 || l.Files < 0 || l.Disk < 0 || l.Turn < 0:
		return fmt.Errorf("workers: negative limit: %s", l)
	case l.Memory != 0 && l.Memory < MinMemoryBytes:
		return fmt.Errorf("workers: the memory limit of %d bytes is too small for any runtime; use at least %s", l.Memory, FormatBytes(MinMemoryBytes))
	case l.Disk != 0 && l.Disk < MinDiskBytes:
		return fmt.Errorf("workers: the disk limit of %d bytes is too small for any runtime; use at least %s", l.Disk, FormatBytes(MinDiskBytes))
	case l.Files != 0 && l.Files < MinOpenFiles:
		return fmt.Errorf("workers: the limit of %d open files is too small for any runtime; use at least %d", l.Files, MinOpenFiles)
	}
	return nil
}

// String lists the limits in a few words; "" if there are none.
func (l Limits) String() string {
	var words []string
	add := func(given bool, format string, value any) {
		if given {
			words = append(words, fmt.Sprintf(format, value))
		}
	}
	add(l.Memory != 0, "memory %s", FormatBytes(l.Memory))
	add(l.Processes != 0, "%d processes", l.Processes)
	add(l.CPUs != 0, "%d CPUs", l.CPUs)
	add(l.Files != 0, "%d open files", l.Files)
	add(l.Disk != 0, "disk %s", FormatBytes(l.Disk))
	add(l.Turn != 0, "turns of %s", text.CompactDuration(l.Turn))
	return strings.Join(words, ", ")
}

// FormatBytes writes a size as people do: "512 MiB", "8 GiB".
func FormatBytes(n int64) string { return text.BinaryBytes(n) }
