package confine

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"
)

// A watch knows what a session sees of the machine by mounts, and what decided that, so that it can tell
// what programs outside have replaced. It looks when a turn begins, and in between only at what git's settings
// lead to, while the session changes names.
type watch struct {
	mu     sync.Mutex
	home   string
	work   []string                                     // what the session writes
	again  func(work, added []string) (*planner, error) // plans the places as they would be now
	seen   map[string]seen                              // what the session sees, by path
	added  []string                                     // what the user has shown it since its start
	held   map[string]Place                             // places that never change while it runs
	dirs   records                                      // have names that decided
	names  map[string]string                            // these names, with the identities of what has them
	within map[string][]string                          // the same names, by directory
	files  records                                      // decided by what is in them
	own    *settings
	views  []*gitView
	unsent []Path // of Reach, found since the start
	closed []Path // what is hidden next to what the session sees

	events *FileEvents
	marks  *turnMarks
}

// turnMarks are of what was found unchanged, so that it is not looked at again before something happens to it.
type turnMarks struct {
	looked *fileMarks // of dirs and files
	viewed *fileMarks // of what git has read
}

func (m *turnMarks) end() {
	m.looked.end()
	m.viewed.end()
	*m = turnMarks{}
}

// A seen is a place, and the identity of what it shows.
type seen struct {
	Place
	id string
}

const (
	// leastAge is how old the time of a file must be before it is believed: two changes may have the
	// same one.
	leastAge = 50 * time.Millisecond
	// maxChanged bounds the places and paths of one refresh, and maxOrdered their bytes, so that the
	// order fits into a pipe. The next turn has the others.
	maxChanged, maxOrdered = 100, 20 << 10
)

func newWatch(p *planner, own *settings, work []string, events *FileEvents, again func(work, added []string) (*planner, error)) *watch {
	w := &watch{events: events, marks: &turnMarks{}, home: p.home, work: slices.Clone(work), again: again, seen: map[string]seen{}, held: map[string]Place{}, own: own, views: p.views}
	for path, place := range p.kinds {
		if w.follows(p, place) {
			w.seen[path] = seen{place, w.identity(place)}
		} else {
			w.held[path] = place
		}
	}
	for _, dir := range work {
		w.seen[dir] = seen{Place{Path: Path(dir), Kind: writable}, calmIdentity(dir)}
	}
	w.look(p)
	runtime.AddCleanup(w, (*turnMarks).end, w.marks)
	return w
}

// follows reports whether a place of a plan can become another one, or come, while the session runs.
func (w *watch) follows(p *planner, place Place) bool {
	path := string(place.Path)
	switch place.Kind {
	case hidden, layer, replaced:
		return true
	case readable, linked, covered, built:
		if place.Why == Named && p.isEmptyAt(path) {
			return true // also in a temporary directory
		}
		if place.Kind == covered && place.Why != "" {
			return true // a link of the home directory leads to it
		}
		return w.home != "" && inside(path, w.home) && (path == w.home || p.isEmptyAt(path)) || w.isElsewhere(place) && !p.isEmptyAt(path)
	}
	return false
}

// isElsewhere reports whether a place is a directory of the session's own that a variable or a link has put
// outside of the home directory. Its mount ends when a program replaces it.
func (w *watch) isElsewhere(p Place) bool { return p.Kind == built && !inside(string(p.Path), w.home) }

// identity returns what tells whether a place still shows the same. A covered one shows the session's own,
// but the home directory may be another one.
func (w *watch) identity(p Place) string {
	switch path := string(p.Path); {
	case p.Kind == replaced:
		return calmIdentity(string(p.From))
	case p.Kind == readable, p.Kind == layer, p.Kind == hidden, p.Kind == covered && (path == w.home || p.Why != "" && !inside(path, w.home)), w.isElsewhere(p):
		return calmIdentity(path)
	}
	return ""
}

// Changed returns what programs outside have changed since it was last called, for a session that runs:
// places that are no longer what the session sees, and what git's settings lead to; nil if there is
// nothing. The notices are for the user of the session.
func (p *Plan) Changed() (g *Grant, notices []string) {
	w := p.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.By != "" { // nothing can be mounted, and what the session reads by its path is written anew
		_ = w.own.write() // the session may have put something there in the meantime: then the next turn tries again
		return nil, nil
	}
	g = &Grant{}
	if w.isStale() {
		notices = w.compare(g)
	}
	p.reached(g)
	notices = append(notices, p.close(g, w.closed)...)
	if len(g.Places)+len(g.Gone)+len(g.Reach)+len(g.Closed) == 0 {
		return nil, notices
	}
	return g, notices
}

// Reached returns what programs outside have made git's settings lead to since it was last asked, or Changed;
// nil if there is nothing.
func (p *Plan) Reached() *Grant {
	p.watch.mu.Lock()
	defer p.watch.mu.Unlock()
	g := &Grant{}
	if p.reached(g); len(g.Reach) == 0 {
		return nil
	}
	return g
}

