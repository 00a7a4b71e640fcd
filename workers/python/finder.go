package python

import (
	"fmt"
	"path/filepath"

	"github.com/turnstone-repl/turnstone/workers"
	"github.com/turnstone-repl/turnstone/workers/internal/discovery"
)

// A Candidate is a possible interpreter that Find inspected, with a note if it cannot be used.
type Candidate = workers.Candidate

// A finder is the state of one search for Python.
type finder struct {
	discovery.SearchContext
	path     string // FindOptions.Path
	requires string // FindOptions.Requires
}

// searchDirs returns f.Dir and its parents up to the home directory or the root.
func (f *finder) searchDirs() []string {
	var dirs []string
	for dir := f.Dir; ; dir = filepath.Dir(dir) {
		dirs = append(dirs, dir)
		if discovery.SamePath(dir, f.Home) || dir == filepath.Dir(dir) {
			return dirs
		}
	}
}

func (f *finder) describeSearchDirs() string {
	dirs := f.searchDirs()
	return fmt.Sprintf("none from %s up to %s", dirs[0], dirs[len(dirs)-1])
}
