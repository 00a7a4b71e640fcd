//go:build unix

package r

import (
	"fmt"
	"path/filepath"

	"github.com/turnstone-repl/turnstone/workers/internal/discovery"
)

// oldest is the first R that the worker runs on.
var oldest = discovery.Version{4, 0}

// consoleArgs have R take what it runs in for a console.
var consoleArgs []string

// frontEnds are where the front end is below R's home, what it was installed into,
// and a framework of macOS.
var frontEnds = []string{"bin/R", "Resources/bin/R", "lib/R/bin/R", "lib64/R/bin/R"}

// commands are R's names on PATH.
var commands = []string{"R"}

// frontEnd is what a program of R's leads to.
func frontEnd(path string) string { return path }

// unfit says why a program is not R's front end; "" means it may be.
func unfit(path string) string {
	dir, name := filepath.Split(path)
	if name == "Rscript" {
		return path + " runs files only: name the R beside it"
	}
	if filepath.Base(dir) == "exec" && name == "R" {
		return fmt.Sprintf("%s does not start by itself: name %s", path, filepath.Join(filepath.Dir(filepath.Clean(dir)), "R"))
	}
	return ""
}
