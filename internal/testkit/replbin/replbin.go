// Package replbin builds the repl command for tests that run it as users do. It starts no
// goroutines.
package replbin

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// pathEnv names a built command that tests use instead of building one. The machine that runs them
// may have no Go, and the programs that they start use the same build.
const pathEnv = "TURNSTONE_TEST_REPL"

// Path returns the path of the built command, or "" if there is none.
func Path() string {
	path := os.Getenv(pathEnv)
	if path == "" {
		return ""
	}
	if whole, err := filepath.Abs(path); err == nil { // the path may lack its drive
		path = whole
	}
	return path
}

// BuildShared makes Path return a command, for this process and those that it starts. It builds
// the command in dir, unless the environment names one.
func BuildShared(dir string) error {
	if Path() != "" {
		return nil
	}
	path := filepath.Join(dir, "repl")
	if err := Build(path); err != nil {
		return err
	}
	return os.Setenv(pathEnv, path)
}

// Build builds the command from the source tree at a path, with additional variables for the go
// command.
func Build(path string, env ...string) error {
	cmd := exec.Command("go", "build", "-buildvcs=false", "-o", path, "github.com/turnstone-repl/turnstone/cmd/repl")
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot build the command: %w\n%s", err, out)
	}
	return nil
}
