package nameguard

import (
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/internal/paths"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/foldedname"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/mountlist"
)

// GuardMore adds directories that the session writes, and paths that git settings lead to.
func (g *Guard) GuardMore(work, targets []mountlist.Path) {
	g.protectMu.Lock()
	defer g.protectMu.Unlock()
	for _, p := range work {
		g.workDirs = append(g.workDirs, string(p))
	}
	for _, p := range targets {
		if !slices.Contains(g.gitTargets, string(p)) {
			g.gitTargets = append(g.gitTargets, string(p))
		}
	}
}

// AddProtected adds names that must not be created, and mounts that must stay where they are.
func (g *Guard) AddProtected(absent []mountlist.Path, mounts []mountlist.Mount) {
	g.protectMu.Lock()
	defer g.protectMu.Unlock()
	if g.protectedPaths == nil {
		g.protectedPaths, g.protectedLastNames, g.protectedParents = map[string]bool{}, map[string]bool{}, map[string]bool{}
		g.mountKinds, g.mountNames = map[string]mountlist.MountKind{}, map[string]bool{}
	}
	for _, p := range mounts {
		g.mountKinds[string(p.Path)] = p.Kind
		g.mountNames[path.Base(string(p.Path))] = true
	}
	for _, p := range absent {
		full := foldedname.FoldPath(string(p))
		g.protectedPaths[full] = true
		g.protectedLastNames[path.Base(full)] = true
		for above := path.Dir(full); above != "/"; above = path.Dir(above) {
			g.protectedParents[above] = true
		}
	}
}

// HideMore adds paths that the session cannot open.
func (g *Guard) HideMore(paths []mountlist.Path) {
	g.AddProtected(paths, nil) // it cannot make, move or remove them either
	g.protectMu.Lock()
	defer g.protectMu.Unlock()
	for _, p := range paths {
		if folded := foldedname.FoldPath(string(p)); !slices.Contains(g.hiddenPaths, folded) {
			g.hiddenPaths = append(g.hiddenPaths, folded)
		}
	}
}

// IsHidden reports whether the session cannot open a path without links. The kernel appends "
// (deleted)" to the path of a file that was removed while it was open.
func (g *Guard) IsHidden(full string) bool {
	g.protectMu.RLock()
	defer g.protectMu.RUnlock()
	return g.isHiddenLocked(full)
}

// isHiddenLocked is IsHidden for callers that hold protectMu.
func (g *Guard) isHiddenLocked(full string) bool {
	full = foldedname.FoldPath(strings.TrimSuffix(full, " (deleted)"))
	return slices.ContainsFunc(g.hiddenPaths, func(c string) bool { return paths.Contains(c, full) })
}

// IsUngrantable reports whether a path is below a mount that no grant makes writable.
func (g *Guard) IsUngrantable(file string) bool {
	g.protectMu.RLock()
	defer g.protectMu.RUnlock()
	for ; file != "/" && file != "."; file = path.Dir(file) {
		if kind, ok := g.mountKinds[file]; ok {
			return kind == mountlist.ReadOnlyBind || kind == mountlist.GuardedFile || kind == mountlist.MaskedPath || kind == mountlist.ReplacedFile
		}
	}
	return false
}

// IsMountName reports whether a mount has this last name.
func (g *Guard) IsMountName(last []byte) bool {
	g.protectMu.RLock()
	defer g.protectMu.RUnlock()
	return g.mountNames[string(last)]
}

// ForgetMount forgets the kind of a removed mount.
func (g *Guard) ForgetMount(path string) {
	g.protectMu.Lock()
	defer g.protectMu.Unlock()
	delete(g.mountKinds, path)
}

// NearestKind returns the kind of the nearest mount around a path, or "".
func NearestKind(kinds map[string]mountlist.MountKind, path string) mountlist.MountKind {
	for d := filepath.Dir(path); d != "/" && d != "."; d = filepath.Dir(d) {
		if k, ok := kinds[d]; ok {
			return k
		}
	}
	return ""
}

// workDirOf returns the innermost of the session's writable directories around a path, or "".
func (g *Guard) workDirOf(full string) (base string) {
	for _, w := range g.workDirs {
		if len(w) > len(base) && paths.Contains(w, full) {
			base = w
		}
	}
	return base
}

// isWritablePath reports whether a path is in a directory that the session writes.
func (g *Guard) isWritablePath(full string) bool {
	g.protectMu.RLock()
	defer g.protectMu.RUnlock()
	return g.workDirOf(full) != ""
}

// IsMountPoint reports whether a path without links is a mount point.
func (g *Guard) IsMountPoint(full string) bool {
	g.protectMu.RLock()
	defer g.protectMu.RUnlock()
	_, ok := g.mountKinds[full]
	return ok
}

// KindAbove returns the kind of the nearest mount around a path in the session.
func (g *Guard) KindAbove(path string) mountlist.MountKind {
	g.protectMu.RLock()
	defer g.protectMu.RUnlock()
	return NearestKind(g.mountKinds, path)
}
