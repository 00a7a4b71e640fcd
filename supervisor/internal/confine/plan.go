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
	Places  []Place // parents before children; all other paths are read-only
	Network bool    // true for the user's network; otherwise the session has only a loopback
	Outlet  bool    // besides that loopback, connections leave through the supervisor

	Disk   int64 // bounds what State holds for the session, in bytes; 0 does not
	Shared int64 // bounds its shared memory; 0 leaves that to the kernel
	// Objects bounds what programs share by number (System V), in bytes; 0 leaves that to the kernel.
	Objects int64

	// By is what confines the worker; "" for namespaces. Landlock has Rules in place of mounts.
	By    workers.SandboxMechanism
	Rules []Rule

	Absent []Path // names that are not there, and must not be made
	Work   []Path // what the session writes, in which a guard decides by name
	Reach  []Path // what git's settings lead to in it
	Closed []Path // what is hidden next to files of the machine that the session sees: opens to read are decided, too
	Ask    bool   // hold a call that a person could allow

	work      []string
	keep      []string // stays as it is wherever the session may write
	watch     *watch   // what may have changed since; nil in the stage
	git       []string // variables that say where settings of git are
	unshown   []string
	closed    []closedPlace
	unclosed  []Path // was told not to stay hidden
	home      string
	temporary []string
}

// A Place is a path with a mount of its own.
type Place struct {
	Path Path
	Kind Kind
	From Path   // for a layer: the directory that its overlay covers, Path or a parent; for replaced: a file; for linked: what the link says
	Why  Reason `json:"-"` // why the session sees it in its home directory; "" for all else
}

// A Reason says why a session sees a place in its home directory.
type Reason string

const (
	Document    Reason = "document"
	Tool        Reason = "toolchain or library"
	Cache       Reason = "cache"
	OnPath      Reason = "on PATH, or next to it"
	Plain       Reason = "plain settings"
	Written     Reason = "settings, written without logins"
	Interpreter Reason = "of the interpreter"
	Work        Reason = "workspace"
	Named       Reason = "named or allowed"
)

// A Kind says what a place shows.
type Kind string

const (
	writable  Kind = "writable"  // the machine's files, writable
	fixed     Kind = "fixed"     // the same, but nobody can rename it, because it is a mount point
	protected Kind = "protected" // the machine's files, read-only
	guarded   Kind = "guarded"   // likewise, by the guard alone: git's settings, of which some may change
	hidden    Kind = "hidden"    // something that cannot be opened
	layer     Kind = "layer"     // the machine's files; writes go to a copy
	private   Kind = "private"   // an empty directory of the session
	replaced  Kind = "replaced"  // another file, read-only
	covered   Kind = "covered"   // an empty directory that has only places below it
	built     Kind = "built"     // the same, but the session writes it
	readable  Kind = "readable"  // the machine's files, read-only until a user gives more
	linked    Kind = "linked"    // a symbolic link in such a directory
)

// isEmpty reports whether a place is a directory of the session's own, in which it sees nothing of the
// machine but places.
func (k Kind) isEmpty() bool { return k == private || k == covered || k == built }

// A Path may have bytes that are not UTF-8, which JSON strings cannot hold.
type Path string

func (p Path) MarshalJSON() ([]byte, error) { return json.Marshal([]byte(p)) }

func (p *Path) UnmarshalJSON(text []byte) error {
	var b []byte
	err := json.Unmarshal(text, &b)
	*p = Path(b)
	return err
}

