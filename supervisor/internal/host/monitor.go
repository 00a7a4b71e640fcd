package host

import "github.com/turnstone-repl/turnstone/internal/environ"

// coverageEnv returns the GOCOVERDIR entry of env, which names the directory for coverage data.
func coverageEnv(env []string) []string {
	if dir, ok := environ.Lookup(env, "GOCOVERDIR"); ok {
		return []string{"GOCOVERDIR=" + dir}
	}
	return nil
}
