package confine

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/workers"
)

// A Plan lists the mounts that the stage makes for a worker.
type Plan struct {
	State   Path    // a private directory on disk, for temporary files and layers
	Mounts  []Mount // parents before children; all other paths are read-only
	Network bool    // true for the user's network; otherwise the session has only a loopback
	Egress  bool    // besides that loopback, connections leave through the supervisor

	Disk   int64 // bounds what State holds for the session, in bytes; 0 does not
	Shared int64 // bounds its shared memory; 0 leaves that to the kernel
	// Objects bounds what programs share by number (System V), in bytes; 0 leaves that to the kernel.
	Objects int64

	// Mechanism is what confines the worker; "" for namespaces. Landlock has Rules in place of mounts.
	Mechanism workers.SandboxMechanism
	Rules     []Rule

	Absent      []Path // names that are not there, and must not be made
	GuardedDirs []Path // what the session writes, in which a guard decides by name
	GitTargets  []Path // what git's settings lead to in it
	Unreadable  []Path // what is hidden next to files of the machine that the session sees: opens to read are decided, too
	Ask         bool   // hold a call that a person could allow

	writableDirs  []string
	userProtected []string    // stays as it is wherever the session may write
	watch         *mountWatch // what may have changed since; nil in the stage
	gitEnv        []string    // variables that say where settings of git are
	unshownPaths  []string
	hiddenPaths   []hiddenPath
	revealedPaths []Path // was told not to stay hidden
	home          string
	tempDirs      []string
}

// A Mount is a path with a mount of its own.
type Mount struct {
	Path   Path
	Kind   MountKind
	Source Path   // for a layer: the directory that its overlay covers, Path or a parent; for replaced: a file; for linked: what the link says
	Reason Reason `json:"-"` // why the session sees it in its home directory; "" for all else
}

// A Reason says why a session sees a place in its home directory.
type Reason string

const (
	ReasonDocument        Reason = "document"
	ReasonTool            Reason = "toolchain or library"
	ReasonCache           Reason = "cache"
	ReasonOnPath          Reason = "on PATH, or next to it"
	ReasonPlainSettings   Reason = "plain settings"
	ReasonWrittenSettings Reason = "settings, written without logins"
	ReasonInterpreter     Reason = "of the interpreter"
	ReasonWorkspace       Reason = "workspace"
	ReasonNamed           Reason = "named or allowed"
)

// A MountKind says what a place shows.
type MountKind string

const (
	writableBind   MountKind = "writable"  // the machine's files, writable
	pinnedBind     MountKind = "fixed"     // the same, but nobody can rename it, because it is a mount point
	readOnlyBind   MountKind = "protected" // the machine's files, read-only
	guardedFile    MountKind = "guarded"   // likewise, by the guard alone: git's settings, of which some may change
	maskedPath     MountKind = "hidden"    // something that cannot be opened
	overlayMount   MountKind = "layer"     // the machine's files; writes go to a copy
	emptyDir       MountKind = "private"   // an empty directory of the session
	replacedFile   MountKind = "replaced"  // another file, read-only
	readOnlyParent MountKind = "covered"   // an empty directory that has only places below it
	writableParent MountKind = "built"     // the same, but the session writes it
	grantableBind  MountKind = "readable"  // the machine's files, read-only until a user gives more
	symbolicLink   MountKind = "linked"    // a symbolic link in such a directory
)

// isEmptyDir reports whether a place is a directory of the session's own, in which it sees nothing of the
// machine but places.
func (k MountKind) isEmptyDir() bool {
	return k == emptyDir || k == readOnlyParent || k == writableParent
}

// A Path may have bytes that are not UTF-8, which JSON strings cannot hold.
type Path string

func (p Path) MarshalJSON() ([]byte, error) { return json.Marshal([]byte(p)) }

func (p *Path) UnmarshalJSON(text []byte) error {
	var b []byte
	err := json.Unmarshal(text, &b)
	*p = Path(b)
	return err
}

