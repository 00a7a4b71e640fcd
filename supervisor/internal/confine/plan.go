package confine

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/workers"
)

// A Plan is what the stage mounts for a worker.
type Plan struct {
	State   Path    // a private directory on disk, for temporary files and layers
	Places  []Place // parents before children; everything else is read-only
	Network bool    // the network of the user; else only a loopback of its own

	work []string
}

// A Place is a path with a mount of its own.
type Place struct {
	Path Path
	Kind Kind
	From Path // of a layer: the directory that its overlay covers, Path or above it
}

// A Kind is what a place shows.
type Kind string

const (
	writable  Kind = "writable"  // what is there, to be written
	fixed     Kind = "fixed"     // the same; a mount point, so that it cannot be renamed
	protected Kind = "protected" // what is there, read-only
	hidden    Kind = "hidden"    // something that cannot be opened
	layer     Kind = "layer"     // what is there, written to a copy
	private   Kind = "private"   // an empty directory of the session
	covered   Kind = "covered"   // an empty directory with nothing but places below it
)

// A Path need not be UTF-8, which strings in JSON are.
type Path string

func (p Path) MarshalJSON() ([]byte, error) { return json.Marshal([]byte(p)) }

func (p *Path) UnmarshalJSON(text []byte) error {
	var b []byte
	err := json.Unmarshal(text, &b)
	*p = Path(b)
	return err
}

// An Origin is what a plan depends on beside the sandbox itself.
type Origin struct {
	Home     string   // of the user; "" when there is none
	Dir      string   // the worker's working directory, absolute
	Program  string   // the worker's executable
	State    string   // becomes Plan.State; exists
	Sessions string   // the directory of all sessions: their state is not for this one
	Files    []string // directories of this session below Sessions that it uses

	// Temporary are the directories of which every session has its own; nil means those
	// that are usual.
	Temporary []string
}

// maxPlaces bounds the mounts of one plan: each costs some ten microseconds.
const maxPlaces = 2000

// NewPlan returns the plan, and what a user of the session is to know about it.
func NewPlan(s *workers.Sandbox, o Origin) (_ *Plan, notices []string, err error) {
	if err := s.Validate(); err != nil {
		return nil, nil, err
	}
	if o.Temporary == nil {
		o.Temporary = []string{"/tmp", "/var/tmp"}
	}
	p := &planner{kinds: map[string]Place{}, home: real(o.Home)}
	for _, d := range o.Temporary {
		if d = real(d); d != "" && !slices.Contains(p.temporary, d) {
			p.temporary = append(p.temporary, d)
		}
	}
	work, err := p.workspace(s, o)
	if err != nil {
		return nil, nil, err
	}
	for _, d := range p.temporary {
		p.set(d, private)
	}
	for _, d := range s.Writable {
		dir, err := p.wanted(d)
		if err != nil {
			return nil, nil, err
		}
		work = append(work, dir)
	}
	p.layers(s, o, work)
	for _, d := range work {
		p.set(d, writable)
	}
	p.protect(work, maxSearched)
	sessions := real(o.Sessions)
	p.set(sessions, covered)
	p.show(o)
	for _, d := range o.Files {
		p.set(real(d), writable)
	}
	if err := p.hide(append(s.Hidden, p.defaultHidden()...), append(work, sessions)); err != nil {
		return nil, nil, err
	}
	if len(p.kinds) > maxPlaces {
		return nil, nil, fmt.Errorf("the sandbox would need %d mounts, and %d are allowed: choose a smaller workspace", len(p.kinds), maxPlaces)
	}
	plan := &Plan{State: Path(o.State), Network: s.Network == workers.NetworkFull, work: work}
	for _, place := range p.kinds {
		plan.Places = append(plan.Places, place)
	}
	slices.SortFunc(plan.Places, func(a, b Place) int { return cmp.Compare(a.Path, b.Path) }) // a parent is a prefix
	return plan, p.notices, nil
}

// A planner collects places; the last that is set for a path counts.
type planner struct {
	home      string
	temporary []string
	kinds     map[string]Place
	notices   []string
}

func (p *planner) set(path string, k Kind) {
	if path != "" {
		p.kinds[path] = Place{Path: Path(path), Kind: k}
	}
}

func (p *planner) notice(format string, args ...any) {
	p.notices = append(p.notices, fmt.Sprintf(format, args...))
}

// real is the path without symbolic links, "" when there is nothing.
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

// inside reports whether path is dir or below it.
func inside(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir+"/")
}

