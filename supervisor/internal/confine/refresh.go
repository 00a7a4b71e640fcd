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

// A mountWatch knows what a session sees of the machine by mounts, and what decided that, so that it can tell
// what programs outside have replaced. It looks when a turn begins, and in between only at what git's settings
// lead to, while the session changes names.
type mountWatch struct {
	mu             sync.Mutex
	home           string
	workDirs       []string                                     // what the session writes
	replan         func(work, added []string) (*planner, error) // plans the places as they would be now
	seenMounts     map[string]seenMount                         // what the session sees, by path
	addedPaths     []string                                     // what the user has shown it since its start
	pinnedMounts   map[string]Mount                             // places that never change while it runs
	dirRecords     records                                      // have names that decided
	nameIdentities map[string]string                            // these names, with the identities of what has them
	namesByDir     map[string][]string                          // the same names, by directory
	fileRecords    records                                      // decided by what is in them
	settings       *settingsWriter
	gitViews       []*gitView
	unsentTargets  []Path // of Reach, found since the start
	unreadable     []Path // what is hidden next to what the session sees

	events *FileEvents
	marks  *turnMarks
}

// turnMarks are of what was found unchanged, so that it is not looked at again before something happens to it.
type turnMarks struct {
	sources    *eventMarks // of dirs and files
	gitConfigs *eventMarks // of what git has read
}

func (m *turnMarks) unwatchAll() {
	m.sources.unwatch()
	m.gitConfigs.unwatch()
	*m = turnMarks{}
}

// A seenMount is a place, and the identity of what it shows.
type seenMount struct {
	Mount
	id string
}

const (
	// minFileAge is how old the time of a file must be before it is believed: two changes may have the
	// same one.
	minFileAge = 50 * time.Millisecond
	// maxRefreshPaths bounds the places and paths of one refresh, and maxRefreshBytes their bytes, so that the
	// order fits into a pipe. The next turn has the others.
	maxRefreshPaths, maxRefreshBytes = 100, 20 << 10
)

func newMountWatch(p *planner, own *settingsWriter, work []string, events *FileEvents, again func(work, added []string) (*planner, error)) *mountWatch {
	w := &mountWatch{events: events, marks: &turnMarks{}, home: p.home, workDirs: slices.Clone(work), replan: again, seenMounts: map[string]seenMount{}, pinnedMounts: map[string]Mount{}, settings: own, gitViews: p.gitViews}
	for path, place := range p.mounts {
		if w.isFollowed(p, place) {
			w.seenMounts[path] = seenMount{place, w.mountIdentity(place)}
		} else {
			w.pinnedMounts[path] = place
		}
	}
	for _, dir := range work {
		w.seenMounts[dir] = seenMount{Mount{Path: Path(dir), Kind: writableBind}, localIdentity(dir)}
	}
	w.recordSources(p)
	runtime.AddCleanup(w, (*turnMarks).unwatchAll, w.marks)
	return w
}

// isFollowed reports whether a place of a plan can become another one, or come, while the session runs.
func (w *mountWatch) isFollowed(p *planner, place Mount) bool {
	path := string(place.Path)
	switch place.Kind {
	case maskedPath, overlayMount, replacedFile:
		return true
	case grantableBind, symbolicLink, readOnlyParent, writableParent:
		if place.Reason == ReasonNamed && p.isEmptyAt(path) {
			return true // also in a temporary directory
		}
		if place.Kind == readOnlyParent && place.Reason != "" {
			return true // a link of the home directory leads to it
		}
		return w.home != "" && inside(path, w.home) && (path == w.home || p.isEmptyAt(path)) || w.isRelocated(place) && !p.isEmptyAt(path)
	}
	return false
}

// isRelocated reports whether a place is a directory of the session's own that a variable or a link has put
// outside of the home directory. Its mount ends when a program replaces it.
func (w *mountWatch) isRelocated(p Mount) bool {
	return p.Kind == writableParent && !inside(string(p.Path), w.home)
}

// mountIdentity returns what tells whether a place still shows the same. A covered one shows the session's own,
// but the home directory may be another one.
func (w *mountWatch) mountIdentity(p Mount) string {
	switch path := string(p.Path); {
	case p.Kind == replacedFile:
		return localIdentity(string(p.Source))
	case p.Kind == grantableBind, p.Kind == overlayMount, p.Kind == maskedPath, p.Kind == readOnlyParent && (path == w.home || p.Reason != "" && !inside(path, w.home)), w.isRelocated(p):
		return localIdentity(path)
	}
	return ""
}