// A PlanInput has the facts that a plan needs besides the sandbox itself.
type PlanInput struct {
	Home     string   // the user's home; one that cannot be built counts as Account
	Path     string   // the user's PATH
	Dir      string   // the worker's working directory, absolute
	Program  string   // the worker's executable
	State    string   // becomes Plan.State; it exists
	Sessions string   // the directory of all sessions, which this session must not see
	Files    []string // directories below Sessions that belong to this session

	// Directories are those that variables such as XDG_CONFIG_HOME name, by the names below Home
	// that they stand for, such as ".config".
	Directories map[string]string

	// Replaced are files of the machine in whose place the session sees others.
	Replaced map[string]string

	// Settings is where the files are written that the session sees in the place of settings below
	// Home; "" for none.
	Settings string

	// Env is the environment of the user's programs, of which some variables name libraries.
	Env []string

	// Events spares the looks at files when a turn begins; nil looks each time.
	Events *FileEvents

	// OtherHomes are home directories that the user has besides; nil means those of Windows.
	OtherHomes []string

	// Account is the home directory of the user's account. Where Home is another, the session sees it as a part
	// of the machine, but for what is there of DefaultHidden.
	Account string

	// Temporary are the directories that each session gets an own version of; nil means the
	// usual ones.
	Temporary []string
}

// homeDir returns the user's home directory. Where HOME names none, tools ask for that of the account.
func (o *PlanInput) homeDir() string {
	if filepath.IsAbs(o.Home) && filepath.Clean(o.Home) != "/" {
		return o.Home
	}
	return cmp.Or(o.Account, o.Home)
}

// otherHomeDir returns what else tools take for it: the directory of the account, or what HOME says; "" for nothing.
func (o *PlanInput) otherHomeDir() string {
	for _, dir := range []string{o.Home, o.Account} {
		if dir = real(dir); filepath.IsAbs(dir) && dir != real(o.homeDir()) {
			return dir
		}
	}
	return ""
}

// maxPlaces bounds the mounts of one plan. Each takes some ten microseconds.
const maxPlaces = 2000

// NewPlan returns the plan, and notices for the user of the session.
func NewPlan(s *workers.Sandbox, o PlanInput) (_ *Plan, notices []string, err error) {
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
	written := &settingsWriter{planner: p, dir: o.Settings}
	if err := p.addMounts(s, o, work, written, func() {
		p.protectDirs(work, maxSearchedEntries)
		p.protectNamed(s.Protected, work)
	}); err != nil {
		return nil, nil, err
	}
	if written.hasUnfollowed {
		p.addNotice("your toolchains and caches have more than %d files that may get a login: one that is written to the others from now on can be seen until a reset", maxToolFiles)
	}
	p.recordUnshown()
	if len(p.mounts) > maxPlaces {
		return nil, nil, fmt.Errorf("the sandbox would need %d mounts, and %d are allowed: choose a smaller workspace", len(p.mounts), maxPlaces)
	}
	plan := &Plan{State: Path(real(o.State)), Network: s.Network == workers.NetworkFull, Egress: s.Network == workers.NetworkList, Absent: p.absent, writableDirs: work, userProtected: s.Protected, unshownPaths: p.unshownPaths, home: p.home, tempDirs: p.tempDirs}
	plan.GitTargets, plan.Unreadable, plan.gitEnv = p.gitTargets, p.unreadablePaths(), p.gitEnv
	for _, w := range work {
		plan.GuardedDirs = append(plan.GuardedDirs, Path(w))
	}
	for _, place := range p.mounts {
		plan.Mounts = append(plan.Mounts, place)
	}
	slices.SortFunc(plan.Mounts, func(a, b Mount) int { return cmp.Compare(a.Path, b.Path) }) // a parent is a prefix of its children, so it comes first
	plan.hiddenPaths = p.hiddenPaths
	plan.watch = newMountWatch(p, written, work, o.Events, func(work, added []string) (*planner, error) {
		now := newPlanner(o)
		now.knownDocuments, now.packageIndexes, now.ownRepos, now.workspaces, now.missingDirs, now.addedPaths = p.knownDocuments, p.packageIndexes, p.ownRepos, p.workspaces, p.missingDirs, added
		now.addHiddenPaths(s, o)
		return now, now.addMounts(s, o, work, written, func() {})
	})
	return plan, p.notices, nil
}

// WritablePaths returns what a session with this sandbox would write, without links. It leaves out what no plan makes
// writable.
func WritablePaths(s *workers.Sandbox, o PlanInput) []string {
	p := newPlanner(o)
	work, _ := p.workspaceDirs(s, o)
	for _, d := range s.Writable {
		if found, err := p.resolveWritable(d); err == nil {
			work = append(work, found)
		}
	}
	return work
}

