package plan

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/internal/paths"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/filestate"
	"github.com/turnstone-repl/turnstone/workers"
)

// A Plan lists the mounts that the monitor makes for a worker, and what it checks by name.
type Plan struct {
	State   Path    // a private directory on disk, for temporary files and overlays
	Mounts  []Mount // parents before children; all other paths are read-only
	Network bool    // true for the user's network; otherwise the session has only a loopback
	Egress  bool    // besides the loopback, connections leave through the supervisor

	Disk   int64 // limit of the session's files in State, in bytes; 0 for none
	Shared int64 // limit of its shared memory, in bytes; 0 leaves it to the kernel
	// Objects bounds what programs share by number (System V IPC), in bytes; 0 leaves it to the
	// kernel.
	Objects int64

	// Mechanism is what confines the worker; "" for namespaces. Landlock uses Rules in place of
	// mounts.
	Mechanism workers.SandboxMechanism
	Rules     []Rule

	Absent      []Path // names that do not exist and must not be made
	GuardedDirs []Path // directories that the session writes, in which the guard checks each name
	GitTargets  []Path // paths in them that git settings lead to
	Unreadable  []Path // hidden paths next to files that the session sees; opens for reading are checked, too
	Ask         bool   // hold a call that the user could allow

	writableDirs  []string
	userProtected []string    // protected paths that the user has named
	watch         *mountWatch // finds later changes; nil in the monitor
	gitEnv        []string    // variables that name git settings files
	unshownPaths  []string
	hiddenPaths   []hiddenPath
	revealedPaths []Path // hidden paths that stay hidden only until they are replaced, as the user was told
	home          string
	tempDirs      []string
}

// An Origin holds the facts that a plan needs besides the sandbox itself.
type Origin struct {
	Home     string   // the user's home; Account is used if a home cannot be built from it
	Path     string   // the user's PATH
	Dir      string   // the worker's working directory, absolute
	Program  string   // the worker's executable
	State    string   // becomes Plan.State; it exists
	Sessions string   // the directory of all sessions, which this session must not see
	Files    []string // directories below Sessions that belong to this session

	// Directories are the directories that variables such as XDG_CONFIG_HOME name, by the names
	// below Home that they stand for, such as ".config".
	Directories map[string]string

	// Replaced maps files of the machine to the files that the session sees in their place.
	Replaced map[string]string

	// Settings is the directory for the files that replace settings below Home; "" for none.
	Settings string

	// Env is the environment of the user's programs; some variables name libraries.
	Env []string

	// Events saves checking files when a turn starts; nil checks each time.
	Events *filestate.ChangeEvents

	// OtherHomes are further home directories of the user; nil means those of Windows.
	OtherHomes []string

	// Account is the home directory of the user's account. If Home is another one, the session sees
	// Account like any directory of the machine, except for DefaultHidden.
	Account string

	// Temporary are the directories of which each session gets its own version; nil means the
	// default ones.
	Temporary []string
}

// homeDir returns the user's home directory. If HOME names none, tools use that of the account.
func (i *Origin) homeDir() string {
	if filepath.IsAbs(i.Home) && filepath.Clean(i.Home) != "/" {
		return i.Home
	}
	return cmp.Or(i.Account, i.Home)
}

// otherHomeDir returns the other directory that tools may take for the home directory: that of the
// account, or HOME. It returns "" if there is none.
func (i *Origin) otherHomeDir() string {
	for _, dir := range []string{i.Home, i.Account} {
		if dir = paths.RealOrEmpty(dir); filepath.IsAbs(dir) && dir != paths.RealOrEmpty(i.homeDir()) {
			return dir
		}
	}
	return ""
}

// maxMounts bounds the mounts of one plan. Each takes about ten microseconds.
const maxMounts = 2000