// TakeChanges returns what programs outside have changed since it was last called, for a session that runs:
// places that are no longer what the session sees, and what git's settings lead to; nil if there is
// nothing. The notices are for the user of the session.
func (p *Plan) TakeChanges() (g *Grant, notices []string) {
	w := p.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.Mechanism != "" { // nothing can be mounted, and what the session reads by its path is written anew
		_ = w.settings.writeFiles() // the session may have put something there in the meantime: then the next turn tries again
		return nil, nil
	}
	g = &Grant{}
	if w.isStale() {
		notices = w.addChanges(g)
	}
	p.addGitTargets(g)
	notices = append(notices, p.addUnreadable(g, w.unreadable)...)
	if len(g.Mounts)+len(g.Removed)+len(g.GitTargets)+len(g.Unreadable) == 0 {
		return nil, notices
	}
	return g, notices
}

// TakeGitTargets returns what programs outside have made git's settings lead to since it was last asked, or Changed;
// nil if there is nothing.
func (p *Plan) TakeGitTargets() *Grant {
	p.watch.mu.Lock()
	defer p.watch.mu.Unlock()
	g := &Grant{}
	if p.addGitTargets(g); len(g.GitTargets) == 0 {
		return nil
	}
	return g
}

// addGitTargets adds to a grant what git's settings lead to now.
func (p *Plan) addGitTargets(g *Grant) {
	w := p.watch
	w.rereadGitViews(p.home)
	for len(w.unsentTargets) > 0 && len(g.GitTargets) < maxRefreshPaths {
		if path := w.unsentTargets[0]; !slices.Contains(p.GitTargets, path) {
			p.GitTargets, g.GitTargets = append(p.GitTargets, path), append(g.GitTargets, path)
		}
		w.unsentTargets = w.unsentTargets[1:]
	}
}

// rereadGitViews reads git's settings again that have changed.
func (w *mountWatch) rereadGitViews(home string) {
	if w.marks.gitConfigs.areQuiet() {
		return
	}
	if w.marks.gitConfigs = w.marks.gitConfigs.renewedMarks(); w.marks.gitConfigs == nil { // before the look: what changes after it is told
		var origins []string
		for _, v := range w.gitViews {
			origins = slices.AppendSeq(origins, maps.Keys(v.origins))
		}
		w.marks.gitConfigs = w.events.watchPaths(origins)
	}
	for _, v := range w.gitViews {
		if v.isStale() {
			w.unsentTargets = append(w.unsentTargets, v.readTargets(home)...)
			defer w.marks.unwatchAll() // it may have read other files
		}
	}
}

// addUnreadable adds to a grant what is hidden now next to what the session sees. Of a session that had nothing such
// when it started, opens to read are not decided.
func (p *Plan) addUnreadable(g *Grant, closed []Path) (notices []string) {
	for _, path := range closed {
		switch {
		case slices.Contains(p.Unreadable, path), slices.Contains(p.revealedPaths, path):
		case len(p.Unreadable) > 0:
			p.Unreadable, g.Unreadable = append(p.Unreadable, path), append(g.Unreadable, path)
		default:
			p.revealedPaths = append(p.revealedPaths, path)
			notices = append(notices, fmt.Sprintf("%s is hidden from this session until a program outside replaces it; after a reset it stays hidden", path))
		}
	}
	return notices
}

// isStale looks at some directories and files, and at the names in those directories that have changed:
// in a home directory there are always programs that make other names.
func (w *mountWatch) isStale() bool {
	if w.marks.sources.areQuiet() {
		return false
	}
	if w.marks.sources = w.marks.sources.renewedMarks(); w.marks.sources == nil {
		w.marks.sources = w.events.watchPaths(slices.AppendSeq(slices.Collect(maps.Keys(w.dirRecords)), maps.Keys(w.fileRecords)))
	}
	stale := w.fileRecords.isStale()
	for dir := range w.dirRecords {
		if !w.dirRecords.hasChanged(dir) {
			continue
		}
		w.dirRecords.recordFile(dir)
		for _, name := range w.namesByDir[dir] {
			stale = stale || localIdentity(name) != w.nameIdentities[name]
		}
	}
	if stale {
		w.marks.unwatchAll()
	}
	return stale
}