func newPlanner(o PlanInput) *planner {
	p := &planner{mounts: map[string]Mount{}, packageIndexes: map[string]*packageIndex{}, home: realOrAbsent(o.homeDir()), directories: o.Directories, gitEnv: gitVariables(o.Env), ownRepos: readOwnRepos(real(o.State))}
	if o.Temporary == nil {
		o.Temporary = []string{"/tmp", "/var/tmp"}
	}
	for _, d := range o.Temporary {
		if d = real(d); d != "" && !slices.Contains(p.tempDirs, d) {
			p.tempDirs = append(p.tempDirs, d)
		}
	}
	return p
}

// addMounts adds the places of a session that writes these directories. protect adds what stays as it is in
// them.
func (p *planner) addMounts(s *workers.Sandbox, o PlanInput, work []string, written *settingsWriter, protect func()) error {
	for _, d := range p.tempDirs {
		p.set(d, emptyDir)
	}
	p.untrustedDirs, p.noDocuments = p.findUntrusted(s, o, work), s.Home == workers.HomeTools
	p.extraHomes = p.findOtherHomes(o.OtherHomes, work)
	written.planner = p
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
		if isToolFile(name) && isInAny(name, readableNames) { // a mount there could end
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
		p.withReason(why, func() { p.set(d, writableBind) })
	}
	protect()
	sessions := real(o.Sessions)
	p.set(sessions, readOnlyParent)
	p.withReason(ReasonInterpreter, func() { p.showRuntime(o) })
	p.dropUnmountable()
	for _, d := range o.Files {
		p.set(real(d), writableBind)
	}
	for name, by := range written.files {
		p.showWritten(name, by, work)
	}
	for path, by := range o.Replaced {
		if path = real(path); path != "" {
			p.mounts[path] = Mount{Path: Path(path), Kind: replacedFile, Source: Path(by)}
		}
	}
	p.checkedPaths = append(p.checkedPaths, filepath.Clean(o.homeDir()))
	p.hideAliases(slices.Concat(work, []string{sessions, real(o.Dir), real(o.State), real(o.Program)}))
	return p.hidePaths(append(slices.Clone(work), sessions))
}

// A planner collects places. For each path the last setting counts.
type planner struct {
	home         string
	tempDirs     []string
	mounts       map[string]Mount
	absent       []Path
	gitTargets   []Path
	gitViews     []*gitView
	ownRepos     map[string]bool // repositories that the session made
	gitEnv       []string        // variables that say where settings of git are
	unshownPaths []string        // are there, and not in the session's home directory
	notices      []string
	reason       Reason       // of the places that are set now
	hiddenPaths  []hiddenPath // what no session sees

	untrustedDirs []string // where this session may have made what is there
	noDocuments   bool     // of the home directory
	extraHomes    []string // the user's other home directories

	workspaces int      // how many of the directories that it writes are its own by the level
	strict     bool     // what cannot be shown is an error
	addedPaths []string // what the user has shown it since its start

	directories    map[string]string        // as in an Origin
	missingDirs    []string                 // of those, had no mount point when the session started
	excludedPaths  []string                 // what is hidden
	knownDocuments map[string]bool          // the documents that the session sees; nil before they were looked for
	packageIndexes map[string]*packageIndex // what was found in directories of packages
	checkedPaths   []string                 // paths that decided about a place
	sources        []string                 // files and directories that did by what is in them
}

func (p *planner) set(path string, k MountKind) {
	if path != "" {
		p.mounts[path] = Mount{Path: Path(path), Kind: k, Reason: p.reason}
	}
}

// withReason sets places for a reason.
func (p *planner) withReason(why Reason, set func()) {
	p.reason = why
	set()
	p.reason = ""
}

func (p *planner) addNotice(format string, args ...any) {
	p.notices = append(p.notices, fmt.Sprintf(format, args...))
}

// real resolves the symbolic links of a path. It returns "" if nothing is there.
func real(path string) string {
	if path == "" {
		return ""
	}
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return ""
	}
	return path
}

// realOrAbsent also resolves a path of which only the beginning is there.
func realOrAbsent(path string) string {
	if found := real(path); found != "" || !filepath.IsAbs(path) {
		return found
	}
	return filepath.Join(realOrAbsent(filepath.Dir(path)), filepath.Base(path))
}

// inside reports whether path is dir or below it.
func inside(path, dir string) bool {
	return path == dir || dir == "/" || len(path) > len(dir) && path[len(dir)] == '/' && path[:len(dir)] == dir
}

