package plan

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/turnstone-repl/turnstone/internal/paths"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/homedir"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/linkpath"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/mountlist"
)

// A user may show a session more of the home directory, except hidden paths.

// CheckShow returns an error if no user may show a session a path, which is absolute and without
// symbolic links.
func CheckShow(s *sandbox.Policy, o Origin, path string) error {
	p := &planner{Rules: homedir.Rules{Home: paths.RealOrEmpty(o.homeDir()), Directories: o.Directories, TempDirs: []string{"/tmp", "/var/tmp"}}}
	p.addHiddenPaths(s, o)
	if why := p.TooWideReason(path); why != "" {
		return fmt.Errorf("the sandbox cannot show %s: it %s; name a path in it", path, why)
	}
	above := linkpath.ParentInfos(path)
	for _, c := range p.HiddenPaths { // it may have another name
		if linkpath.IsAnyOf(above, c.Name) {
			return fmt.Errorf("the sandbox cannot show %s: it is hidden from sessions", path)
		}
	}
	return checkShow(p.HiddenPaths, path)
}

// resolveShowable resolves a file or directory that a user wants to show to a session.
func (p *planner) resolveShowable(path string) (string, error) {
	found, err := resolvePlain("show %s", path)
	if err != nil {
		return "", err
	}
	if why := p.TooWideReason(found); why != "" {
		return "", fmt.Errorf("the sandbox cannot show %s: it %s; name a path in it", path, why)
	}
	return found, checkShow(p.HiddenPaths, found)
}

// revealPaths adds the paths that the user shows to the session.
func (p *planner) revealPaths(named []string, o Origin, work []string) error {
	h := p.homeBuilder(o, work)
	for _, path := range named {
		p.CheckedPaths = append(p.CheckedPaths, filepath.Clean(path))
		found, err := p.resolveShowable(path)
		if err == nil && linkpath.HasLinkIn(path, work) {
			err = linkError("show %s", path, found)
		}
		if err != nil && p.strict {
			return err
		}
		if err != nil {
			continue // the file was removed or replaced
		}
		p.WithReason(mountlist.ReasonNamed, func() {
			h.ResolvePath(path)
			if p.IsInvisible(found) && !linkpath.IsInAny(found, work) {
				p.Set(found, mountlist.GrantableBind)
			}
		})
	}
	return nil
}

// maxUnshown bounds the remembered names that are not shown, which explain errors of the session.
const maxUnshown = 1000

// recordUnshown records names that exist and are not shown, which may explain an error of the
// session.
func (p *planner) recordUnshown() {
	shown := map[string]bool{} // mounts, and the directories above them
	for path := range p.Mounts {
		for ; !shown[path] && path != "/" && path != "."; path = filepath.Dir(path) {
			shown[path] = true
		}
	}
	for path, m := range p.Mounts {
		if m.Kind == mountlist.WritableParent || m.Kind == mountlist.ReadOnlyParent && (path == p.Home || p.knownDocuments[path]) {
			p.recordUnshownIn(path, shown)
		}
	}
}

// recordUnshownIn records the names in a directory that are not shown. For a directory that cannot
// be shown as a whole, it records the names in it.
func (p *planner) recordUnshownIn(dir string, shown map[string]bool) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch {
		case shown[path] && p.Mounts[path].Kind == "" && p.isHidden(path): // contains the workspace
			p.recordUnshownIn(path, shown)
		case shown[path] || len(p.unshownPaths) >= maxUnshown:
		case e.IsDir() && p.hasHiddenBelow(path):
			p.recordUnshownIn(path, shown)
		default:
			p.unshownPaths = append(p.unshownPaths, path)
		}
	}
}

// UnshownPaths returns the paths that are missing from the session's home directory and that a user
// can show, sorted.
func (p *Plan) UnshownPaths() (all []string) {
	for _, path := range p.unshownPaths {
		if checkShow(p.hiddenPaths, path) == nil {
			all = append(all, path)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Home returns the home directory that is built for the session, and the mounts in it. It returns
// "" if none is built.
func (p *Plan) Home() (home string, shown []mountlist.Mount) {
	for _, place := range p.currentMounts() {
		path := string(place.Path)
		switch {
		case path == p.home && place.Kind == mountlist.ReadOnlyParent:
			home = path
		case home != "" && place.Reason != "" && paths.Contains(home, path):
			shown = append(shown, place)
		}
	}
	return home, shown
}

// CheckShow returns an error if no user can show the session a path. It checks only names.
func (p *Plan) CheckShow(path string) error { return checkShow(p.hiddenPaths, path) }
