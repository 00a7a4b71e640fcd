package plan

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/internal/paths"
	"github.com/turnstone-repl/turnstone/sandbox"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/filestate"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/homedir"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/linkpath"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/mountlist"
)

// addHiddenPaths adds the paths that no session may see.
func (p *planner) addHiddenPaths(s *sandbox.Policy, o Origin) {
	add := func(kind homedir.HiddenPath, listed []string) {
		for _, h := range listed {
			hidden := kind
			hidden.Name = filepath.Clean(h)
			if filestate.IsPresent(h) {
				hidden.RealPath = paths.RealOrEmpty(h)
			}
			p.HiddenPaths = append(p.HiddenPaths, hidden)
		}
	}
	add(homedir.HiddenPath{IsUserNamed: true}, s.Hidden)
	add(homedir.HiddenPath{}, p.defaultHidden())
	add(homedir.HiddenPath{IsMaskedOnly: true}, hiddenSystemDirs)
	if other := o.otherHomeDir(); other != "" {
		add(homedir.HiddenPath{IsMaskedOnly: true}, sandbox.DefaultHidden(other))
	}
	if at := paths.RealOrEmpty(o.Sessions); at != "" {
		p.HiddenPaths = append(p.HiddenPaths, homedir.HiddenPath{Name: at, RealPath: at, IsPlanned: true})
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

// hidePaths masks the hidden paths. In private directories of the session they are just left out.
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

func (p *planner) isHidden(path string) bool {
	return slices.ContainsFunc(p.HiddenPaths, func(c homedir.HiddenPath) bool { return c.RealPath != "" && paths.Contains(c.RealPath, path) })
}

func (p *planner) hasHiddenBelow(path string) bool {
	return slices.ContainsFunc(p.HiddenPaths, func(c homedir.HiddenPath) bool {
		return c.Name != path && paths.Contains(path, c.Name) || c.RealPath != path && paths.Contains(path, c.RealPath)
	})
}

// HiddenPaths returns the files and directories that no user can show to the session, sorted.
func (p *Plan) HiddenPaths() (all []string) {
	for _, path := range p.unshownPaths {
		if checkShow(p.hiddenPaths, path) != nil {
			all = append(all, path)
		}
	}
	for _, m := range p.Mounts {
		if m.Kind == mountlist.MaskedPath {
			all = append(all, string(m.Path))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// checkShow returns an error if no session may see a path, which is without links.
func checkShow(hidden []homedir.HiddenPath, path string) error {
	for _, c := range hidden {
		for _, at := range []string{c.Name, c.RealPath} {
			switch {
			case at == "":
			case paths.Contains(at, path):
				return fmt.Errorf("the sandbox cannot show %s: it is hidden from sessions", path)
			case paths.Contains(path, at):
				return fmt.Errorf("the sandbox cannot show %s: %s in it is hidden from sessions; name another path in it", path, c.Name)
			}
		}
	}
	return nil
}