// tooWideReason says why a directory must never be writable, or "".
func (p *planner) tooWideReason(dir string) string {
	switch {
	case dir == "/":
		return "is the whole machine"
	case p.home != "" && dir == p.home:
		return "is the home directory"
	case p.home != "" && inside(p.home, dir):
		return "holds the home directory"
	case slices.Contains(p.tempDirs, dir):
		return "is for temporary files, and each session has its own"
	}
	return ""
}

// workspaceDirs returns the real paths that the sandbox's level makes writable.
func (p *planner) workspaceDirs(s *workers.Sandbox, o PlanInput) ([]string, error) {
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
		p.addNotice("%s %s, so the sandbox does not make it writable: this session only reads. Start in the directory of a project, or name one to write", dir, why)
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

// linkError says that a path must be named without its links.
func linkError(do, path, found string) error {
	return fmt.Errorf("the sandbox does not "+do+": it leads to %s through a link that a session may have made; name that one if you mean it", path, found)
}

// resolvePlain resolves a path, which must be one of a directory or a regular file.
func resolvePlain(do, path string) (string, error) {
	found, err := filepath.EvalSymlinks(path)
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

func isDir(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
}

// addLayers adds the directories of which the session writes a copy.
func (p *planner) addLayers(s *workers.Sandbox, o PlanInput, work []string) {
	root := ""
	if p.home != "" {
		// pyenv and conda install a runtime's packages below the home directory.
		if root = filepath.Dir(filepath.Dir(real(o.Program))); !inside(root, p.home) || root == p.home {
			root = ""
		}
	}
	for _, d := range append(slices.Clone(s.Layered), root) {
		p.checkedPaths = append(p.checkedPaths, filepath.Clean(d))
		dir := real(d)
		if st, err := os.Stat(dir); dir == "" || err != nil || !st.IsDir() || p.tooWideReason(dir) != "" || p.mounts[dir].Kind == writableParent || p.isLinkedAway(d, dir, p.isVisible) {
			continue
		}
		if !isInAny(dir, work) { // else it is writable itself
			why := ReasonTool
			if d == root {
				why = ReasonInterpreter
			}
			p.withReason(why, func() { p.addLayer(dir, real(o.State)) })
		}
		if p.mounts[dir].Kind == overlayMount && d == root { // it is whole: what has a login in it gets a place of its own
			maps.DeleteFunc(p.mounts, func(path string, place Mount) bool {
				return path != dir && inside(path, dir) && (place.Kind == grantableBind || place.Kind == readOnlyParent)
			})
		}
	}
	// A layer inside another layer is part of it.
	for path := range p.mounts {
		for above := filepath.Dir(path); above != "/" && p.mounts[path].Kind == overlayMount; above = filepath.Dir(above) {
			if p.mounts[above].Kind == overlayMount {
				delete(p.mounts, path)
			}
		}
	}
}

// addLayer adds a directory of which the session writes a copy. Those below the home directory share
// one overlay, or one for each directory there if the files of sessions are in it, so the start makes
// few of them.
func (p *planner) addLayer(dir, state string) {
	if inside(state, dir) {
		p.addNotice("%s holds the files of sessions, so this session has no copy of it and cannot write it", dir)
		return
	}
	from := dir
	if p.home != "" && inside(dir, p.home) {
		first, _, _ := strings.Cut(strings.TrimPrefix(dir, p.home+"/"), "/")
		for _, above := range []string{filepath.Join(p.home, first), p.home} {
			if !inside(state, above) && sameFilesystem(dir, above) {
				from = above
			}
		}
	}
	p.mounts[dir] = Mount{Path: Path(dir), Kind: overlayMount, Source: Path(from), Reason: p.reason}
}

// dropUnmountable leaves out the directories of the session's own for which there is no mount point, as
// where a variable names one that is missing in a place that the session only reads. One that is made there
// later has logins of the user.
func (p *planner) dropUnmountable() {
	maps.DeleteFunc(p.mounts, func(path string, place Mount) bool {
		if place.Kind != writableParent || p.isEmptyAt(path) {
			return false
		}
		if p.strict && !isPresent(path) {
			p.missingDirs = append(p.missingDirs, path)
		}
		return !isDir(path) || slices.Contains(p.missingDirs, path)
	})
	for _, path := range p.missingDirs {
		p.hiddenPaths = append(p.hiddenPaths, hiddenPath{name: path, realPath: real(path)})
	}
}

// isInAny reports whether a path is one of these directories, or below one.
func isInAny(path string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(d string) bool { return inside(path, d) })
}

// showRuntime lets the worker read its directory and its runtime even if they lie among temporary
// files.
func (p *planner) showRuntime(o PlanInput) {
	paths := []string{real(o.Dir)}
	for _, program := range []string{filepath.Clean(o.Program), real(o.Program)} {
		shown := filepath.Dir(program)
		if slices.Contains(p.tempDirs, shown) {
			shown = real(program) // and none of its neighbors; a link to elsewhere is not shown
		} else if above := filepath.Dir(shown); !slices.Contains(p.tempDirs, above) {
			shown = above
		}
		paths = append(paths, shown)
	}
	for _, path := range paths {
		if p.isEmptyAt(path) && p.mounts[path].Kind == "" {
			p.set(path, readOnlyBind)
		}
	}
}

// hiddenSystemDirs are places that only root can replace: of secrets, letters and jobs.
var hiddenSystemDirs = []string{"/run/user", "/run/secrets", "/var/run/secrets", "/var/mail", "/var/spool/mail", "/var/spool/cron", "/var/spool/at"}

// defaultHidden are those in the home directory, also where a variable has moved them.
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

// hidePaths adds the paths that nobody may open. Where the session sees a directory of its own, they are
// just not there.
func (p *planner) hidePaths(work []string) error {
	for _, h := range p.hiddenPaths {
		if !p.isEmptyAt(h.name) {
			p.checkedPaths = append(p.checkedPaths, h.name)
		}
		path := h.realPath
		if path == "" || h.isPlanned {
			continue
		}
		holds := false // the workspace
		for i, w := range work {
			if holds = holds || inside(w, path); inside(w, path) && !(i < p.workspaces && p.isWorkTreeIn(w, h)) {
				return fmt.Errorf("the sandbox cannot make %s writable: %s is hidden from sessions", w, h.name)
			}
		}
		if !holds { // else its other names are just not there
			p.set(path, maskedPath)
		}
	}
	for path := range p.mounts { // nothing shows below a hidden path
		for above := filepath.Dir(path); above != "/" && above != "."; above = filepath.Dir(above) {
			if p.mounts[above].Kind == maskedPath {
				delete(p.mounts, path)
			}
		}
	}
	for path, place := range p.mounts {
		if place.Kind == maskedPath && p.isEmptyAt(path) {
			delete(p.mounts, path)
			p.unshownPaths = append(p.unshownPaths, path)
		}
	}
	return nil
}

// isWorkTreeIn reports whether a workspace is a work tree that an agent made next to its own settings and logins, as
// in ~/.cursor/worktrees. The session's home directory has that, and nothing around it.
func (p *planner) isWorkTreeIn(work string, h hiddenPath) bool {
	_, tree, _ := strings.Cut(strings.TrimPrefix(work, h.realPath), "/worktrees/")
	return tree != "" && !h.isUserNamed && p.isEmptyAt(h.realPath)
}

// isReplaceable reports whether programs of the user can put something else in the place of a path.
func isReplaceable(path string) bool {
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		if isWritable(dir) {
			return true
		}
		if dir == filepath.Dir(dir) {
			return false
		}
	}
}