// NewPlan returns the plan, and notices for the user of the session.
func NewPlan(s *workers.Sandbox, o Origin) (_ *Plan, notices []string, err error) {
	if err := s.Validate(); err != nil {
		return nil, nil, err
	}
	p := newPlanner(o)
	work, err := p.workspaceDirs(s, o)
	if err != nil {
		return nil, nil, err
	}
	p.workspaces, p.strict = len(work), true
	p.addHiddenPaths(s, o)
	for _, d := range s.Writable {
		dir, err := p.resolveWritable(d)
		if err == nil && hasLinkIn(d, work) {
			err = linkError("make %s writable", d, dir)
		}
		if err == nil {
			err = p.checkIntended(s, o, d, dir, work[:p.workspaces])
		}
		if err != nil {
			return nil, nil, err
		}
		work = append(work, dir)
	}
	written := &settingsWriter{rules: &p.homeRules, dir: o.Settings}
	if err := p.addMounts(s, o, work, written, func() {
		p.protectDirs(work, maxSearchedEntries)
		p.protectNamed(s.Protected, work)
	}); err != nil {
		return nil, nil, err
	}
	if written.hasUnfollowed {
		p.addNotice("your toolchains and caches have more than %d files that may get a login; a login written to one of the others from now on is visible until a reset", maxToolFiles)
	}
	p.recordUnshown()
	if len(p.mounts) > maxMounts {
		return nil, nil, fmt.Errorf("the sandbox would need %d mounts, and the maximum is %d; choose a smaller workspace", len(p.mounts), maxMounts)
	}
	plan := &Plan{State: Path(paths.RealOrEmpty(o.State)), Network: s.Network == workers.NetworkFull, Egress: s.Network == workers.NetworkList, Absent: p.absent, writableDirs: work, userProtected: s.Protected, unshownPaths: p.unshownPaths, home: p.home, tempDirs: p.tempDirs}
	plan.GitTargets, plan.Unreadable, plan.gitEnv = p.gitTargets, p.unreadablePaths(), p.gitEnv
	for _, w := range work {
		plan.GuardedDirs = append(plan.GuardedDirs, Path(w))
	}
	for _, m := range p.mounts {
		plan.Mounts = append(plan.Mounts, m)
	}
	slices.SortFunc(plan.Mounts, func(a, b Mount) int { return cmp.Compare(a.Path, b.Path) }) // parents sort before their children
	plan.hiddenPaths = p.hiddenPaths
	plan.watch = newMountWatch(p, written, work, o.Events, func(work, added []string) (*planner, error) {
		current := newPlanner(o)
		current.knownDocuments, current.packageIndexes, current.ownRepos, current.workspaces, current.missingDirs, current.addedPaths = p.knownDocuments, p.packageIndexes, p.ownRepos, p.workspaces, p.missingDirs, added
		current.addHiddenPaths(s, o)
		return current, current.addMounts(s, o, work, written, func() {})
	})
	return plan, p.notices, nil
}

// WritablePaths returns the paths without links that a session with this sandbox would write. It
// leaves out paths that no plan makes writable.
func WritablePaths(s *workers.Sandbox, o Origin) []string {
	p := newPlanner(o)
	work, _ := p.workspaceDirs(s, o)
	for _, d := range s.Writable {
		if found, err := p.resolveWritable(d); err == nil {
			work = append(work, found)
		}
	}
	return work
}

func newPlanner(o Origin) *planner {
	p := &planner{
		homeRules:      homeRules{home: realOrAbsent(o.homeDir()), directories: o.Directories},
		mountList:      mountList{mounts: map[string]Mount{}},
		packageIndexes: map[string]*packageIndex{}, gitEnv: gitVariables(o.Env), ownRepos: ReadOwnRepos(paths.RealOrEmpty(o.State)),
	}
	if o.Temporary == nil {
		o.Temporary = []string{"/tmp", "/var/tmp"}
	}
	for _, d := range o.Temporary {
		if d = paths.RealOrEmpty(d); d != "" && !slices.Contains(p.tempDirs, d) {
			p.tempDirs = append(p.tempDirs, d)
		}
	}
	return p
}

