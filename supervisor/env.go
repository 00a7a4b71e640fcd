package supervisor

import (
	"fmt"
	"os/user"
	"path/filepath"
	"runtime"
	"strings"
	"unicode"

	"github.com/turnstone-repl/turnstone/internal/environ"
	"github.com/turnstone-repl/turnstone/internal/userdirs"
	"github.com/turnstone-repl/turnstone/supervisor/internal/launch"
	"github.com/turnstone-repl/turnstone/workers"
)

// newWorkerEnv returns the environment of a worker. sandboxEnv holds the changes that its sandbox
// needs, and files is the worker's private directory.
func (s *Session) newWorkerEnv(spec *workers.Spec, sandboxEnv []string, files string) []string {
	changes := []string{"LISTEN_FDS", "LISTEN_PID"}
	switch {
	case spec.UserTerminal:
	case spec.Term != "":
		changes = append(changes, "TERM="+spec.Term)
		if getenv := environ.Getenv(s.o.Env); getenv("FORCE_COLOR") == "" && getenv("CLICOLOR_FORCE") == "" {
			changes = append(changes, "NO_COLOR=1") // replies would be full of sequences
		}
	default:
		changes = append(changes, "TERM=dumb", launch.PagerEnv)
	}
	changes = append(changes, sandboxEnv...)
	changes = append(changes, expandFilesDir(spec.Env, files)...)
	if !strings.ContainsFunc(files, unicode.IsSpace) {
		changes = append(changes, expandFilesDir(spec.PlainEnv, files)...)
	}
	env := workerEnv(s.o.Env, s.o.ScrubEnv, changes, environ.IgnoresCase)
	return append(env, openBLASEnv(env, s.limitEnforcer.memoryLimit(spec.Limits), runtime.NumCPU())...)
}

// workerEnv returns the environment of a worker. It starts from base without the names in scrub,
// where a trailing * matches a prefix. Then it applies each change in order: "K=V" sets K, and "K"
// alone removes it. Each name appears once, at its first position, with the spelling of its last
// entry. fold compares names without regard to case, as Windows does.
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
		if name, _, ok := environ.Split(entry); ok && !scrubbed(name) {
			set(entry, name)
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
	result := env[:0]
	for _, entry := range env {
		if entry != "" {
			result = append(result, entry)
		}
	}
	return result
}

// openBLASBufferBytes is the memory that OpenBLAS reserves for each thread, including the stack, in
// Debian's build (0.3.21). The NumPy wheels reserve 40 MB.
const openBLASBufferBytes = 136 << 20

// openBLASEnv returns a variable that bounds the threads of OpenBLAS in a worker with a memory
// limit; 0 means no limit. When it is loaded, OpenBLAS reserves a buffer for each processor and
// hardly uses it, but the limit counts reserved memory. With many processors, the buffers would use
// up the limit, and OpenBLAS would then exit its process or retry forever. So all buffers but the
// first may take a quarter of the limit, unless the user has chosen a number of threads.
func openBLASEnv(env []string, memory int64, processors int) []string {
	threads := 1 + memory/4/openBLASBufferBytes
	if memory == 0 || threads >= int64(processors) {
		return nil
	}
	for _, entry := range env {
		switch name, _, _ := strings.Cut(entry, "="); strings.ToUpper(name) { // Windows ignores case
		case "OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS":
			return nil
		}
	}
	return []string{fmt.Sprintf("OPENBLAS_NUM_THREADS=%d", threads)}
}

// accountHome returns the home directory of the OS user, regardless of HOME; "" if it is unknown.
func accountHome() string {
	account, err := user.Current()
	if err != nil {
		return ""
	}
	return account.HomeDir
}

// movedHomeDirs returns the directories that variables use in place of subdirectories of the home
// directory. The keys are those subdirectories.
func movedHomeDirs(env []string) map[string]string {
	moved := map[string]string{}
	for usual, find := range map[string]func(func(string) string, string) string{
		".cache": userdirs.Cache, ".config": userdirs.Config, ".local/share": userdirs.Data, ".local/state": userdirs.State,
	} {
		if dir := find(environ.Getenv(env), ""); dir != "" {
			moved[usual] = filepath.Clean(dir)
		}
	}
	return moved
}

// expandFilesDir returns arguments or variables with workers.FilesDir replaced by the directory of
// the worker's files.
func expandFilesDir(in []string, files string) []string {
	out := make([]string, len(in))
	for i, a := range in {
		out[i] = strings.ReplaceAll(a, workers.FilesDir, files)
	}
	return out
}