// unreadablePaths returns what is hidden next to files of the machine that the session sees. A mount over it ends when
// a program outside replaces it.
func (p *planner) unreadablePaths() (paths []Path) {
	for _, h := range p.hiddenPaths {
		if h.isPlanned || h.isMaskedOnly {
			continue
		}
		for _, path := range []string{h.name, realOrAbsent(h.name)} {
			if !p.isEmptyAt(path) && p.nearestKind(path) != maskedPath && isReplaceable(path) && !slices.Contains(paths, Path(path)) {
				paths = append(paths, Path(path))
			}
		}
	}
	return paths
}

// isEmptyAt reports whether the session has a directory of its own around a path, so that it sees
// nothing there but places.
func (p *planner) isEmptyAt(path string) bool {
	return p.nearestKind(path).isEmptyDir()
}

// nearestKind returns the kind of the nearest place around path, or "".
func (p *planner) nearestKind(path string) MountKind {
	for d := filepath.Dir(path); d != "/" && d != "."; d = filepath.Dir(d) {
		if place, ok := p.mounts[d]; ok {
			return place.Kind
		}
	}
	return ""
}

// WritableDirs returns the user's directories that the session can write.
func (p *Plan) WritableDirs() []string { return p.writableDirs }

// PrivateDirs returns the directories of which the session has its own.
func (p *Plan) PrivateDirs() []string {
	var all []string
	for _, place := range p.Mounts {
		if place.Kind == emptyDir {
			all = append(all, string(place.Path))
		}
	}
	return all
}
