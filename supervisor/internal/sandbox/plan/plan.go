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
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/filestate"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/gitdir"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/homedir"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/linkpath"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/mountlist"
)

// A Plan lists the mounts that the monitor makes for a worker, and what it checks by name.
type Plan struct {
	State   mountlist.Path    // a private directory on disk, for temporary files and overlays
	Mounts  []mountlist.Mount // parents before children; all other paths are read-only
	Network bool              // true for the user's network; otherwise the session has only a loopback
	Egress  bool              // besides the loopback, connections leave through the supervisor

	Disk   int64 // limit of the session's files in State, in bytes; 0 for none
	Shared int64 // limit of its shared memory, in bytes; 0 leaves it to the kernel
	// Objects bounds what programs share by number (System V IPC), in bytes; 0 leaves it to the
	// kernel.
	Objects int64

	// Mechanism is what confines the worker; "" for namespaces. Landlock uses Rules in place of
	// mounts.
	Mechanism sandbox.Mechanism
	Rules     []Rule

	Absent      []mountlist.Path // names that do not exist and must not be made
	GuardedDirs []mountlist.Path // directories that the session writes, in which the guard checks each name
	GitTargets  []mountlist.Path // paths in them that git settings lead to
	Unreadable  []mountlist.Path // hidden paths next to files that the session sees; opens for reading are checked, too
	Ask         bool             // hold a call that the user could allow

	writableDirs  []string
	userProtected []string    // protected paths that the user has named
	watch         *mountWatch // finds later changes; nil in the monitor
	gitEnv        []string    // variables that name git settings files
	unshownPaths  []string
	hiddenPaths   []homedir.HiddenPath
	revealedPaths []mountlist.Path // hidden paths that stay hidden only until they are replaced, as the user was told
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
func NewPlan(s *sandbox.Policy, o Origin) (_ *Plan, notices []string, err error) {
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
		if err == nil && linkpath.HasLinkIn(d, work) {
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
	written := &homedir.SettingsWriter{Rules: &p.Rules, Dir: o.Settings}
	if err := p.addMounts(s, o, work, written, func() {
		p.protectDirs(work, maxSearchedEntries)
		p.protectNamed(s.Protected, work)
	}); err != nil {
		return nil, nil, err
	}
	if written.HasUnfollowed {
		p.AddNotice("your toolchains and caches have more than %d files that may get a login; a login written to one of the others from now on is visible until a reset", homedir.MaxToolFiles)
	}
	p.recordUnshown()
	if len(p.Mounts) > maxMounts {
		return nil, nil, fmt.Errorf("the sandbox would need %d mounts, and the maximum is %d; choose a smaller workspace", len(p.Mounts), maxMounts)
	}
	plan := &Plan{State: mountlist.Path(paths.RealOrEmpty(o.State)), Network: s.Network == sandbox.NetworkFull, Egress: s.Network == sandbox.NetworkList, Absent: p.absent, writableDirs: work, userProtected: s.Protected, unshownPaths: p.unshownPaths, home: p.Home, tempDirs: p.TempDirs}
	plan.GitTargets, plan.Unreadable, plan.gitEnv = p.gitTargets, p.unreadablePaths(), p.gitEnv
	for _, w := range work {
		plan.GuardedDirs = append(plan.GuardedDirs, mountlist.Path(w))
	}
	for _, m := range p.Mounts {
		plan.Mounts = append(plan.Mounts, m)
	}
	slices.SortFunc(plan.Mounts, func(a, b mountlist.Mount) int { return cmp.Compare(a.Path, b.Path) }) // parents sort before their children
	plan.hiddenPaths = p.HiddenPaths
	plan.watch = newMountWatch(p, written, work, o.Events, func(work, added []string) (*planner, error) {
		current := newPlanner(o)
		current.knownDocuments, current.packageIndexes, current.ownRepos, current.workspaces, current.missingDirs, current.addedPaths = p.knownDocuments, p.packageIndexes, p.ownRepos, p.workspaces, p.missingDirs, added
		current.addHiddenPaths(s, o)
		return current, current.addMounts(s, o, work, written, func() {})
	})
	return plan, p.Notices, nil
}

// WritablePaths returns the paths without links that a session with this sandbox would write. It
// leaves out paths that no plan makes writable.
func WritablePaths(s *sandbox.Policy, o Origin) []string {
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
		Rules:          homedir.Rules{Home: linkpath.RealOrAbsent(o.homeDir()), Directories: o.Directories},
		List:           mountlist.List{Mounts: map[string]mountlist.Mount{}},
		packageIndexes: map[string]*homedir.PackageIndex{}, gitEnv: gitdir.GitVariables(o.Env), ownRepos: gitdir.ReadOwnRepos(paths.RealOrEmpty(o.State)),
	}
	if o.Temporary == nil {
		o.Temporary = []string{"/tmp", "/var/tmp"}
	}
	for _, d := range o.Temporary {
		if d = paths.RealOrEmpty(d); d != "" && !slices.Contains(p.TempDirs, d) {
			p.TempDirs = append(p.TempDirs, d)
		}
	}
	return p
}

// addMounts adds the mounts of a session that writes the work directories. protect adds the
// protected paths in them.
func (p *planner) addMounts(s *sandbox.Policy, o Origin, work []string, written *homedir.SettingsWriter, protect func()) error {
	for _, d := range p.TempDirs {
		p.Set(d, mountlist.EmptyDir)
	}
	p.UntrustedDirs, p.NoDocuments = p.findUntrusted(s, o, work), s.Home == sandbox.HomeTools
	p.ExtraHomes = p.FindOtherHomes(o.OtherHomes, work)
	written.Rules = &p.Rules
	if err := written.WriteFiles(); err != nil {
		return err
	}
	for _, h := range p.HiddenPaths {
		if !h.IsPlanned {
			p.ExcludedPaths = append(p.ExcludedPaths, h.Name, linkpath.RealOrAbsent(h.Name))
		}
	}
	for _, name := range homedir.WithheldNames {
		p.ExcludedPaths = append(p.ExcludedPaths, p.HomePath(name))
	}
	for name := range written.Files {
		if homedir.IsToolFile(name) && linkpath.IsInAny(name, homedir.ReadableNames) { // a mount there could end when the file is replaced
			p.ExcludedPaths = append(p.ExcludedPaths, p.HomeLinkPath(name))
		}
	}
	p.buildHome(s, o, work)
	p.addLayers(s, o, work)
	if err := p.revealPaths(slices.Concat(s.Readable, p.addedPaths), o, work); err != nil {
		return err
	}
	for i, d := range work {
		why := mountlist.ReasonNamed
		if i < p.workspaces {
			why = mountlist.ReasonWorkspace
		}
		p.WithReason(why, func() { p.Set(d, mountlist.WritableBind) })
	}
	protect()
	sessions := paths.RealOrEmpty(o.Sessions)
	p.Set(sessions, mountlist.ReadOnlyParent)
	p.WithReason(mountlist.ReasonInterpreter, func() { p.showRuntime(o) })
	p.dropUnmountable()
	for _, d := range o.Files {
		p.Set(paths.RealOrEmpty(d), mountlist.WritableBind)
	}
	h := p.homeBuilder(o, work)
	for name, source := range written.Files {
		h.ShowWritten(name, source)
	}
	for path, source := range o.Replaced {
		if path = paths.RealOrEmpty(path); path != "" {
			p.Mounts[path] = mountlist.Mount{Path: mountlist.Path(path), Kind: mountlist.ReplacedFile, Source: mountlist.Path(source)}
		}
	}
	p.CheckedPaths = append(p.CheckedPaths, filepath.Clean(o.homeDir()))
	p.hideAliases(slices.Concat(work, []string{sessions, paths.RealOrEmpty(o.Dir), paths.RealOrEmpty(o.State), paths.RealOrEmpty(o.Program)}))
	return p.hidePaths(append(slices.Clone(work), sessions))
}

// A planner makes the plan of one session from its options and from what the disk has.
// A planner collects what a plan consists of, from the rules of the home directory and the list of
// mounts to the paths in repositories.
type planner struct {
	homedir.Rules
	mountlist.List
	absent       []mountlist.Path
	gitTargets   []mountlist.Path
	gitViews     []*gitView
	ownRepos     map[string]bool // identities of repositories that the session made
	gitEnv       []string        // variables that name git settings files
	unshownPaths []string        // existing paths that are missing from the session's home directory

	workspaces int      // number of the work directories that come from the level
	strict     bool     // paths that cannot be shown are errors
	addedPaths []string // paths that the user has shown since the session's start

	missingDirs    []string                         // directories without a mount point when the session started
	knownDocuments map[string]bool                  // documents that the session sees; nil before the first search
	packageIndexes map[string]*homedir.PackageIndex // cached content of package directories
}

// homeBuilder returns a builder for the home directory of this plan.
func (p *planner) homeBuilder(o Origin, work []string) *homedir.Builder {
	h := homedir.NewBuilder(&p.Rules, &p.List, work, paths.RealOrEmpty(o.State))
	h.KnownDocuments, h.PackageIndexes = p.knownDocuments, p.packageIndexes
	return h
}

// buildHome adds the home directory and the mounts in it.
func (p *planner) buildHome(s *sandbox.Policy, o Origin, work []string) {
	first := p.knownDocuments == nil
	if first {
		p.knownDocuments = map[string]bool{}
	}
	h := p.homeBuilder(o, work)
	h.IsFirst = first
	h.BuildHome(homedir.HomeInput{Path: o.Path, Program: o.Program, Env: o.Env, HasDocuments: s.Home != sandbox.HomeTools})
}

// workspaceDirs returns the real paths that the sandbox's level makes writable.
func (p *planner) workspaceDirs(s *sandbox.Policy, o Origin) ([]string, error) {
	if s.Level != sandbox.Workspace {
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
	if why := p.TooWideReason(found); why != "" {
		p.AddNotice("%s %s, so the sandbox does not make it writable and this session is read-only; start in the directory of a project, or name one to write", dir, why)
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
	if why := p.TooWideReason(found); why != "" {
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
	if !linkpath.IsDir(found) {
		return "", fmt.Errorf("the sandbox cannot make %s writable: it is not a directory", dir)
	}
	return found, nil
}

// addLayers adds overlays for the directories of which the session writes a copy.
func (p *planner) addLayers(s *sandbox.Policy, o Origin, work []string) {
	root := ""
	if p.Home != "" {
		// pyenv and conda install a runtime's packages below the home directory.
		if root = filepath.Dir(filepath.Dir(paths.RealOrEmpty(o.Program))); !paths.Contains(p.Home, root) || root == p.Home {
			root = ""
		}
	}
	for _, d := range append(slices.Clone(s.Layered), root) {
		p.CheckedPaths = append(p.CheckedPaths, filepath.Clean(d))
		dir := paths.RealOrEmpty(d)
		if st, err := os.Stat(dir); dir == "" || err != nil || !st.IsDir() || p.TooWideReason(dir) != "" || p.Mounts[dir].Kind == mountlist.WritableParent || p.IsLinkedAway(d, dir, p.IsVisible) {
			continue
		}
		if !linkpath.IsInAny(dir, work) { // directories in work are writable themselves
			why := mountlist.ReasonTool
			if d == root {
				why = mountlist.ReasonInterpreter
			}
			p.WithReason(why, func() { p.homeBuilder(o, work).AddLayer(dir) })
		}
		if p.Mounts[dir].Kind == mountlist.OverlayMount && d == root { // the overlay shows all of it; files with logins get their own mounts
			maps.DeleteFunc(p.Mounts, func(path string, place mountlist.Mount) bool {
				return path != dir && paths.Contains(dir, path) && (place.Kind == mountlist.GrantableBind || place.Kind == mountlist.ReadOnlyParent)
			})
		}
	}
	// A layer inside another layer is part of it.
	for path := range p.Mounts {
		for above := filepath.Dir(path); above != "/" && p.Mounts[path].Kind == mountlist.OverlayMount; above = filepath.Dir(above) {
			if p.Mounts[above].Kind == mountlist.OverlayMount {
				delete(p.Mounts, path)
			}
		}
	}
}

// dropUnmountable removes directories of the session without a mount point, such as a missing
// directory that a variable names where the session only reads. If it is made later, it contains
// logins of the user.
func (p *planner) dropUnmountable() {
	maps.DeleteFunc(p.Mounts, func(path string, place mountlist.Mount) bool {
		if place.Kind != mountlist.WritableParent || p.IsEmptyAt(path) {
			return false
		}
		if p.strict && !filestate.IsPresent(path) {
			p.missingDirs = append(p.missingDirs, path)
		}
		return !linkpath.IsDir(path) || slices.Contains(p.missingDirs, path)
	})
	for _, path := range p.missingDirs {
		p.HiddenPaths = append(p.HiddenPaths, homedir.HiddenPath{Name: path, RealPath: paths.RealOrEmpty(path)})
	}
}

// showRuntime lets the worker read its directory and its runtime even if they are in a directory
// for temporary files.
func (p *planner) showRuntime(o Origin) {
	dirs := []string{paths.RealOrEmpty(o.Dir)}
	for _, program := range []string{filepath.Clean(o.Program), paths.RealOrEmpty(o.Program)} {
		shown := filepath.Dir(program)
		if slices.Contains(p.TempDirs, shown) {
			shown = paths.RealOrEmpty(program) // but no files next to it; a link that leads elsewhere is not shown
		} else if above := filepath.Dir(shown); !slices.Contains(p.TempDirs, above) {
			shown = above
		}
		dirs = append(dirs, shown)
	}
	for _, path := range dirs {
		if p.IsEmptyAt(path) && p.Mounts[path].Kind == "" {
			p.Set(path, mountlist.ReadOnlyBind)
		}
	}
}

// hiddenSystemDirs contain secrets, mail and jobs, and only root can replace them.
var hiddenSystemDirs = []string{"/run/user", "/run/secrets", "/var/run/secrets", "/var/mail", "/var/spool/mail", "/var/spool/cron", "/var/spool/at"}

// defaultHidden returns the hidden paths in the home directory, including where variables have
// moved them.
func (p *planner) defaultHidden() (dirs []string) {
	if p.Home == "" {
		return nil
	}
	for _, path := range sandbox.DefaultHidden(p.Home) {
		dirs = append(dirs, path)
		if moved := p.HomePath(strings.TrimPrefix(path, p.Home+"/")); moved != path {
			dirs = append(dirs, moved)
		}
	}
	return dirs
}

// hidePaths masks the hidden paths. In directories of the session's own they are just left out.
func (p *planner) hidePaths(work []string) error {
	for _, h := range p.HiddenPaths {
		if !p.IsEmptyAt(h.Name) {
			p.CheckedPaths = append(p.CheckedPaths, h.Name)
		}
		path := h.RealPath
		if path == "" || h.IsPlanned {
			continue
		}
		holds := false // path contains a work directory
		for i, w := range work {
			if holds = holds || paths.Contains(path, w); paths.Contains(path, w) && !(i < p.workspaces && p.isWorkTreeIn(w, h)) {
				return fmt.Errorf("the sandbox cannot make %s writable: %s is hidden from sessions", w, h.Name)
			}
		}
		if !holds { // otherwise its other names are just left out
			p.Set(path, mountlist.MaskedPath)
		}
	}
	for path := range p.Mounts { // nothing is shown below a hidden path
		for above := filepath.Dir(path); above != "/" && above != "."; above = filepath.Dir(above) {
			if p.Mounts[above].Kind == mountlist.MaskedPath {
				delete(p.Mounts, path)
			}
		}
	}
	for path, m := range p.Mounts {
		if m.Kind == mountlist.MaskedPath && p.IsEmptyAt(path) {
			delete(p.Mounts, path)
			p.unshownPaths = append(p.unshownPaths, path)
		}
	}
	return nil
}

// isWorkTreeIn reports whether a workspace is a work tree that an agent made next to its own
// settings and logins, as in ~/.cursor/worktrees. The session sees the work tree and nothing around
// it.
func (p *planner) isWorkTreeIn(work string, h homedir.HiddenPath) bool {
	_, tree, _ := strings.Cut(strings.TrimPrefix(work, h.RealPath), "/worktrees/")
	return tree != "" && !h.IsUserNamed && p.IsEmptyAt(h.RealPath)
}

// unreadablePaths returns the hidden paths next to files that the session sees. A mount over such a
// path ends when a program outside replaces the file.
func (p *planner) unreadablePaths() (paths []mountlist.Path) {
	for _, h := range p.HiddenPaths {
		if h.IsPlanned || h.IsMaskedOnly {
			continue
		}
		for _, path := range []string{h.Name, linkpath.RealOrAbsent(h.Name)} {
			if !p.IsEmptyAt(path) && p.NearestKind(path) != mountlist.MaskedPath && linkpath.IsReplaceable(path) && !slices.Contains(paths, mountlist.Path(path)) {
				paths = append(paths, mountlist.Path(path))
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
		if m.Kind == mountlist.EmptyDir {
			all = append(all, string(m.Path))
		}
	}
	return all
}