// An Origin has the facts that a plan needs besides the sandbox itself.
type Origin struct {
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

// home returns the user's home directory. Where HOME names none, tools ask for that of the account.
func (o *Origin) home() string {
	if filepath.IsAbs(o.Home) && filepath.Clean(o.Home) != "/" {
		return o.Home
	}
	return cmp.Or(o.Account, o.Home)
}

// otherHome returns what else tools take for it: the directory of the account, or what HOME says; "" for nothing.
func (o *Origin) otherHome() string {
	for _, dir := range []string{o.Home, o.Account} {
		if dir = real(dir); filepath.IsAbs(dir) && dir != real(o.home()) {
			return dir
		}
	}
	return ""
}

// maxPlaces bounds the mounts of one plan. Each takes some ten microseconds.
const maxPlaces = 2000

// NewPlan returns the plan, and notices for the user of the session.
func NewPlan(s *workers.Sandbox, o Origin) (_ *Plan, notices []string, err error) {
	if err := s.Validate(); err != nil {
		return nil, nil, err
	}
	p := newPlanner(o)
	work, err := p.workspace(s, o)
	if err != nil {
		return nil, nil, err
	}
	p.workspaces, p.strict = len(work), true
	p.close(s, o)
	for _, d := range s.Writable {
		dir, err := p.wanted(d)
		if err == nil && hasLinkIn(d, work) {
			err = linkError("make %s writable", d, dir)
		}
		if err == nil {
			err = p.isMeant(s, o, d, dir, work[:p.workspaces])
		}
		if err != nil {
			return nil, nil, err
		}
		work = append(work, dir)
	}
	written := &settings{p: p, dir: o.Settings}
	if err := p.lay(s, o, work, written, func() {
		p.protect(work, maxSearched)
		p.keepAll(s.Protected, work)
	}); err != nil {
		return nil, nil, err
	}
	if written.unfollowed {
		p.notice("your toolchains and caches have more than %d files that may get a login: one that is written to the others from now on can be seen until a reset", maxToolFiles)
	}
	p.noteUnshown()
	if len(p.kinds) > maxPlaces {
		return nil, nil, fmt.Errorf("the sandbox would need %d mounts, and %d are allowed: choose a smaller workspace", len(p.kinds), maxPlaces)
	}
	plan := &Plan{State: Path(real(o.State)), Network: s.Network == workers.NetworkFull, Outlet: s.Network == workers.NetworkList, Absent: p.absent, work: work, keep: s.Protected, unshown: p.unshown, home: p.home, temporary: p.temporary}
	plan.Reach, plan.Closed, plan.git = p.reach, p.beside(), p.git
	for _, w := range work {
		plan.Work = append(plan.Work, Path(w))
	}
	for _, place := range p.kinds {
		plan.Places = append(plan.Places, place)
	}
	slices.SortFunc(plan.Places, func(a, b Place) int { return cmp.Compare(a.Path, b.Path) }) // a parent is a prefix of its children, so it comes first
	plan.closed = p.closed
	plan.watch = newWatch(p, written, work, o.Events, func(work, added []string) (*planner, error) {
		now := newPlanner(o)
		now.known, now.named, now.own, now.workspaces, now.missing, now.added = p.known, p.named, p.own, p.workspaces, p.missing, added
		now.close(s, o)
		return now, now.lay(s, o, work, written, func() {})
	})
	return plan, p.notices, nil
}

// Writes returns what a session with this sandbox would write, without links. It leaves out what no plan makes
// writable.
func Writes(s *workers.Sandbox, o Origin) []string {
	p := newPlanner(o)
	work, _ := p.workspace(s, o)
	for _, d := range s.Writable {
		if found, err := p.wanted(d); err == nil {
			work = append(work, found)
		}
	}
	return work
}

func newPlanner(o Origin) *planner {
	p := &planner{kinds: map[string]Place{}, named: map[string]*named{}, home: realOrAbsent(o.home()), directories: o.Directories, git: gitVariables(o.Env), own: ownRepositories(real(o.State))}
	if o.Temporary == nil {
		o.Temporary = []string{"/tmp", "/var/tmp"}
	}
	for _, d := range o.Temporary {
		if d = real(d); d != "" && !slices.Contains(p.temporary, d) {
			p.temporary = append(p.temporary, d)
		}
	}
	return p
}

// lay adds the places of a session that writes these directories. protect adds what stays as it is in
// them.
func (p *planner) lay(s *workers.Sandbox, o Origin, work []string, written *settings, protect func()) error {
	for _, d := range p.temporary {
		p.set(d, private)
	}
	p.doubted, p.noDocuments = p.notTrusted(s, o, work), s.Home == workers.HomeTools
	p.others = p.otherHomes(o.OtherHomes, work)
	written.p = p
	if err := written.write(); err != nil {
		return err
	}
	for _, h := range p.closed {
		if !h.placed {
			p.apart = append(p.apart, h.name, realOrAbsent(h.name))
		}
	}
	for _, name := range withheldNames {
		p.apart = append(p.apart, p.at(name))
	}
	for name := range written.files {
		if isToolFile(name) && isIn(name, readableNames) { // a mount there could end
			p.apart = append(p.apart, p.pathOf(name))
		}
	}
	p.buildHome(s, o, work)
	p.layers(s, o, work)
	if err := p.reveal(slices.Concat(s.Readable, p.added), o, work); err != nil {
		return err
	}
	for i, d := range work {
		why := Named
		if i < p.workspaces {
			why = Work
		}
		p.because(why, func() { p.set(d, writable) })
	}
	protect()
	sessions := real(o.Sessions)
	p.set(sessions, covered)
	p.because(Interpreter, func() { p.show(o) })
	p.dropImpossible()
	for _, d := range o.Files {
		p.set(real(d), writable)
	}
	for name, by := range written.files {
		p.write(name, by, work)
	}
	for path, by := range o.Replaced {
		if path = real(path); path != "" {
			p.kinds[path] = Place{Path: Path(path), Kind: replaced, From: Path(by)}
		}
	}
	p.looked = append(p.looked, filepath.Clean(o.home()))
	p.hideOthers(slices.Concat(work, []string{sessions, real(o.Dir), real(o.State), real(o.Program)}))
	return p.hide(append(slices.Clone(work), sessions))
}

// A planner collects places. For each path the last setting counts.
type planner struct {
	home      string
	temporary []string
	kinds     map[string]Place
	absent    []Path
	reach     []Path
	views     []*gitView
	own       map[string]bool // repositories that the session made
	git       []string        // variables that say where settings of git are
	unshown   []string        // are there, and not in the session's home directory
	notices   []string
	why       Reason        // of the places that are set now
	closed    []closedPlace // what no session sees

	doubted     []string // where this session may have made what is there
	noDocuments bool     // of the home directory
	others      []string // the user's other home directories

	workspaces int      // how many of the directories that it writes are its own by the level
	strict     bool     // what cannot be shown is an error
	added      []string // what the user has shown it since its start

	directories map[string]string // as in an Origin
	missing     []string          // of those, had no mount point when the session started
	apart       []string          // what is hidden
	known       map[string]bool   // the documents that the session sees; nil before they were looked for
	named       map[string]*named // what was found in directories of packages
	looked      []string          // paths that decided about a place
	sources     []string          // files and directories that did by what is in them
}

func (p *planner) set(path string, k Kind) {
	if path != "" {
		p.kinds[path] = Place{Path: Path(path), Kind: k, Why: p.why}
	}
}

// because sets places for a reason.
func (p *planner) because(why Reason, set func()) {
	p.why = why
	set()
	p.why = ""
}

func (p *planner) notice(format string, args ...any) {
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

// tooWide says why a directory must never be writable, or "".
func (p *planner) tooWide(dir string) string {
	switch {
	case dir == "/":
		return "is the whole machine"
	case p.home != "" && dir == p.home:
		return "is the home directory"
	case p.home != "" && inside(p.home, dir):
		return "holds the home directory"
	case slices.Contains(p.temporary, dir):
		return "is for temporary files, and each session has its own"
	}
	return ""
}

// workspace returns the real paths that the sandbox's level makes writable.
func (p *planner) workspace(s *workers.Sandbox, o Origin) ([]string, error) {
	if s.Level != workers.Workspace {
		return nil, nil
	}
	dir := s.Workspace
	if dir == "" {
		dir = o.Dir
	}
	found, err := directory(dir)
	if err != nil {
		return nil, err
	}
	if why := p.tooWide(found); why != "" {
		p.notice("%s %s, so the sandbox does not make it writable: this session only reads. Start in the directory of a project, or name one to write", dir, why)
		return nil, nil
	}
	return append([]string{found}, p.repositoryOf(found)...), nil
}

// wanted resolves a file or directory that a user wants to be writable.
func (p *planner) wanted(path string) (string, error) {
	found, err := plain("make %s writable", path)
	if err != nil {
		return "", err
	}
	if why := p.tooWide(found); why != "" {
		return "", fmt.Errorf("the sandbox cannot make %s writable: it %s; name a directory in it", path, why)
	}
	return found, nil
}

// linkError says that a path must be named without its links.
func linkError(do, path, found string) error {
	return fmt.Errorf("the sandbox does not "+do+": it leads to %s through a link that a session may have made; name that one if you mean it", path, found)
}

// plain resolves a path, which must be one of a directory or a regular file.
func plain(do, path string) (string, error) {
	found, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", fmt.Errorf("the sandbox cannot "+do+": %w", path, err)
	}
	if st, err := os.Stat(found); err != nil || !st.IsDir() && !st.Mode().IsRegular() {
		return "", fmt.Errorf("the sandbox cannot "+do+": it is neither a directory nor a regular file", path)
	}
	return found, nil
}

func directory(dir string) (string, error) {
	found, err := plain("make %s writable", dir)
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

// layers adds the directories of which the session writes a copy.
func (p *planner) layers(s *workers.Sandbox, o Origin, work []string) {
	root := ""
	if p.home != "" {
		// pyenv and conda install a runtime's packages below the home directory.
		if root = filepath.Dir(filepath.Dir(real(o.Program))); !inside(root, p.home) || root == p.home {
			root = ""
		}
	}
	for _, d := range append(slices.Clone(s.Layered), root) {
		p.looked = append(p.looked, filepath.Clean(d))
		dir := real(d)
		if st, err := os.Stat(dir); dir == "" || err != nil || !st.IsDir() || p.tooWide(dir) != "" || p.kinds[dir].Kind == built || p.leadsAway(d, dir, p.isOpen) {
			continue
		}
		if !isIn(dir, work) { // else it is writable itself
			why := Tool
			if d == root {
				why = Interpreter
			}
			p.because(why, func() { p.layer(dir, real(o.State)) })
		}
		if p.kinds[dir].Kind == layer && d == root { // it is whole: what has a login in it gets a place of its own
			maps.DeleteFunc(p.kinds, func(path string, place Place) bool {
				return path != dir && inside(path, dir) && (place.Kind == readable || place.Kind == covered)
			})
		}
	}
	// A layer inside another layer is part of it.
	for path := range p.kinds {
		for above := filepath.Dir(path); above != "/" && p.kinds[path].Kind == layer; above = filepath.Dir(above) {
			if p.kinds[above].Kind == layer {
				delete(p.kinds, path)
			}
		}
	}
}

// layer adds a directory of which the session writes a copy. Those below the home directory share
// one overlay, or one for each directory there if the files of sessions are in it, so the start makes
// few of them.
func (p *planner) layer(dir, state string) {
	if inside(state, dir) {
		p.notice("%s holds the files of sessions, so this session has no copy of it and cannot write it", dir)
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
	p.kinds[dir] = Place{Path: Path(dir), Kind: layer, From: Path(from), Why: p.why}
}

// dropImpossible leaves out the directories of the session's own for which there is no mount point, as
// where a variable names one that is missing in a place that the session only reads. One that is made there
// later has logins of the user.
func (p *planner) dropImpossible() {
	maps.DeleteFunc(p.kinds, func(path string, place Place) bool {
		if place.Kind != built || p.isEmptyAt(path) {
			return false
		}
		if p.strict && !exists(path) {
			p.missing = append(p.missing, path)
		}
		return !isDir(path) || slices.Contains(p.missing, path)
	})
	for _, path := range p.missing {
		p.closed = append(p.closed, closedPlace{name: path, at: real(path)})
	}
}

// isIn reports whether a path is one of these directories, or below one.
func isIn(path string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(d string) bool { return inside(path, d) })
}

// show lets the worker read its directory and its runtime even if they lie among temporary
// files.
func (p *planner) show(o Origin) {
	paths := []string{real(o.Dir)}
	for _, program := range []string{filepath.Clean(o.Program), real(o.Program)} {
		shown := filepath.Dir(program)
		if slices.Contains(p.temporary, shown) {
			shown = real(program) // and none of its neighbors; a link to elsewhere is not shown
		} else if above := filepath.Dir(shown); !slices.Contains(p.temporary, above) {
			shown = above
		}
		paths = append(paths, shown)
	}
	for _, path := range paths {
		if p.isEmptyAt(path) && p.kinds[path].Kind == "" {
			p.set(path, protected)
		}
	}
}

// hiddenOfSystem are places that only root can replace: of secrets, letters and jobs.
var hiddenOfSystem = []string{"/run/user", "/run/secrets", "/var/run/secrets", "/var/mail", "/var/spool/mail", "/var/spool/cron", "/var/spool/at"}

// defaultHidden are those in the home directory, also where a variable has moved them.
func (p *planner) defaultHidden() (dirs []string) {
	if p.home == "" {
		return nil
	}
	for _, path := range workers.DefaultHidden(p.home) {
		dirs = append(dirs, path)
		if moved := p.at(strings.TrimPrefix(path, p.home+"/")); moved != path {
			dirs = append(dirs, moved)
		}
	}
	return dirs
}

// hide adds the paths that nobody may open. Where the session sees a directory of its own, they are
// just not there.
func (p *planner) hide(work []string) error {
	for _, h := range p.closed {
		if !p.isEmptyAt(h.name) {
			p.looked = append(p.looked, h.name)
		}
		path := h.at
		if path == "" || h.placed {
			continue
		}
		holds := false // the workspace
		for i, w := range work {
			if holds = holds || inside(w, path); inside(w, path) && !(i < p.workspaces && p.isWorkTreeIn(w, h)) {
				return fmt.Errorf("the sandbox cannot make %s writable: %s is hidden from sessions", w, h.name)
			}
		}
		if !holds { // else its other names are just not there
			p.set(path, hidden)
		}
	}
	for path := range p.kinds { // nothing shows below a hidden path
		for above := filepath.Dir(path); above != "/" && above != "."; above = filepath.Dir(above) {
			if p.kinds[above].Kind == hidden {
				delete(p.kinds, path)
			}
		}
	}
	for path, place := range p.kinds {
		if place.Kind == hidden && p.isEmptyAt(path) {
			delete(p.kinds, path)
			p.unshown = append(p.unshown, path)
		}
	}
	return nil
}

// isWorkTreeIn reports whether a workspace is a work tree that an agent made next to its own settings and logins, as
// in ~/.cursor/worktrees. The session's home directory has that, and nothing around it.
func (p *planner) isWorkTreeIn(work string, h closedPlace) bool {
	_, tree, _ := strings.Cut(strings.TrimPrefix(work, h.at), "/worktrees/")
	return tree != "" && !h.named && p.isEmptyAt(h.at)
}

// mayReplace reports whether programs of the user can put something else in the place of a path.
func mayReplace(path string) bool {
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		if isWritable(dir) {
			return true
		}
		if dir == filepath.Dir(dir) {
			return false
		}
	}
}

// beside returns what is hidden next to files of the machine that the session sees. A mount over it ends when
// a program outside replaces it.
func (p *planner) beside() (paths []Path) {
	for _, h := range p.closed {
		if h.placed || h.alone {
			continue
		}
		for _, path := range []string{h.name, realOrAbsent(h.name)} {
			if !p.isEmptyAt(path) && p.above(path) != hidden && mayReplace(path) && !slices.Contains(paths, Path(path)) {
				paths = append(paths, Path(path))
			}
		}
	}
	return paths
}

// isEmptyAt reports whether the session has a directory of its own around a path, so that it sees
// nothing there but places.
func (p *planner) isEmptyAt(path string) bool {
	return p.above(path).isEmpty()
}

// above returns the kind of the nearest place around path, or "".
func (p *planner) above(path string) Kind {
	for d := filepath.Dir(path); d != "/" && d != "."; d = filepath.Dir(d) {
		if place, ok := p.kinds[d]; ok {
			return place.Kind
		}
	}
	return ""
}

// Writable returns the user's directories that the session can write.
func (p *Plan) Writable() []string { return p.work }

// Private returns the directories of which the session has its own.
func (p *Plan) Private() []string {
	var all []string
	for _, place := range p.Places {
		if place.Kind == private {
			all = append(all, string(place.Path))
		}
	}
	return all
}