// reached adds to a grant what git's settings lead to now.
func (p *Plan) reached(g *Grant) {
	w := p.watch
	w.readViews(p.home)
	for len(w.unsent) > 0 && len(g.Reach) < maxChanged {
		if path := w.unsent[0]; !slices.Contains(p.Reach, path) {
			p.Reach, g.Reach = append(p.Reach, path), append(g.Reach, path)
		}
		w.unsent = w.unsent[1:]
	}
}

// readViews reads git's settings again that have changed.
func (w *watch) readViews(home string) {
	if w.marks.viewed.areQuiet() {
		return
	}
	if w.marks.viewed = w.marks.viewed.renewed(); w.marks.viewed == nil { // before the look: what changes after it is told
		var origins []string
		for _, v := range w.views {
			origins = slices.AppendSeq(origins, maps.Keys(v.origins))
		}
		w.marks.viewed = w.events.mark(origins)
	}
	for _, v := range w.views {
		if v.isStale() {
			w.unsent = append(w.unsent, v.read(home)...)
			defer w.marks.end() // it may have read other files
		}
	}
}

// close adds to a grant what is hidden now next to what the session sees. Of a session that had nothing such
// when it started, opens to read are not decided.
func (p *Plan) close(g *Grant, closed []Path) (notices []string) {
	for _, path := range closed {
		switch {
		case slices.Contains(p.Closed, path), slices.Contains(p.unclosed, path):
		case len(p.Closed) > 0:
			p.Closed, g.Closed = append(p.Closed, path), append(g.Closed, path)
		default:
			p.unclosed = append(p.unclosed, path)
			notices = append(notices, fmt.Sprintf("%s is hidden from this session until a program outside replaces it; after a reset it stays hidden", path))
		}
	}
	return notices
}

// isStale looks at some directories and files, and at the names in those directories that have changed:
// in a home directory there are always programs that make other names.
func (w *watch) isStale() bool {
	if w.marks.looked.areQuiet() {
		return false
	}
	if w.marks.looked = w.marks.looked.renewed(); w.marks.looked == nil {
		w.marks.looked = w.events.mark(slices.AppendSeq(slices.Collect(maps.Keys(w.dirs)), maps.Keys(w.files)))
	}
	stale := w.files.isStale()
	for dir := range w.dirs {
		if !w.dirs.changed(dir) {
			continue
		}
		w.dirs.note(dir)
		for _, name := range w.within[dir] {
			stale = stale || calmIdentity(name) != w.names[name]
		}
	}
	if stale {
		w.marks.end()
	}
	return stale
}

// look notes what decided about the places of a plan.
func (w *watch) look(p *planner) {
	w.dirs, w.files, w.names, w.within = records{}, records{}, map[string]string{}, map[string][]string{}
	for _, path := range slices.AppendSeq(slices.Clone(p.looked), maps.Keys(w.seen)) {
		if !slices.Contains(hiddenOfSystem, path) {
			w.name(path)
		}
	}
	for _, file := range p.sources {
		w.files.note(file)
		w.absent(file)
	}
	for file, read := range w.own.sources {
		w.files[file] = read
		w.absent(file)
	}
}

// absent follows a file that is not there by the directory where it would be, which many of them have in common.
func (w *watch) absent(file string) {
	if w.files[file] == (record{}) && filepath.IsAbs(file) && !exists(file) {
		delete(w.files, file)
		w.name(file)
	}
}

// name notes a name, and in the home directory those of the directories above it.
func (w *watch) name(path string) {
	if _, known := w.names[path]; known || !filepath.IsAbs(path) {
		return
	}
	w.names[path] = ""
	dir := filepath.Dir(path)
	if w.home != "" && inside(dir, w.home) {
		w.name(dir)
	}
	if _, noted := w.dirs[dir]; !noted {
		if !exists(dir) { // its own name shows when it comes
			w.name(dir)
			return
		}
		w.dirs.note(dir) // first: what changes after it shows
	}
	w.within[dir] = append(w.within[dir], path)
	if s := w.seen[path]; s.id != "" && s.Kind != replaced {
		w.names[path] = s.id
	} else {
		w.names[path] = calmIdentity(path)
	}
}

