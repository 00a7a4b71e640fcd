package confine

import (
	"io/fs"
	"os"
	"path/filepath"
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
	// settleTime is how long a directory must not have changed before its time is believed: two changes
	// may have the same one.
	settleTime = 50 * time.Millisecond
	// maxChanged bounds the places of one refresh. The others are found by the next.
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

// Changed returns the places of the home directory that are no longer what the session sees. It looks at
// some directories, and at the places only if one of those has changed. One goroutine calls it at a time.
func (p *Plan) Changed() (changed []Place) {
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
		if time.Since(st.ModTime()) > settleTime {
			h.times[dir] = st.ModTime()
		}
	}
	return stale
}
