package plan

import (
	"fmt"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"sort"
	"sync"

	"github.com/turnstone-repl/turnstone/internal/paths"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/filestate"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/homedir"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/mountlist"
)

// A mountWatch remembers which mounts of the machine a session sees, and which files and names
// decided about them. With it, TakeChanges finds what programs outside have replaced. It checks
// when a turn starts. In between, it checks only the paths that git settings lead to, while the
// session changes names.
type mountWatch struct {
	mu             sync.Mutex
	home           string
	workDirs       []string                                     // directories that the session writes
	replan         func(work, added []string) (*planner, error) // plans the mounts as they would be now
	seenMounts     map[string]seenMount                         // mounts that the session sees, by path
	addedPaths     []string                                     // paths that the user has shown it since its start
	pinnedMounts   map[string]mountlist.Mount                   // mounts that never change while it runs
	dirRecords     filestate.Records                            // directories of the names that decided
	nameIdentities map[string]string                            // these names, with the identities of their files
	namesByDir     map[string][]string                          // the same names, by directory
	fileRecords    filestate.Records                            // files whose content decided
	settings       *homedir.SettingsWriter
	gitViews       []*gitView
	unsentTargets  []mountlist.Path // additions to Plan.GitTargets that no grant has carried yet
	unreadable     []mountlist.Path // hidden paths next to files that the session sees

	events *filestate.ChangeEvents
	marks  *turnMarks
}

// turnMarks are event marks of what was found unchanged, which is not checked again until an event
// arrives.
type turnMarks struct {
	sources    *filestate.EventMarks // of dirRecords and fileRecords
	gitConfigs *filestate.EventMarks // of the files that git has read
}

func (m *turnMarks) unwatchAll() {
	m.sources.Unwatch()
	m.gitConfigs.Unwatch()
	*m = turnMarks{}
}

// A seenMount is a mount that the session sees, with the identity of the file behind it.
type seenMount struct {
	mountlist.Mount
	id string
}

const (
	// maxRefreshPaths bounds the mounts and paths of one refresh, and maxRefreshBytes their size,
	// so that the command fits into a pipe. The next turn takes the rest.
	maxRefreshPaths, maxRefreshBytes = 100, 20 << 10
)

func newMountWatch(p *planner, settings *homedir.SettingsWriter, work []string, events *filestate.ChangeEvents, replan func(work, added []string) (*planner, error)) *mountWatch {
	w := &mountWatch{events: events, marks: &turnMarks{}, home: p.Home, workDirs: slices.Clone(work), replan: replan, seenMounts: map[string]seenMount{}, pinnedMounts: map[string]mountlist.Mount{}, settings: settings, gitViews: p.gitViews}
	for path, m := range p.Mounts {
		if w.mayChange(p, m) {
			w.seenMounts[path] = seenMount{m, w.mountIdentity(m)}
		} else {
			w.pinnedMounts[path] = m
		}
	}
	for _, dir := range work {
		w.seenMounts[dir] = seenMount{mountlist.Mount{Path: mountlist.Path(dir), Kind: mountlist.WritableBind}, filestate.LocalIdentity(dir)}
	}
	w.recordSources(p)
	runtime.AddCleanup(w, (*turnMarks).unwatchAll, w.marks)
	return w
}

// mayChange reports whether a mount of a plan can change or appear while the session runs.
func (w *mountWatch) mayChange(p *planner, m mountlist.Mount) bool {
	path := string(m.Path)
	switch m.Kind {
	case mountlist.MaskedPath, mountlist.OverlayMount, mountlist.ReplacedFile:
		return true
	case mountlist.GrantableBind, mountlist.SymbolicLink, mountlist.ReadOnlyParent, mountlist.WritableParent:
		if m.Reason == mountlist.ReasonNamed && p.IsEmptyAt(path) {
			return true // also in a directory for temporary files
		}
		if m.Kind == mountlist.ReadOnlyParent && m.Reason != "" {
			return true // a link in the home directory leads to it
		}
		return w.home != "" && paths.Contains(w.home, path) && (path == w.home || p.IsEmptyAt(path)) || w.isRelocated(m) && !p.IsEmptyAt(path)
	}
	return false
}