// addMounts adds the mounts of a session that writes the work directories. protect adds the
// protected paths in them.
func (p *planner) addMounts(s *workers.Sandbox, o Origin, work []string, written *settingsWriter, protect func()) error {
	for _, d := range p.tempDirs {
		p.set(d, EmptyDir)
	}
	p.untrustedDirs, p.noDocuments = p.findUntrusted(s, o, work), s.Home == workers.HomeTools
	p.extraHomes = p.findOtherHomes(o.OtherHomes, work)
	written.rules = &p.homeRules
	if err := written.writeFiles(); err != nil {
		return err
	}
	for _, h := range p.hiddenPaths {
		if !h.isPlanned {
			p.excludedPaths = append(p.excludedPaths, h.name, realOrAbsent(h.name))
		}
	}
	for _, name := range withheldNames {
		p.excludedPaths = append(p.excludedPaths, p.homePath(name))
	}
	for name := range written.files {
		if isToolFile(name) && isInAny(name, readableNames) { // a mount there could end when the file is replaced
			p.excludedPaths = append(p.excludedPaths, p.homeLinkPath(name))
		}
	}
	p.buildHome(s, o, work)
	p.addLayers(s, o, work)
	if err := p.revealPaths(slices.Concat(s.Readable, p.addedPaths), o, work); err != nil {
		return err
	}
	for i, d := range work {
		why := ReasonNamed
		if i < p.workspaces {
			why = ReasonWorkspace
		}
		p.withReason(why, func() { p.set(d, WritableBind) })
	}
	protect()
	sessions := paths.RealOrEmpty(o.Sessions)
	p.set(sessions, ReadOnlyParent)
	p.withReason(ReasonInterpreter, func() { p.showRuntime(o) })
	p.dropUnmountable()
	for _, d := range o.Files {
		p.set(paths.RealOrEmpty(d), WritableBind)
	}
	h := p.homeBuilder(o, work)
	for name, source := range written.files {
		h.showWritten(name, source)
	}
	for path, source := range o.Replaced {
		if path = paths.RealOrEmpty(path); path != "" {
			p.mounts[path] = Mount{Path: Path(path), Kind: ReplacedFile, Source: Path(source)}
		}
	}
	p.checkedPaths = append(p.checkedPaths, filepath.Clean(o.homeDir()))
	p.hideAliases(slices.Concat(work, []string{sessions, paths.RealOrEmpty(o.Dir), paths.RealOrEmpty(o.State), paths.RealOrEmpty(o.Program)}))
	return p.hidePaths(append(slices.Clone(work), sessions))
}

// A planner makes the plan of one session from its options and from what the disk has.
type planner struct {
	homeRules
	mountList
	absent       []Path
	gitTargets   []Path
	gitViews     []*gitView
	ownRepos     map[string]bool // identities of repositories that the session made
	gitEnv       []string        // variables that name git settings files
	unshownPaths []string        // existing paths that are missing from the session's home directory

	workspaces int      // number of the work directories that come from the level
	strict     bool     // paths that cannot be shown are errors
	addedPaths []string // paths that the user has shown since the session's start

	missingDirs    []string                 // directories without a mount point when the session started
	knownDocuments map[string]bool          // documents that the session sees; nil before the first search
	packageIndexes map[string]*packageIndex // cached content of package directories
}

// homeBuilder returns a builder for the home directory of this plan.
func (p *planner) homeBuilder(o Origin, work []string) *homeBuilder {
	h := newHomeBuilder(&p.homeRules, &p.mountList, work, paths.RealOrEmpty(o.State))
	h.knownDocuments, h.packageIndexes = p.knownDocuments, p.packageIndexes
	return h
}

// buildHome adds the home directory and the mounts in it.
func (p *planner) buildHome(s *workers.Sandbox, o Origin, work []string) {
	first := p.knownDocuments == nil
	if first {
		p.knownDocuments = map[string]bool{}
	}
	h := p.homeBuilder(o, work)
	h.isFirst = first
	h.buildHome(homeInput{path: o.Path, program: o.Program, env: o.Env, hasDocuments: s.Home != workers.HomeTools})
}

// workspaceDirs returns the real paths that the sandbox's level makes writable.
func (p *planner) workspaceDirs(s *workers.Sandbox, o Origin) ([]string, error) {
	if s.Level != workers.Workspace {
		return nil, nil
	}
	dir := s.Workspace
	if dir == "" {
		dir = o.Dir
	}
	found, err := resolveDirectory(dir)
	if err != nil {
		return nil, err
	}
	if why := p.tooWideReason(found); why != "" {
		p.addNotice("%s %s, so the sandbox does not make it writable and this session is read-only; start in the directory of a project, or name one to write", dir, why)
		return nil, nil
	}
	return append([]string{found}, p.repositoryOf(found)...), nil
}

