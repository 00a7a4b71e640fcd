package confine

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/workers"
)

// MayGive returns why no person is asked to let a session write dir, an absolute path without
// symbolic links. It is nil for a directory that a person may give. It only looks at the
// path, and takes microseconds.
func MayGive(s *workers.Sandbox, home, dir string) error {
	p := &planner{home: cmp.Or(real(home), home), temporary: []string{"/tmp", "/var/tmp"}}
	refused := func(why string) error {
		return fmt.Errorf("the sandbox never makes %s writable: it %s; name another directory", dir, why)
	}
	if why := p.tooWide(dir); why != "" {
		return refused(why)
	}
	for _, kernel := range []string{"/proc", "/sys", "/dev", "/run", "/var/run"} {
		if inside(dir, kernel) {
			return refused("belongs to the system")
		}
	}
	for _, h := range append(p.defaultHidden(), s.Hidden...) {
		if inside(dir, filepath.Clean(h)) || real(h) != "" && inside(dir, real(h)) {
			return refused("is hidden from sessions")
		}
	}
	for part := range strings.SplitSeq(dir, "/") {
		if part == ".git" || slices.Contains(protectedNames, part) {
			return refused("holds what programs outside the session run or believe")
		}
	}
	return nil
}
