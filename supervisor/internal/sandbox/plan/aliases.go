package plan

import (
	"maps"
	"slices"

	"github.com/turnstone-repl/turnstone/internal/paths"
)

// hideAliases hides what other mounts show of the home directory as a whole, and of hidden paths.
func (p *planner) hideAliases(needed []string) {
	all := readMounts()
	p.hideHomeAliases(all, append(needed, p.home))
	p.hidePathAliases(all)
}

// hidePathAliases hides what mounts show of hidden paths, or of files in them.
func (p *planner) hidePathAliases(all []mountInfo) {
	names := map[string]bool{}
	for _, h := range p.hiddenPaths {
		if h.realPath == "" || h.isPlanned {
			continue
		}
		others := mountsInside(all, h.realPath)
		for _, s := range mountAliases(all, h.realPath) {
			others[s.path] = h.realPath
		}
		for path, of := range others {
			if p.canBeSeen(path) && isSameFile(path, of) {
				names[path] = true
			}
		}
	}
	sorted := slices.Sorted(maps.Keys(names))
	for _, path := range sorted {
		p.hiddenPaths = append(p.hiddenPaths, hiddenPath{name: path, realPath: path, isMaskedOnly: true})
	}
	if len(sorted) > 0 {
		p.addNotice("mounts show hidden files at other paths (%d, such as %s); these paths are hidden as well", len(sorted), sorted[0])
	}
}

// hideHomeAliases hides the mounts that show the whole home directory at another path. If the
// session needs something else of such a mount, only the home directory in it is hidden.
func (p *planner) hideHomeAliases(all []mountInfo, needed []string) {
	if p.mounts[p.home].Kind != ReadOnlyParent {
		return
	}
	for _, s := range mountAliases(all, p.home) {
		if !isSameFile(s.path, p.home) {
			continue // something else is mounted over it
		}
		holds := func(dir string) bool {
			return slices.ContainsFunc(needed, func(path string) bool { return paths.Contains(dir, path) })
		}
		switch {
		case !holds(s.point):
			p.set(s.point, MaskedPath)
			p.hiddenPaths = append(p.hiddenPaths, hiddenPath{name: s.point, realPath: s.point, isPlanned: true})
			p.addNotice("%s shows your home directory at another path, so it is hidden from this session", s.point)
		case !holds(s.path):
			p.set(s.path, MaskedPath)
			p.hiddenPaths = append(p.hiddenPaths, hiddenPath{name: s.path, realPath: s.path, isPlanned: true})
			p.addNotice("%s shows your home directory at another path, so it is hidden from this session", s.path)
		default: // the session sees only what it needs there
			p.set(s.path, ReadOnlyParent)
		}
	}
}