// resolveWritable resolves a file or directory that a user wants to be writable.
func (p *planner) resolveWritable(path string) (string, error) {
	found, err := resolvePlain("make %s writable", path)
	if err != nil {
		return "", err
	}
	if why := p.tooWideReason(found); why != "" {
		return "", fmt.Errorf("the sandbox cannot make %s writable: it %s; name a directory in it", path, why)
	}
	return found, nil
}

// linkError returns an error that a path must be named without its links.
func linkError(do, path, found string) error {
	return fmt.Errorf("the sandbox does not "+do+": it leads to %s through a link that a session may have made; to allow it, name that path", path, found)
}

// resolvePlain resolves a path, which must be that of a directory or a regular file.
func resolvePlain(do, path string) (string, error) {
	found, err := paths.Real(path)
	if err != nil {
		return "", fmt.Errorf("the sandbox cannot "+do+": %w", path, err)
	}
	if st, err := os.Stat(found); err != nil || !st.IsDir() && !st.Mode().IsRegular() {
		return "", fmt.Errorf("the sandbox cannot "+do+": it is neither a directory nor a regular file", path)
	}
	return found, nil
}

func resolveDirectory(dir string) (string, error) {
	found, err := resolvePlain("make %s writable", dir)
	if err != nil {
		return "", err
	}
	if !isDir(found) {
		return "", fmt.Errorf("the sandbox cannot make %s writable: it is not a directory", dir)
	}
	return found, nil
}

// addLayers adds overlays for the directories of which the session writes a copy.
func (p *planner) addLayers(s *workers.Sandbox, o Origin, work []string) {
	root := ""
	if p.home != "" {
		// pyenv and conda install a runtime's packages below the home directory.
		if root = filepath.Dir(filepath.Dir(paths.RealOrEmpty(o.Program))); !paths.Contains(p.home, root) || root == p.home {
			root = ""
		}
	}
	for _, d := range append(slices.Clone(s.Layered), root) {
		p.checkedPaths = append(p.checkedPaths, filepath.Clean(d))
		dir := paths.RealOrEmpty(d)
		if st, err := os.Stat(dir); dir == "" || err != nil || !st.IsDir() || p.tooWideReason(dir) != "" || p.mounts[dir].Kind == WritableParent || p.isLinkedAway(d, dir, p.isVisible) {
			continue
		}
		if !isInAny(dir, work) { // directories in work are writable themselves
			why := ReasonTool
			if d == root {
				why = ReasonInterpreter
			}
			p.withReason(why, func() { p.homeBuilder(o, work).addLayer(dir) })
		}
		if p.mounts[dir].Kind == OverlayMount && d == root { // the overlay shows all of it; files with logins get their own mounts
			maps.DeleteFunc(p.mounts, func(path string, place Mount) bool {
				return path != dir && paths.Contains(dir, path) && (place.Kind == GrantableBind || place.Kind == ReadOnlyParent)
			})
		}
	}
	// A layer inside another layer is part of it.
	for path := range p.mounts {
		for above := filepath.Dir(path); above != "/" && p.mounts[path].Kind == OverlayMount; above = filepath.Dir(above) {
			if p.mounts[above].Kind == OverlayMount {
				delete(p.mounts, path)
			}
		}
	}
}

// dropUnmountable removes directories of the session without a mount point, such as a missing
// directory that a variable names where the session only reads. If it is made later, it contains
// logins of the user.
func (p *planner) dropUnmountable() {
	maps.DeleteFunc(p.mounts, func(path string, place Mount) bool {
		if place.Kind != WritableParent || p.isEmptyAt(path) {
			return false
		}
		if p.strict && !filestate.IsPresent(path) {
			p.missingDirs = append(p.missingDirs, path)
		}
		return !isDir(path) || slices.Contains(p.missingDirs, path)
	})
	for _, path := range p.missingDirs {
		p.hiddenPaths = append(p.hiddenPaths, hiddenPath{name: path, realPath: paths.RealOrEmpty(path)})
	}
}