// isRelocated reports whether a mount is a directory of the session that a variable or a link has
// moved out of the home directory. Its mount ends when a program replaces the directory.
func (w *mountWatch) isRelocated(p mountlist.Mount) bool {
	return p.Kind == mountlist.WritableParent && !paths.Contains(w.home, string(p.Path))
}

// mountIdentity returns a text that shows whether a mount still shows the same file. An empty
// directory shows the session's own files, but the home directory itself may have been replaced.
func (w *mountWatch) mountIdentity(p mountlist.Mount) string {
	switch path := string(p.Path); {
	case p.Kind == mountlist.ReplacedFile:
		return filestate.LocalIdentity(string(p.Source))
	case p.Kind == mountlist.GrantableBind, p.Kind == mountlist.OverlayMount, p.Kind == mountlist.MaskedPath, p.Kind == mountlist.ReadOnlyParent && (path == w.home || p.Reason != "" && !paths.Contains(w.home, path)), w.isRelocated(p):
		return filestate.LocalIdentity(path)
	}
	return ""
}

// TakeChanges returns what programs outside have changed since the last call. For a running
// session, these are mounts that are out of date, and paths that git settings lead to. It returns
// nil if nothing has changed. The notices are for the user of the session.
func (p *Plan) TakeChanges() (g *MountGrant, notices []string) {
	w := p.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.Mechanism != "" { // nothing can be mounted; files that the session reads by path are rewritten
		_ = w.settings.WriteFiles() // if the session has put something in their place, the next turn tries again
		return nil, nil
	}
	g = &MountGrant{}
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

// TakeGitTargets returns the paths that git settings lead to because of changes outside since the
// last call of TakeGitTargets or TakeChanges. It returns nil if there are none.
func (p *Plan) TakeGitTargets() *MountGrant {
	p.watch.mu.Lock()
	defer p.watch.mu.Unlock()
	g := &MountGrant{}
	if p.addGitTargets(g); len(g.GitTargets) == 0 {
		return nil
	}
	return g
}

// addGitTargets adds to a grant the paths that git settings lead to now.
func (p *Plan) addGitTargets(g *MountGrant) {
	w := p.watch
	w.rereadGitViews(p.home)
	for len(w.unsentTargets) > 0 && len(g.GitTargets) < maxRefreshPaths {
		if path := w.unsentTargets[0]; !slices.Contains(p.GitTargets, path) {
			p.GitTargets, g.GitTargets = append(p.GitTargets, path), append(g.GitTargets, path)
		}
		w.unsentTargets = w.unsentTargets[1:]
	}
}

// rereadGitViews reads the git settings that have changed.
func (w *mountWatch) rereadGitViews(home string) {
	if w.marks.gitConfigs.AreQuiet() {
		return
	}
	if w.marks.gitConfigs = w.marks.gitConfigs.RenewedMarks(); w.marks.gitConfigs == nil { // before the check, so that later changes are noticed
		var origins []string
		for _, v := range w.gitViews {
			origins = slices.AppendSeq(origins, maps.Keys(v.origins))
		}
		w.marks.gitConfigs = w.events.WatchPaths(origins)
	}
	for _, v := range w.gitViews {
		if v.isStale() {
			w.unsentTargets = append(w.unsentTargets, v.readTargets(home)...)
			defer w.marks.unwatchAll() // git may have read other files
		}
	}
}

// addUnreadable adds to a grant the paths that are now hidden next to files that the session sees.
// If a session had no such path when it started, its opens for reading are not checked.
func (p *Plan) addUnreadable(g *MountGrant, hidden []mountlist.Path) (notices []string) {
	for _, path := range hidden {
		switch {
		case slices.Contains(p.Unreadable, path), slices.Contains(p.revealedPaths, path):
		case len(p.Unreadable) > 0:
			p.Unreadable, g.Unreadable = append(p.Unreadable, path), append(g.Unreadable, path)
		default:
			p.revealedPaths = append(p.revealedPaths, path)
			notices = append(notices, fmt.Sprintf("%s is hidden from this session until a program outside replaces it; reset the session to keep it hidden", path))
		}
	}
	return notices
}

// isStale checks some directories and files, and the recorded names in directories that have
// changed. Other names do not matter: in a home directory, programs create some all the time.
func (w *mountWatch) isStale() bool {
	if w.marks.sources.AreQuiet() {
		return false
	}
	if w.marks.sources = w.marks.sources.RenewedMarks(); w.marks.sources == nil {
		w.marks.sources = w.events.WatchPaths(slices.AppendSeq(slices.Collect(maps.Keys(w.dirRecords)), maps.Keys(w.fileRecords)))
	}
	stale := w.fileRecords.IsStale()
	for dir := range w.dirRecords {
		if !w.dirRecords.HasChanged(dir) {
			continue
		}
		w.dirRecords.RecordFile(dir)
		for _, name := range w.namesByDir[dir] {
			stale = stale || filestate.LocalIdentity(name) != w.nameIdentities[name]
		}
	}
	if stale {
		w.marks.unwatchAll()
	}
	return stale
}

// recordSources records what decided about the mounts of a plan.
func (w *mountWatch) recordSources(p *planner) {
	w.dirRecords, w.fileRecords, w.nameIdentities, w.namesByDir = filestate.Records{}, filestate.Records{}, map[string]string{}, map[string][]string{}
	for _, path := range slices.AppendSeq(slices.Clone(p.CheckedPaths), maps.Keys(w.seenMounts)) {
		if !slices.Contains(hiddenSystemDirs, path) {
			w.recordName(path)
		}
	}
	for _, file := range p.Sources {
		w.fileRecords.RecordFile(file)
		w.recordAbsent(file)
	}
	for file, read := range w.settings.Sources {
		w.fileRecords[file] = read
		w.recordAbsent(file)
	}
}

// recordAbsent records a missing file by the name in its directory, because many missing files
// share a directory.
func (w *mountWatch) recordAbsent(file string) {
	if w.fileRecords[file] == (filestate.Record{}) && filepath.IsAbs(file) && !filestate.IsPresent(file) {
		delete(w.fileRecords, file)
		w.recordName(file)
	}
}

// recordName records a name, and within the home directory also the names of the directories above
// it.
func (w *mountWatch) recordName(path string) {
	if _, known := w.nameIdentities[path]; known || !filepath.IsAbs(path) {
		return
	}
	w.nameIdentities[path] = ""
	dir := filepath.Dir(path)
	if w.home != "" && paths.Contains(w.home, dir) {
		w.recordName(dir)
	}
	if _, noted := w.dirRecords[dir]; !noted {
		if !filestate.IsPresent(dir) { // its own name shows when it appears
			w.recordName(dir)
			return
		}
		w.dirRecords.RecordFile(dir) // before the name, so that later changes are noticed
	}
	w.namesByDir[dir] = append(w.namesByDir[dir], path)
	if s := w.seenMounts[path]; s.id != "" && s.Kind != mountlist.ReplacedFile {
		w.nameIdentities[path] = s.id
	} else {
		w.nameIdentities[path] = filestate.LocalIdentity(path)
	}
}

// addChanges adds the mounts that have changed to a grant.
func (w *mountWatch) addChanges(g *MountGrant) (notices []string) {
	p, err := w.replan(w.workDirs, w.addedPaths)
	if err != nil { // no sandbox can be planned now: the session keeps its mounts, and the next turn tries again
		w.fileRecords[""] = filestate.Record{IsRecent: true}
		return nil
	}
	w.home, w.unreadable = p.Home, p.unreadablePaths() // links may lead elsewhere now
	now := map[string]seenMount{}
	for path, m := range p.Mounts {
		if _, pinned := w.pinnedMounts[path]; w.mayChange(p, m) && !pinned {
			now[path] = seenMount{m, w.mountIdentity(m)}
		}
	}
	for _, dir := range w.workDirs {
		now[dir] = seenMount{mountlist.Mount{Path: mountlist.Path(dir), Kind: mountlist.WritableBind}, filestate.LocalIdentity(dir)}
	}
	left, whole := maxRefreshBytes, true
	for _, path := range slices.Sorted(maps.Keys(mergedKeys(w.seenMounts, now))) {
		was, is := w.seenMounts[path], now[path]
		below := slices.ContainsFunc(g.Mounts, func(above mountlist.Mount) bool { return paths.Contains(string(above.Path), path) })
		switch {
		case !below && (was == is || was.Kind == mountlist.WritableParent && was.id == "" || was.Kind == mountlist.ReadOnlyParent && is.id == was.id): // these show the session's own files
			continue
		case is.Kind == mountlist.ReadOnlyParent:
			g.Mounts = append(g.Mounts, is.Mount)
		case was.Kind == mountlist.WritableBind || w.isNeeded(path):
			if is.id != "" && is.id != was.id {
				notices = append(notices, fmt.Sprintf("%s was replaced by a program outside the sandbox; until a reset, this session keeps writing to the old one", path))
			}
		case len(g.Mounts)+len(g.Removed) == maxRefreshPaths, left < len(path)+len(is.Source):
			if whole = false; is.Kind != "" {
				delete(w.seenMounts, path)
			}
			continue
		case is.Kind != "":
			g.Mounts = append(g.Mounts, is.Mount)
		case was.Kind != mountlist.MaskedPath && was.Kind != mountlist.ReadOnlyParent: // masked and empty directories show nothing
			g.Removed = append(g.Removed, mountlist.Path(path))
		}
		left -= len(path) + len(is.Source)
		if w.seenMounts[path] = is; is.Kind == "" {
			delete(w.seenMounts, path)
		}
	}
	w.recordSources(p)
	if !whole { // the next turn continues
		w.fileRecords[""] = filestate.Record{IsRecent: true}
	}
	return notices
}

func mergedKeys(a, b map[string]seenMount) map[string]seenMount {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// isNeeded reports whether a mount that the session needs is below a path.
func (w *mountWatch) isNeeded(path string) bool {
	for below := range w.pinnedMounts {
		if below != path && paths.Contains(path, below) {
			return true
		}
	}
	return false
}

// currentMounts returns the session's present mounts, parents before children.
func (p *Plan) currentMounts() (mounts []mountlist.Mount) {
	w := p.watch
	if w == nil {
		return p.Mounts
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for path, s := range w.seenMounts {
		if _, pinned := w.pinnedMounts[path]; !pinned {
			mounts = append(mounts, s.Mount)
		}
	}
	mounts = slices.AppendSeq(mounts, maps.Values(w.pinnedMounts))
	sort.SliceStable(mounts, func(i, j int) bool { return mounts[i].Path < mounts[j].Path })
	return mounts
}

// CurrentRules returns what the session may do now: its mounts, the names that it must not create,
// the directories in which each name is checked, the paths that git settings lead to, and hidden
// paths. The result shares nothing with the plan.
func (p *Plan) CurrentRules() Plan {
	now := Plan{State: p.State, Mounts: p.currentMounts()}
	if p.watch != nil {
		p.watch.mu.Lock()
		defer p.watch.mu.Unlock()
	}
	now.Absent, now.GuardedDirs = slices.Clone(p.Absent), slices.Clone(p.GuardedDirs)
	now.GitTargets, now.Unreadable = slices.Clone(p.GitTargets), slices.Clone(p.Unreadable)
	return now
}

// RecordGrant records that the session has the access of a grant.
func (p *Plan) RecordGrant(g *MountGrant) {
	w := p.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	dir := string(g.Path)
	m := mountlist.Mount{Path: g.Path, Kind: mountlist.WritableBind, Reason: mountlist.ReasonNamed}
	p.Absent, p.GitTargets = append(p.Absent, g.Absent...), append(p.GitTargets, g.GitTargets...)
	if g.ReadOnly {
		m.Kind, w.addedPaths = mountlist.GrantableBind, append(w.addedPaths, dir)
	} else {
		p.GuardedDirs = append(p.GuardedDirs, g.Path)
		w.workDirs = append(w.workDirs, dir)
		w.pinnedMounts[dir] = m
		w.pinMounts(g.Mounts)
	}
	w.seenMounts[dir] = seenMount{m, filestate.LocalIdentity(dir)}
	w.recordName(dir)
	w.marks.unwatchAll()
	if room := maxViews - len(w.gitViews); room > 0 {
		w.gitViews = append(w.gitViews, g.gitViews[:min(room, len(g.gitViews))]...)
	}
}

// pinMounts records mounts that never change from now on.
func (w *mountWatch) pinMounts(mounts []mountlist.Mount) {
	for _, m := range mounts {
		if path := string(m.Path); m.Kind != mountlist.MaskedPath && m.Kind != mountlist.ReplacedFile {
			w.pinnedMounts[path] = m
			delete(w.seenMounts, path)
		}
	}
}
