package supervisor

import (
	"fmt"
	"strings"
)

// workerEnv returns the environment of a worker: base without the names in scrub
// (a trailing * matches a prefix), then each change in order: "K=V" sets K, "K"
// alone removes it. A name appears once, at its first place, with the spelling of its last
// entry. fold compares names without case, as Windows does.
func workerEnv(base, scrub, changes []string, fold bool) []string {
	key := func(name string) string {
		if fold {
			return strings.ToUpper(name)
		}
		return name
	}
	scrubbed := func(name string) bool {
		for _, pattern := range scrub {
			if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
				if strings.HasPrefix(key(name), key(prefix)) {
					return true
				}
			} else if key(name) == key(pattern) {
				return true
			}
		}
		return false
	}
	var env []string
	index := make(map[string]int, len(base)+len(changes)) // key → position in env
	set := func(entry, name string) {
		if i, ok := index[key(name)]; ok {
			env[i] = entry
			return
		}
		index[key(name)] = len(env)
		env = append(env, entry)
	}
	for _, entry := range base {
		// Windows keeps per-drive directories under names that begin with "=".
		if i := strings.Index(entry[min(1, len(entry)):], "="); i >= 0 {
			if name := entry[:i+1]; !scrubbed(name) {
				set(entry, name)
			}
		}
	}
	for _, change := range changes {
		if name, _, ok := strings.Cut(change, "="); ok {
			set(change, name)
		} else if i, ok := index[key(change)]; ok {
			env[i] = "" // removed below, so that the other positions stay valid
			delete(index, key(change))
		}
	}
	kept := env[:0]
	for _, entry := range env {
		if entry != "" {
			kept = append(kept, entry)
		}
	}
	return kept
}

// openBLASBufferBytes is what OpenBLAS reserves for each of its threads, with the stack, as Debian builds it
// (0.3.21). The wheels of NumPy reserve 40 MB.
const openBLASBufferBytes = 136 << 20

// openBLASEnv returns a variable for a worker with a limit of memory; 0 means none. OpenBLAS
// reserves a buffer for each processor when it is loaded, and hardly uses them. The limit counts
// what may be used: with many processors nothing would be left of it, and OpenBLAS ends its process,
// or asks again for ever, when it gets none. So they may take a quarter, beside the first, unless
// the user has chosen.
func openBLASEnv(env []string, memory int64, processors int) []string {
	threads := 1 + memory/4/openBLASBufferBytes
	if memory == 0 || threads >= int64(processors) {
		return nil
	}
	for _, entry := range env {
		switch name, _, _ := strings.Cut(entry, "="); strings.ToUpper(name) { // Windows spells it in any way
		case "OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS":
			return nil
		}
	}
	return []string{fmt.Sprintf("OPENBLAS_NUM_THREADS=%d", threads)}
}