// tooWide says why a directory is never made writable, or "".
func (p *planner) tooWide(dir string) string {
	switch {
	case dir == "/":
		return "is the whole machine"
	case p.home != "" && dir == p.home:
		return "is the home directory"
	case p.home != "" && inside(p.home, dir):
		return "holds the home directory"
	case slices.Contains(p.temporary, dir):
		return "is for temporary files, of which a session has its own"
	}
	return ""
}

// workspace is the real path of what the level makes writable, or none.
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

// wanted is the real path of a directory that somebody named to be written.
func (p *planner) wanted(dir string) (string, error) {
	found, err := directory(dir)
	if err != nil {
		return "", err
	}
	if why := p.tooWide(found); why != "" {
		return "", fmt.Errorf("the sandbox cannot make %s writable: it %s; name a directory in it", dir, why)
	}
	return found, nil
}

func directory(dir string) (string, error) {
	found, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", fmt.Errorf("the sandbox cannot make %s writable: %w", dir, err)
	}
	if st, err := os.Stat(found); err != nil || !st.IsDir() {
		return "", fmt.Errorf("the sandbox cannot make %s writable: it is no directory", dir)
	}
	return found, nil
}

// layers sets the directories of which the session writes a copy. Those below the home
// directory share one overlay, which costs the start one directory instead of many.
func (p *planner) layers(s *workers.Sandbox, o Origin, work []string) {
	dirs := slices.Clone(s.Layered)
	if p.home != "" {
		dirs = append(dirs, workers.DefaultLayered(p.home)...)
		// The packages of a runtime that the user has installed, as pyenv and conda do.
		if root := filepath.Dir(filepath.Dir(real(o.Program))); inside(root, p.home) && root != p.home {
			dirs = append(dirs, root)
		}
	}
	state := real(o.State)
	for _, d := range dirs {
		dir := real(d)
		if st, err := os.Stat(dir); dir == "" || err != nil || !st.IsDir() || p.tooWide(dir) != "" {
			continue
		}
		if slices.ContainsFunc(work, func(w string) bool { return inside(dir, w) }) {
			continue // it is written itself
		}
		if inside(state, dir) {
			p.notice("%s holds the files of sessions, so it has no layer: it is read-only", dir)
			continue
		}
		from := dir
		if p.home != "" && inside(dir, p.home) && !inside(state, p.home) && sameFilesystem(dir, p.home) {
			from = p.home
		}
		p.kinds[dir] = Place{Path: Path(dir), Kind: layer, From: Path(from)}
	}
	// A layer in a layer is a part of it.
	for path := range p.kinds {
		for above := filepath.Dir(path); above != "/" && p.kinds[path].Kind == layer; above = filepath.Dir(above) {
			if p.kinds[above].Kind == layer {
				delete(p.kinds, path)
			}
		}
	}
}

// show leaves the worker its directory and its runtime where they lie among temporary
// files, to be read.
func (p *planner) show(o Origin) {
	dirs := []string{real(o.Dir)}
	for _, program := range []string{filepath.Clean(o.Program), real(o.Program)} {
		dir := filepath.Dir(program)
		if above := filepath.Dir(dir); !slices.Contains(p.temporary, above) {
			dir = above
		}
		dirs = append(dirs, dir)
	}
	for _, d := range dirs {
		if k := p.above(d); (k == private || k == covered) && p.kinds[d].Kind == "" {
			p.set(d, protected)
		}
	}
}

func (p *planner) defaultHidden() []string {
	dirs := []string{"/run/user", "/run/secrets", "/var/run/secrets"}
	if p.home != "" {
		dirs = append(dirs, workers.DefaultHidden(p.home)...)
	}
	return dirs
}

// hide sets what cannot be opened, where anything of it would be seen.
func (p *planner) hide(paths, work []string) error {
	for _, h := range paths {
		path := real(h)
		if path == "" {
			continue
		}
		for _, w := range work {
			if inside(w, path) {
				return fmt.Errorf("the sandbox cannot make %s writable: %s is hidden from sessions", w, h)
			}
		}
		if k := p.above(path); k == private || k == covered {
			continue // nothing of the machine is there
		}
		p.set(path, hidden)
	}
	for path := range p.kinds { // below what is hidden nothing is seen
		for above := filepath.Dir(path); above != "/" && above != "."; above = filepath.Dir(above) {
			if p.kinds[above].Kind == hidden {
				delete(p.kinds, path)
			}
		}
	}
	return nil
}

// above is the kind of the nearest place that path lies in, "" when there is none.
func (p *planner) above(path string) Kind {
	for d := filepath.Dir(path); d != "/" && d != "."; d = filepath.Dir(d) {
		if place, ok := p.kinds[d]; ok {
			return place.Kind
		}
	}
	return ""
}

// Writable are the directories that the session writes, but for its own.
func (p *Plan) Writable() []string { return p.work }
