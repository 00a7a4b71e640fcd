package confine

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/turnstone-repl/turnstone/workers"
)

// A user may show a session more of the home directory, except closed places.

// A closedPlace is one that no session sees.
type closedPlace struct {
	name   string // as it is listed, cleaned
	at     string // without links; "" if it is not there
	placed bool   // the planner has set its place already
	alone  bool   // a mount hides it, and opens to read are not decided for it
	named  bool   // by the sandbox, and not by default
}

// close notes the places that no session sees.
func (p *planner) close(s *workers.Sandbox, o Origin) {
	add := func(kind closedPlace, paths []string) {
		for _, h := range paths {
			c := kind
			c.name = filepath.Clean(h)
			if exists(h) {
				c.at = real(h)
			}
			p.closed = append(p.closed, c)
		}
	}
	add(closedPlace{named: true}, s.Hidden)
	add(closedPlace{}, p.defaultHidden())
	add(closedPlace{alone: true}, hiddenOfSystem)
	if other := o.otherHome(); other != "" {
		add(closedPlace{alone: true}, workers.DefaultHidden(other))
	}
	if at := real(o.Sessions); at != "" {
		p.closed = append(p.closed, closedPlace{name: at, at: at, placed: true})
	}
}

// mayShow returns why no session sees a path without links; nil for one that a user may show it.
func mayShow(closed []closedPlace, path string) error {
	for _, c := range closed {
		for _, at := range []string{c.name, c.at} {
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

// MayShow returns why no user is asked to show a session a path, which is absolute and without symbolic
// links. It is nil for one that a user may show.
func MayShow(s *workers.Sandbox, o Origin, path string) error {
	p := &planner{home: real(o.home()), directories: o.Directories, temporary: []string{"/tmp", "/var/tmp"}}
	p.close(s, o)
	if why := p.tooWide(path); why != "" {
		return fmt.Errorf("the sandbox cannot show %s: it %s; name something in it", path, why)
	}
	above := filesAbove(path)
	for _, c := range p.closed { // it may have another name
		if isOneOf(above, c.name) {
			return fmt.Errorf("the sandbox never shows %s: it is hidden from sessions", path)
		}
	}
	return mayShow(p.closed, path)
}

// showable resolves a file or directory that a user wants a session to see.
func (p *planner) showable(path string) (string, error) {
	found, err := plain("show %s", path)
	if err != nil {
		return "", err
	}
	if why := p.tooWide(found); why != "" {
		return "", fmt.Errorf("the sandbox cannot show %s: it %s; name something in it", path, why)
	}
	return found, mayShow(p.closed, found)
}

// reveal adds the paths that the user shows the session.
func (p *planner) reveal(paths []string, o Origin, work []string) error {
	h := &homeBuilder{planner: p, work: work, state: real(o.State), dirs: map[string]string{}}
	for _, path := range paths {
		p.looked = append(p.looked, filepath.Clean(path))
		found, err := p.showable(path)
		if err == nil && hasLinkIn(path, work) {
			err = linkError("show %s", path, found)
		}
		if err != nil && p.strict {
			return err
		}
		if err != nil {
			continue // it has gone, or is something else now
		}
		p.because(Named, func() {
			h.resolve(path)
			if p.seesNothingAt(found) && !isIn(found, work) {
				p.set(found, readable)
			}
		})
	}
	return nil
}

// seesNothingAt reports whether the session does not see the machine's file at a path.
func (p *planner) seesNothingAt(path string) bool {
	k := p.kinds[path].Kind
	return k == built || k == "" && p.isEmptyAt(path)
}

// noteUnshown notes the names that exist and are not shown, so that an error can be explained by one.
func (p *planner) noteUnshown() {
	shown := map[string]bool{} // places, and the directories above them
	for path := range p.kinds {
		for ; !shown[path] && path != "/" && path != "."; path = filepath.Dir(path) {
			shown[path] = true
		}
	}
	for path, place := range p.kinds {
		if place.Kind == built || place.Kind == covered && (path == p.home || p.known[path]) {
			p.noteIn(path, shown)
		}
	}
}

// noteIn notes the names in a directory that are not shown. Where a user cannot show one as a whole, it notes
// the names in that.
func (p *planner) noteIn(dir string, shown map[string]bool) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch {
		case shown[path] && p.kinds[path].Kind == "" && p.isClosed(path): // the workspace is in it
			p.noteIn(path, shown)
		case shown[path] || len(p.unshown) >= maxUnshown:
		case e.IsDir() && p.holdsClosed(path):
			p.noteIn(path, shown)
		default:
			p.unshown = append(p.unshown, path)
		}
	}
}

func (p *planner) isClosed(path string) bool {
	return slices.ContainsFunc(p.closed, func(c closedPlace) bool { return c.at != "" && inside(path, c.at) })
}

func (p *planner) holdsClosed(path string) bool {
	return slices.ContainsFunc(p.closed, func(c closedPlace) bool {
		return c.name != path && inside(c.name, path) || c.at != path && inside(c.at, path)
	})
}

// Hidden returns the files and directories that no user can allow the session to open, sorted.
func (p *Plan) Hidden() (all []string) {
	for _, path := range p.unshown {
		if mayShow(p.closed, path) != nil {
			all = append(all, path)
		}
	}
	for _, place := range p.Places {
		if place.Kind == hidden {
			all = append(all, string(place.Path))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Unshown returns those that its home directory lacks and that a user can show, sorted.
func (p *Plan) Unshown() (all []string) {
	for _, path := range p.unshown {
		if mayShow(p.closed, path) == nil {
			all = append(all, path)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Home returns the home directory that is built for the session, and the places that it sees in it; ""
// if there is none.
func (p *Plan) Home() (home string, shown []Place) {
	for _, place := range p.current() {
		path := string(place.Path)
		switch {
		case path == p.home && place.Kind == covered:
			home = path
		case home != "" && place.Why != "" && inside(path, home):
			shown = append(shown, place)
		}
	}
	return home, shown
}

// MayShow returns why no user can show the session a path; nil if one can. It looks at names only.
func (p *Plan) MayShow(path string) error { return mayShow(p.closed, path) }
