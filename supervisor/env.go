package supervisor

import "strings"

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
