package confine

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/turnstone-repl/turnstone/workers"
)

// A user may show a session more of the home directory, except closed places.

// A hiddenPath is one that no session sees.
type hiddenPath struct {
	name         string // as it is listed, cleaned
	realPath     string // without links; "" if it is not there
	isPlanned    bool   // the planner has set its place already
	isMaskedOnly bool   // a mount hides it, and opens to read are not decided for it
	isUserNamed  bool   // by the sandbox, and not by default
}

// addHiddenPaths notes the places that no session sees.
func (p *planner) addHiddenPaths(s *workers.Sandbox, o PlanInput) {
	add := func(kind hiddenPath, paths []string) {
		for _, h := range paths {
			c := kind
			c.name = filepath.Clean(h)
			if isPresent(h) {
				c.realPath = real(h)
			}
			p.hiddenPaths = append(p.hiddenPaths, c)
		}
	}
	add(hiddenPath{isUserNamed: true}, s.Hidden)
	add(hiddenPath{}, p.defaultHidden())
	add(hiddenPath{isMaskedOnly: true}, hiddenSystemDirs)
	if other := o.otherHomeDir(); other != "" {
		add(hiddenPath{isMaskedOnly: true}, workers.DefaultHidden(other))
	}
	if at := real(o.Sessions); at != "" {
		p.hiddenPaths = append(p.hiddenPaths, hiddenPath{name: at, realPath: at, isPlanned: true})
	}
}

// checkShow returns why no session sees a path without links; nil for one that a user may show it.
func checkShow(closed []hiddenPath, path string) error {
	for _, c := range closed {
		for _, at := range []string{c.name, c.realPath} {
			switch {
			case at == "":
			case inside(path, at):
				return fmt.Errorf("the sandbox never shows %s: it is hidden from sessions", path)
			case inside(at, path):
				return fmt.Errorf("the sandbox never shows %s: %s in it is hidden from sessions; name something else in it", path, c.name)
			}
		}
	}
	return nil
}

// CheckShow returns why no user is asked to show a session a path, which is absolute and without symbolic
// links. It is nil for one that a user may show.
func CheckShow(s *workers.Sandbox, o PlanInput, path string) error {
	p := &planner{home: real(o.homeDir()), directories: o.Directories, tempDirs: []string{"/tmp", "/var/tmp"}}
	p.addHiddenPaths(s, o)
	if why := p.tooWideReason(path); why != "" {
		return fmt.Errorf("the sandbox cannot show %s: it %s; name something in it", path, why)
	}
	above := parentInfos(path)
	for _, c := range p.hiddenPaths { // it may have another name
		if isAnyOf(above, c.name) {
			return fmt.Errorf("the sandbox never shows %s: it is hidden from sessions", path)
		}
	}
	return checkShow(p.hiddenPaths, path)
}

// resolveShowable resolves a file or directory that a user wants a session to see.
func (p *planner) resolveShowable(path string) (string, error) {
	found, err := resolvePlain("show %s", path)
	if err != nil {
		return "", err
	}
	if why := p.tooWideReason(found); why != "" {
		return "", fmt.Errorf("the sandbox cannot show %s: it %s; name something in it", path, why)
	}
	return found, checkShow(p.hiddenPaths, found)
}

// revealPaths adds the paths that the user shows the session.
func (p *planner) revealPaths(paths []string, o PlanInput, work []string) error {
	h := &homeBuilder{planner: p, work: work, state: real(o.State), resolvedDirs: map[string]string{}}
	for _, path := range paths {
		p.checkedPaths = append(p.checkedPaths, filepath.Clean(path))
		found, err := p.resolveShowable(path)
		if err == nil && hasLinkIn(path, work) {
			err = linkError("show %s", path, found)
		}
		if err != nil && p.strict {
			return err
		}
		if err != nil {
			continue // it has gone, or is something else now
		}
		p.withReason(ReasonNamed, func() {
			h.resolvePath(path)
			if p.isInvisible(found) && !isInAny(found, work) {
				p.set(found, grantableBind)
			}
		})
	}
	return nil
}

// isInvisible reports whether the session does not see the machine's file at a path.
func (p *planner) isInvisible(path string) bool {
	k := p.mounts[path].Kind
	return k == writableParent || k == "" && p.isEmptyAt(path)
}

// recordUnshown notes the names that exist and are not shown, so that an error can be explained by one.
func (p *planner) recordUnshown() {
	shown := map[string]bool{} // places, and the directories above them
	for path := range p.mounts {
		for ; !shown[path] && path != "/" && path != "."; path = filepath.Dir(path) {
			shown[path] = true
		}
	}
	for path, place := range p.mounts {
		if place.Kind == writableParent || place.Kind == readOnlyParent && (path == p.home || p.knownDocuments[path]) {
			p.recordUnshownIn(path, shown)
		}
	}
}

// recordUnshownIn notes the names in a directory that are not shown. Where a user cannot show one as a whole, it notes
// the names in that.
func (p *planner) recordUnshownIn(dir string, shown map[string]bool) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch {
		case shown[path] && p.mounts[path].Kind == "" && p.isHidden(path): // the workspace is in it
			p.recordUnshownIn(path, shown)
		case shown[path] || len(p.unshownPaths) >= maxUnshown:
		case e.IsDir() && p.hasHiddenBelow(path):
			p.recordUnshownIn(path, shown)
		default:
			p.unshownPaths = append(p.unshownPaths, path)
		}
	}
}

func (p *planner) isHidden(path string) bool {
	return slices.ContainsFunc(p.hiddenPaths, func(c hiddenPath) bool { return c.realPath != "" && inside(path, c.realPath) })
}

func (p *planner) hasHiddenBelow(path string) bool {
	return slices.ContainsFunc(p.hiddenPaths, func(c hiddenPath) bool {
		return c.name != path && inside(c.name, path) || c.realPath != path && inside(c.realPath, path)
	})
}

// HiddenPaths returns the files and directories that no user can allow the session to open, sorted.
func (p *Plan) HiddenPaths() (all []string) {
	for _, path := range p.unshownPaths {
		if checkShow(p.hiddenPaths, path) != nil {
			all = append(all, path)
		}
	}
	for _, place := range p.Mounts {
		if place.Kind == maskedPath {
			all = append(all, string(place.Path))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// UnshownPaths returns those that its home directory lacks and that a user can show, sorted.
func (p *Plan) UnshownPaths() (all []string) {
	for _, path := range p.unshownPaths {
		if checkShow(p.hiddenPaths, path) == nil {
			all = append(all, path)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Home returns the home directory that is built for the session, and the places that it sees in it; ""
// if there is none.
func (p *Plan) Home() (home string, shown []Mount) {
	for _, place := range p.currentMounts() {
		path := string(place.Path)
		switch {
		case path == p.home && place.Kind == readOnlyParent:
			home = path
		case home != "" && place.Reason != "" && inside(path, home):
			shown = append(shown, place)
		}
	}
	return home, shown
}

// CheckShow returns why no user can show the session a path; nil if one can. It looks at names only.
func (p *Plan) CheckShow(path string) error { return checkShow(p.hiddenPaths, path) }