// recordSources notes what decided about the places of a plan.
func (w *mountWatch) recordSources(p *planner) {
	w.dirRecords, w.fileRecords, w.nameIdentities, w.namesByDir = records{}, records{}, map[string]string{}, map[string][]string{}
	for _, path := range slices.AppendSeq(slices.Clone(p.checkedPaths), maps.Keys(w.seenMounts)) {
		if !slices.Contains(hiddenSystemDirs, path) {
			w.recordName(path)
		}
	}
	for _, file := range p.sources {
		w.fileRecords.recordFile(file)
		w.recordAbsent(file)
	}
	for file, read := range w.settings.sources {
		w.fileRecords[file] = read
		w.recordAbsent(file)
	}
}

// recordAbsent follows a file that is not there by the directory where it would be, which many of them have in common.
func (w *mountWatch) recordAbsent(file string) {
	if w.fileRecords[file] == (record{}) && filepath.IsAbs(file) && !isPresent(file) {
		delete(w.fileRecords, file)
		w.recordName(file)
	}
}

// recordName notes a name, and in the home directory those of the directories above it.
func (w *mountWatch) recordName(path string) {
	if _, known := w.nameIdentities[path]; known || !filepath.IsAbs(path) {
		return
	}
	w.nameIdentities[path] = ""
	dir := filepath.Dir(path)
	if w.home != "" && inside(dir, w.home) {
		w.recordName(dir)
	}
	if _, noted := w.dirRecords[dir]; !noted {
		if !isPresent(dir) { // its own name shows when it comes
			w.recordName(dir)
			return
		}
		w.dirRecords.recordFile(dir) // first: what changes after it shows
	}
	w.namesByDir[dir] = append(w.namesByDir[dir], path)
	if s := w.seenMounts[path]; s.id != "" && s.Kind != replacedFile {
		w.nameIdentities[path] = s.id
	} else {
		w.nameIdentities[path] = localIdentity(path)
	}
}

// addChanges adds the places that have changed to a grant.
func (w *mountWatch) addChanges(g *Grant) (notices []string) {
	p, err := w.replan(w.workDirs, w.addedPaths)
	if err != nil { // what is there now makes no sandbox: the session keeps what it has, and the next turn looks again
		w.fileRecords[""] = record{isRecent: true}
		return nil
	}
	w.home, w.unreadable = p.home, p.unreadablePaths() // a link may lead elsewhere now
	now := map[string]seenMount{}
	for path, place := range p.mounts {
		if _, held := w.pinnedMounts[path]; w.isFollowed(p, place) && !held {
			now[path] = seenMount{place, w.mountIdentity(place)}
		}
	}
	for _, dir := range w.workDirs {
		now[dir] = seenMount{Mount{Path: Path(dir), Kind: writableBind}, localIdentity(dir)}
	}
	left, whole := maxRefreshBytes, true
	for _, path := range slices.Sorted(maps.Keys(mergedKeys(w.seenMounts, now))) {
		was, is := w.seenMounts[path], now[path]
		below := slices.ContainsFunc(g.Mounts, func(above Mount) bool { return inside(path, string(above.Path)) })
		switch {
		case !below && (was == is || was.Kind == writableParent && was.id == "" || was.Kind == readOnlyParent && is.id == was.id): // those are the session's own
			continue
		case is.Kind == readOnlyParent:
			g.Mounts = append(g.Mounts, is.Mount)
		case was.Kind == writableBind || w.isNeeded(path):
			if is.id != "" && is.id != was.id {
				notices = append(notices, fmt.Sprintf("%s was replaced outside: this session keeps writing to the old one until you reset it", path))
			}
		case len(g.Mounts)+len(g.Removed) == maxRefreshPaths, left < len(path)+len(is.Source):
			if whole = false; is.Kind != "" {
				delete(w.seenMounts, path)
			}
			continue
		case is.Kind != "":
			g.Mounts = append(g.Mounts, is.Mount)
		case was.Kind != maskedPath && was.Kind != readOnlyParent: // else nothing is there that could be seen
			g.Removed = append(g.Removed, Path(path))
		}
		left -= len(path) + len(is.Source)
		if w.seenMounts[path] = is; is.Kind == "" {
			delete(w.seenMounts, path)
		}
	}
	w.recordSources(p)
	if !whole { // the next turn looks again
		w.fileRecords[""] = record{isRecent: true}
	}
	return notices
}

