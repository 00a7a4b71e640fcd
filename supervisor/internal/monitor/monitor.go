// Package monitor implements the monitor, the parent process of one worker. It starts the worker,
// forwards signals to it, reports how it ends, and leaves nothing of it behind.
//
// A monitor is the program itself, re-executed. Its init runs before most of the program is
// initialized, so the package imports nothing that is costly to initialize. It carries out the
// commands of package monitorproto. It does not know the worker protocol, turns or sessions.
//
// # Goroutines
//
//	name       started by  ends when
//	serve      Run itself  the process ends; it alone reaps and signals
//	commands   Run         the supervisor is gone; on Linux it carries out those for the sandbox
//	worker     Run         the worker has ended; Windows only
//	crash log  Run         its pipe ends; Windows only
//
// Package linux starts further ones, which serve the sandbox until the process ends.
//
// # Memory
//
// An evaluation may keep a thousand sessions on one machine, and each has a monitor. Before main
// runs, Go initializes every package of the program. That costs about 2 MB for each monitor, and
// with GOGC=off nothing is freed. So on Unix the monitor runs in an init function, when only the
// packages that this one imports are initialized. It takes 1.15 MB without cgo, and 1.3 MB with it.
//
// A garbage collection at the start was rejected: it saves 0.3 MB of heap, but the collector itself
// takes 0.3 MB. A separate small program was rejected. It takes 1.0 MB, but every system would need
// a second binary, and so would programs that embed package supervisor. One monitor for many
// workers was rejected, because it could not tell which orphan belongs to which worker.
package monitor

import "github.com/turnstone-repl/turnstone/internal/environ"

// coverageEnv returns the GOCOVERDIR entry of env, which names the directory for coverage data.
func coverageEnv(env []string) []string {
	if dir, ok := environ.Lookup(env, "GOCOVERDIR"); ok {
		return []string{"GOCOVERDIR=" + dir}
	}
	return nil
}
