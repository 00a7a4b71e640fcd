package confine

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// A shownHome knows what a session sees of a home directory by mounts of single names, so that it can
// see what is in their place when programs outside replace them. Names that are new are not its concern:
// a directory of keys that somebody renames must not come in.
type shownHome struct {
	times  map[string]time.Time   // of the directories with these names, when they were looked at
	places map[string]fs.FileInfo // what was mounted
}

const (
	// leastAge is how old the time of a directory must be before it is believed: two changes
	// may have the same one.
	leastAge = 50 * time.Millisecond
	// maxChanged bounds the places and paths of one refresh. The next one has the others.
	maxChanged = 100
)

func newShownHome(home string, places []Place) *shownHome {
	h := &shownHome{times: map[string]time.Time{}, places: map[string]fs.FileInfo{}}
	for _, place := range places {
		path := string(place.Path)
		if place.Kind != readable || !inside(path, home) {
			continue
		}
		if st, err := os.Lstat(path); err == nil {
			h.places[path] = st
			h.times[filepath.Dir(path)] = time.Time{}
		}
	}
	return h
}

// Changed returns what programs outside have changed since it was last called, for a session that runs:
// places of the home directory that are no longer what the session sees, and what git's settings lead to.
// It is nil if there is nothing. One goroutine calls it at a time.
func (p *Plan) Changed() *Grant {
	g := &Grant{Places: p.replaced()}
	for _, v := range p.views {
		if v.isStale() {
			p.unsent = append(p.unsent, v.read(p.home)...)
		}
	}
	for len(p.unsent) > 0 && len(g.Reach) < maxChanged {
		if path := p.unsent[0]; !slices.Contains(p.Reach, path) {
			p.Reach, g.Reach = append(p.Reach, path), append(g.Reach, path)
		}
		p.unsent = p.unsent[1:]
	}
	if len(g.Places) == 0 && len(g.Reach) == 0 {
		return nil
	}
	return g
}

// replaced returns the places of the home directory that are others now. It looks at some directories,
// and at the places only if one of those has changed.
func (p *Plan) replaced() (changed []Place) {
	if p.shown == nil || !p.shown.isStale() {
		return nil
	}
	for _, place := range p.Places {
		path := string(place.Path)
		was, known := p.shown.places[path]
		if !known {
			continue
		}
		now, err := os.Lstat(path)
		if err != nil || now.Mode().Type() != was.Mode().Type() || os.SameFile(now, was) {
			continue // its mount point has a kind, too
		}
		if len(changed) == maxChanged {
			clear(p.shown.times)
			p.shown.times[filepath.Dir(path)] = time.Time{}
			break
		}
		p.shown.places[path] = now
		changed = append(changed, place)
	}
	return changed
}

// isStale reports whether a directory has changed since the last look.
func (h *shownHome) isStale() (stale bool) {
	for dir, was := range h.times {
		st, err := os.Stat(dir)
		if err != nil || st.ModTime().Equal(was) {
			continue
		}
		stale = true
		if time.Since(st.ModTime()) > leastAge {
			h.times[dir] = st.ModTime()
		}
	}
	return stale
}

// maxViews bounds the repositories whose settings are looked at when a turn begins, the first that were
// found.
const maxViews = 16

// A gitView knows the files from which git reads the settings of a work tree. The session cannot change
// one but in plain settings; programs outside can.
type gitView struct {
	work, config, base string
	origins            map[string]fs.FileInfo // nil for one that is not there
}

func newGitView(work, config, base string, origins map[string]bool, named map[string]string) *gitView {
	v := &gitView{work, config, base, map[string]fs.FileInfo{}}
	for file := range origins {
		v.origins[file] = nil
	}
	for file, what := range named {
		if what == namedSettings { // it may be there later
			v.origins[file] = nil
		}
	}
	v.note()
	return v
}

func (v *gitView) note() {
	for file := range v.origins {
		v.origins[file] = nil
		if st, err := os.Stat(file); err == nil {
			v.origins[file] = st
		}
	}
}

func (v *gitView) isStale() bool {
	for file, was := range v.origins {
		now, err := os.Stat(file)
		switch {
		case (err == nil) != (was != nil):
			return true
		case err == nil && (now.Size() != was.Size() || !now.ModTime().Equal(was.ModTime()) || !os.SameFile(now, was)):
			return true
		}
	}
	return false
}

// read reads the settings again, and returns what they lead to.
func (v *gitView) read(home string) (reach []Path) {
	p := &planner{kinds: map[string]Place{}, home: home}
	(&search{p: p}).repository(v.work, v.base)
	for _, fresh := range p.views {
		*v = *fresh
	}
	if len(p.views) == 0 { // git reads none of it now
		v.note()
	}
	return p.reach
}