// compare adds the places that have changed to a grant.
func (w *watch) compare(g *Grant) (notices []string) {
	p, err := w.again(w.work, w.added)
	if err != nil { // what is there now makes no sandbox: the session keeps what it has, and the next turn looks again
		w.files[""] = record{young: true}
		return nil
	}
	w.home, w.closed = p.home, p.beside() // a link may lead elsewhere now
	now := map[string]seen{}
	for path, place := range p.kinds {
		if _, held := w.held[path]; w.follows(p, place) && !held {
			now[path] = seen{place, w.identity(place)}
		}
	}
	for _, dir := range w.work {
		now[dir] = seen{Place{Path: Path(dir), Kind: writable}, calmIdentity(dir)}
	}
	left, whole := maxOrdered, true
	for _, path := range slices.Sorted(maps.Keys(mergedKeys(w.seen, now))) {
		was, is := w.seen[path], now[path]
		below := slices.ContainsFunc(g.Places, func(above Place) bool { return inside(path, string(above.Path)) })
		switch {
		case !below && (was == is || was.Kind == built && was.id == "" || was.Kind == covered && is.id == was.id): // those are the session's own
			continue
		case is.Kind == covered:
			g.Places = append(g.Places, is.Place)
		case was.Kind == writable || w.holds(path):
			if is.id != "" && is.id != was.id {
				notices = append(notices, fmt.Sprintf("%s was replaced outside: this session keeps writing to the old one until you reset it", path))
			}
		case len(g.Places)+len(g.Gone) == maxChanged, left < len(path)+len(is.From):
			if whole = false; is.Kind != "" {
				delete(w.seen, path)
			}
			continue
		case is.Kind != "":
			g.Places = append(g.Places, is.Place)
		case was.Kind != hidden && was.Kind != covered: // else nothing is there that could be seen
			g.Gone = append(g.Gone, Path(path))
		}
		left -= len(path) + len(is.From)
		if w.seen[path] = is; is.Kind == "" {
			delete(w.seen, path)
		}
	}
	w.look(p)
	if !whole { // the next turn looks again
		w.files[""] = record{young: true}
	}
	return notices
}

func mergedKeys(a, b map[string]seen) map[string]seen {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// holds reports whether the session needs what is mounted below a place.
func (w *watch) holds(path string) bool {
	for below := range w.held {
		if below != path && inside(below, path) {
			return true
		}
	}
	return false
}

// current returns the places of the session as it is now, parents before children.
func (p *Plan) current() (places []Place) {
	w := p.watch
	if w == nil {
		return p.Places
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for path, s := range w.seen {
		if _, held := w.held[path]; !held {
			places = append(places, s.Place)
		}
	}
	places = slices.AppendSeq(places, maps.Values(w.held))
	slices.SortFunc(places, func(a, b Place) int { return cmp.Compare(a.Path, b.Path) })
	return places
}

// Granted notes that the session has what a grant gives.
func (p *Plan) Granted(g *Grant) {
	w := p.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	dir := string(g.Path)
	place := Place{Path: g.Path, Kind: writable, Why: Named}
	if g.Read {
		place.Kind, w.added = readable, append(w.added, dir)
	} else {
		w.work = append(w.work, dir)
		w.held[dir] = place
		w.hold(g.Places)
	}
	w.seen[dir] = seen{place, calmIdentity(dir)}
	w.name(dir)
	w.marks.end()
	if room := maxViews - len(w.views); room > 0 {
		w.views = append(w.views, g.views[:min(room, len(g.views))]...)
	}
}

// hold notes places that never change from now on.
func (w *watch) hold(places []Place) {
	for _, place := range places {
		if path := string(place.Path); place.Kind != hidden && place.Kind != replaced {
			w.held[path] = place
			delete(w.seen, path)
		}
	}
}

// A stamp tells whether a file has changed.
type stamp struct {
	device, inode     uint64
	size              int64
	modified, changed int64 // in nanoseconds; no program can set the second
}

// A record is what a file was when it was looked at; nothing if it was not there.
type record struct {
	stamp
	young bool // it had changed a moment ago, and is looked at again
}

// records of files are kept by their names.
type records map[string]record

func (r records) note(name string) {
	now := stampOf(name)
	r[name] = record{now, now != stamp{} && time.Since(time.Unix(0, now.changed)) < leastAge}
}

func (r records) changed(name string) bool {
	was := r[name]
	return was.young || stampOf(name) != was.stamp
}

func (r records) isStale() bool {
	for name := range r {
		if r.changed(name) {
			return true
		}
	}
	return false
}

const (
	// viewsOfDir bounds the repositories in one directory whose settings are looked at when a turn
	// begins, the first that were found.
	viewsOfDir = 16
	// maxViews bounds them in all directories that a session writes.
	maxViews = 64
)

// A gitView knows the files from which git reads the settings of a work tree. The session cannot change
// one but in plain settings; programs outside can.
type gitView struct {
	work, config, base string
	origins            records
	git                []string // variables that say where settings of git are
}

func newGitView(work, config, base string, origins map[string]bool, named map[string]string) *gitView {
	v := &gitView{work: work, config: config, base: base, origins: records{}}
	for file := range origins {
		v.origins.note(file)
	}
	for file, what := range named {
		if what == namedSettings { // it may be there later
			v.origins.note(file)
		}
	}
	return v
}

func (v *gitView) isStale() bool { return v.origins.isStale() }

// read reads the settings again, and returns what they lead to.
func (v *gitView) read(home string) (reach []Path) {
	p := &planner{kinds: map[string]Place{}, home: home, git: v.git}
	(&search{p: p}).repository(v.work, v.base)
	for _, fresh := range p.views {
		*v = *fresh
	}
	if len(p.views) == 0 { // git reads none of it now
		for file := range v.origins {
			v.origins.note(file)
		}
	}
	return p.reach
}