// showRuntime lets the worker read its directory and its runtime even if they are in a directory
// for temporary files.
func (p *planner) showRuntime(o Origin) {
	dirs := []string{paths.RealOrEmpty(o.Dir)}
	for _, program := range []string{filepath.Clean(o.Program), paths.RealOrEmpty(o.Program)} {
		shown := filepath.Dir(program)
		if slices.Contains(p.tempDirs, shown) {
			shown = paths.RealOrEmpty(program) // but no files next to it; a link that leads elsewhere is not shown
		} else if above := filepath.Dir(shown); !slices.Contains(p.tempDirs, above) {
			shown = above
		}
		dirs = append(dirs, shown)
	}
	for _, path := range dirs {
		if p.isEmptyAt(path) && p.mounts[path].Kind == "" {
			p.set(path, ReadOnlyBind)
		}
	}
}

// hiddenSystemDirs contain secrets, mail and jobs, and only root can replace them.
var hiddenSystemDirs = []string{"/run/user", "/run/secrets", "/var/run/secrets", "/var/mail", "/var/spool/mail", "/var/spool/cron", "/var/spool/at"}

// defaultHidden returns the hidden paths in the home directory, including where variables have
// moved them.
func (p *planner) defaultHidden() (dirs []string) {
	if p.home == "" {
		return nil
	}
	for _, path := range workers.DefaultHidden(p.home) {
		dirs = append(dirs, path)
		if moved := p.homePath(strings.TrimPrefix(path, p.home+"/")); moved != path {
			dirs = append(dirs, moved)
		}
	}
	return dirs
}

// hidePaths masks the hidden paths. In directories of the session's own they are just left out.
func (p *planner) hidePaths(work []string) error {
	for _, h := range p.hiddenPaths {
		if !p.isEmptyAt(h.name) {
			p.checkedPaths = append(p.checkedPaths, h.name)
		}
		path := h.realPath
		if path == "" || h.isPlanned {
			continue
		}
		holds := false // path contains a work directory
		for i, w := range work {
			if holds = holds || paths.Contains(path, w); paths.Contains(path, w) && !(i < p.workspaces && p.isWorkTreeIn(w, h)) {
				return fmt.Errorf("the sandbox cannot make %s writable: %s is hidden from sessions", w, h.name)
			}
		}
		if !holds { // otherwise its other names are just left out
			p.set(path, MaskedPath)
		}
	}
	for path := range p.mounts { // nothing is shown below a hidden path
		for above := filepath.Dir(path); above != "/" && above != "."; above = filepath.Dir(above) {
			if p.mounts[above].Kind == MaskedPath {
				delete(p.mounts, path)
			}
		}
	}
	for path, m := range p.mounts {
		if m.Kind == MaskedPath && p.isEmptyAt(path) {
			delete(p.mounts, path)
			p.unshownPaths = append(p.unshownPaths, path)
		}
	}
	return nil
}

// isWorkTreeIn reports whether a workspace is a work tree that an agent made next to its own
// settings and logins, as in ~/.cursor/worktrees. The session sees the work tree and nothing around
// it.
func (p *planner) isWorkTreeIn(work string, h hiddenPath) bool {
	_, tree, _ := strings.Cut(strings.TrimPrefix(work, h.realPath), "/worktrees/")
	return tree != "" && !h.isUserNamed && p.isEmptyAt(h.realPath)
}

// unreadablePaths returns the hidden paths next to files that the session sees. A mount over such a
// path ends when a program outside replaces the file.
func (p *planner) unreadablePaths() (paths []Path) {
	for _, h := range p.hiddenPaths {
		if h.isPlanned || h.isMaskedOnly {
			continue
		}
		for _, path := range []string{h.name, realOrAbsent(h.name)} {
			if !p.isEmptyAt(path) && p.nearestKind(path) != MaskedPath && isReplaceable(path) && !slices.Contains(paths, Path(path)) {
				paths = append(paths, Path(path))
			}
		}
	}
	return paths
}

// WritableDirs returns the user's directories that the session can write.
func (p *Plan) WritableDirs() []string { return p.writableDirs }

// PrivateDirs returns the directories of which the session has its own version.
func (p *Plan) PrivateDirs() []string {
	var all []string
	for _, m := range p.Mounts {
		if m.Kind == EmptyDir {
			all = append(all, string(m.Path))
		}
	}
	return all
}
