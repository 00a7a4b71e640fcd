package plan

import (
	"maps"
	"slices"

	"github.com/turnstone-repl/turnstone/internal/paths"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/homedir"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/mountinfo"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/mountlist"
)

// hideAliases hides what other mounts show of the home directory as a whole, and of hidden paths.
func (p *planner) hideAliases(needed []string) {
	all := mountinfo.ReadMounts()
	p.hideHomeAliases(all, append(needed, p.Home))
	p.hidePathAliases(all)
}

// hidePathAliases hides what mounts show of hidden paths, or of files in them.
func (p *planner) hidePathAliases(all []mountinfo.MountInfo) {
	names := map[string]bool{}
	for _, h := range p.HiddenPaths {
		if h.RealPath == "" || h.IsPlanned {
			continue
		}
		others := mountinfo.MountsInside(all, h.RealPath)
		for _, s := range mountinfo.MountAliases(all, h.RealPath) {
			others[s.Path] = h.RealPath
		}
		for path, of := range others {
			if p.CanBeSeen(path) && mountinfo.IsSameFile(path, of) {
				names[path] = true
			}
		}
	}
	sorted := slices.Sorted(maps.Keys(names))
	for _, path := range sorted {
		p.HiddenPaths = append(p.HiddenPaths, homedir.HiddenPath{Name: path, RealPath: path, IsMaskedOnly: true})
	}
	if len(sorted) > 0 {
		p.AddNotice("mounts show hidden files at other paths (%d, such as %s); these paths are hidden as well", len(sorted), sorted[0])
	}
}

// hideHomeAliases hides the mounts that show the whole home directory at another path. If the
// session needs something else of such a mount, only the home directory in it is hidden.
func (p *planner) hideHomeAliases(all []mountinfo.MountInfo, needed []string) {
	if p.Mounts[p.Home].Kind != mountlist.ReadOnlyParent {
		return
	}
	for _, s := range mountinfo.MountAliases(all, p.Home) {
		if !mountinfo.IsSameFile(s.Path, p.Home) {
			continue // something else is mounted over it
		}
		holds := func(dir string) bool {
			return slices.ContainsFunc(needed, func(path string) bool { return paths.Contains(dir, path) })
		}
		switch {
		case !holds(s.Point):
			p.Set(s.Point, mountlist.MaskedPath)
			p.HiddenPaths = append(p.HiddenPaths, homedir.HiddenPath{Name: s.Point, RealPath: s.Point, IsPlanned: true})
			p.AddNotice("%s shows your home directory at another path, so it is hidden from this session", s.Point)
		case !holds(s.Path):
			p.Set(s.Path, mountlist.MaskedPath)
			p.HiddenPaths = append(p.HiddenPaths, homedir.HiddenPath{Name: s.Path, RealPath: s.Path, IsPlanned: true})
			p.AddNotice("%s shows your home directory at another path, so it is hidden from this session", s.Path)
		default: // the session sees only what it needs there
			p.Set(s.Path, mountlist.ReadOnlyParent)
		}
	}
}
