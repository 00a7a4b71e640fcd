// Package monitor is the life of a monitor, the parent process of one worker. It starts the worker,
// forwards signals to it, reports how it ends, and leaves nothing of it behind.
//
// A monitor is the program itself, re-executed. Its init runs before most of the program is
// initialized, so the package imports nothing that is costly to initialize.
package monitor

import "github.com/turnstone-repl/turnstone/internal/environ"

// coverageEnv returns the GOCOVERDIR entry of env, which names the directory for coverage data.
func coverageEnv(env []string) []string {
	if dir, ok := environ.Lookup(env, "GOCOVERDIR"); ok {
		return []string{"GOCOVERDIR=" + dir}
	}
	return nil
}
