//go:build unix

package r

import (
	"fmt"
	"path/filepath"

	"github.com/turnstone-repl/turnstone/workers/internal/discovery"
)

// minVersion is the oldest R that the worker runs on.
var minVersion = discovery.Version{4, 0}

// consoleArgs disable R's own history. It would have no lines, so that q("yes") and savehistory()
// would empty the user's .Rhistory.
var consoleArgs = []string{"--no-readline"}

// frontEnds are the paths of the front end below R's home, a prefix, and a framework of
// macOS.
var frontEnds = []string{"bin/R", "Resources/bin/R", "lib/R/bin/R", "lib64/R/bin/R"}

// commandNames are R's names on PATH.
var commandNames = []string{"R"}

// frontEnd returns the front end for a program of R.
func frontEnd(path string) string { return path }

// frontEndProblem returns why a program is not R's front end, or "" if it may be.
func frontEndProblem(path string) string {
	dir, name := filepath.Split(path)
	if name == "Rscript" {
		return path + " only runs files; name the R next to it"
	}
	if filepath.Base(dir) == "exec" && name == "R" {
		return fmt.Sprintf("%s cannot be started directly; name %s", path, filepath.Join(filepath.Dir(filepath.Clean(dir)), "R"))
	}
	return ""
}