func mergedKeys(a, b map[string]seenMount) map[string]seenMount {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// isNeeded reports whether the session needs what is mounted below a place.
func (w *mountWatch) isNeeded(path string) bool {
	for below := range w.pinnedMounts {
		if below != path && inside(below, path) {
			return true
		}
	}
	return false
}

// currentMounts returns the places of the session as it is now, parents before children.
func (p *Plan) currentMounts() (places []Mount) {
	w := p.watch
	if w == nil {
		return p.Mounts
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for path, s := range w.seenMounts {
		if _, held := w.pinnedMounts[path]; !held {
			places = append(places, s.Mount)
		}
	}
	places = slices.AppendSeq(places, maps.Values(w.pinnedMounts))
	slices.SortFunc(places, func(a, b Mount) int { return cmp.Compare(a.Path, b.Path) })
	return places
}

// RecordGrant notes that the session has what a grant gives.
func (p *Plan) RecordGrant(g *Grant) {
	w := p.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	dir := string(g.Path)
	place := Mount{Path: g.Path, Kind: writableBind, Reason: ReasonNamed}
	if g.ReadOnly {
		place.Kind, w.addedPaths = grantableBind, append(w.addedPaths, dir)
	} else {
		w.workDirs = append(w.workDirs, dir)
		w.pinnedMounts[dir] = place
		w.pinMounts(g.Mounts)
	}
	w.seenMounts[dir] = seenMount{place, localIdentity(dir)}
	w.recordName(dir)
	w.marks.unwatchAll()
	if room := maxViews - len(w.gitViews); room > 0 {
		w.gitViews = append(w.gitViews, g.gitViews[:min(room, len(g.gitViews))]...)
	}
}

// pinMounts notes places that never change from now on.
func (w *mountWatch) pinMounts(places []Mount) {
	for _, place := range places {
		if path := string(place.Path); place.Kind != maskedPath && place.Kind != replacedFile {
			w.pinnedMounts[path] = place
			delete(w.seenMounts, path)
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
	isRecent bool // it had changed a moment ago, and is looked at again
}

// records of files are kept by their names.
type records map[string]record

func (r records) recordFile(name string) {
	now := stampOf(name)
	r[name] = record{now, now != stamp{} && time.Since(time.Unix(0, now.changed)) < minFileAge}
}

func (r records) hasChanged(name string) bool {
	was := r[name]
	return was.isRecent || stampOf(name) != was.stamp
}

func (r records) isStale() bool {
	for name := range r {
		if r.hasChanged(name) {
			return true
		}
	}
	return false
}

const (
	// maxViewsPerDir bounds the repositories in one directory whose settings are looked at when a turn
	// begins, the first that were found.
	maxViewsPerDir = 16
	// maxViews bounds them in all directories that a session writes.
	maxViews = 64
)

// A gitView knows the files from which git reads the settings of a work tree. The session cannot change
// one but in plain settings; programs outside can.
type gitView struct {
	work, config, base string
	origins            records
	gitEnv             []string // variables that say where settings of git are
}

func newGitView(work, config, base string, origins map[string]bool, named map[string]string) *gitView {
	v := &gitView{work: work, config: config, base: base, origins: records{}}
	for file := range origins {
		v.origins.recordFile(file)
	}
	for file, what := range named {
		if what == namedSettings { // it may be there later
			v.origins.recordFile(file)
		}
	}
	return v
}

func (v *gitView) isStale() bool { return v.origins.isStale() }

// readTargets reads the settings again, and returns what they lead to.
func (v *gitView) readTargets(home string) (reach []Path) {
	p := &planner{mounts: map[string]Mount{}, home: home, gitEnv: v.gitEnv}
	(&repoSearch{p: p}).protectWorkTree(v.work, v.base)
	for _, fresh := range p.gitViews {
		*v = *fresh
	}
	if len(p.gitViews) == 0 { // git reads none of it now
		for file := range v.origins {
			v.origins.recordFile(file)
		}
	}
	return p.gitTargets
}
