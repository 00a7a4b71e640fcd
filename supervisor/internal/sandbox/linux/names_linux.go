package linux

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/internal/paths"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/plan"
)

// loadOwnRepos loads the list of repositories that the session's earlier workers made, and opens
// the file for more.
func (g *writeGuard) loadOwnRepos(state string) {
	g.ownRepos = plan.ReadOwnRepos(state)
	g.ownReposFile, _ = os.OpenFile(plan.OwnReposFileIn(state), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600) // without the file, later workers protect them
}

// guardMore adds directories that the session writes, and paths that git settings lead to.
func (g *writeGuard) guardMore(work, targets []plan.Path) {
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

// addProtected adds names that must not be made, and mounts that must stay where they are.
func (g *writeGuard) addProtected(absent []plan.Path, mounts []plan.Mount) {
	g.protectMu.Lock()
	defer g.protectMu.Unlock()
	if g.protectedPaths == nil {
		g.protectedPaths, g.protectedLastNames, g.protectedParents = map[string]bool{}, map[string]bool{}, map[string]bool{}
		g.mountKinds, g.mountNames = map[string]plan.MountKind{}, map[string]bool{}
	}
	for _, p := range mounts {
		g.mountKinds[string(p.Path)] = p.Kind
		g.mountNames[path.Base(string(p.Path))] = true
	}
	for _, p := range absent {
		full := foldPath(string(p))
		g.protectedPaths[full] = true
		g.protectedLastNames[path.Base(full)] = true
		for above := path.Dir(full); above != "/"; above = path.Dir(above) {
			g.protectedParents[above] = true
		}
	}
}

// hideMore adds paths that the session cannot open.
func (g *writeGuard) hideMore(paths []plan.Path) {
	g.addProtected(paths, nil) // it cannot make, move or remove them either
	g.protectMu.Lock()
	defer g.protectMu.Unlock()
	for _, p := range paths {
		if folded := foldPath(string(p)); !slices.Contains(g.hiddenPaths, folded) {
			g.hiddenPaths = append(g.hiddenPaths, folded)
		}
	}
}

// isHidden reports whether the session cannot open a path without links. The kernel appends "
// (deleted)" to the path of a file that was removed while it was open.
func (g *writeGuard) isHidden(full string) bool {
	g.protectMu.RLock()
	defer g.protectMu.RUnlock()
	return g.isHiddenLocked(full)
}

// isHiddenLocked is isHidden for callers that hold protectMu.
func (g *writeGuard) isHiddenLocked(full string) bool {
	full = foldPath(strings.TrimSuffix(full, " (deleted)"))
	return slices.ContainsFunc(g.hiddenPaths, func(c string) bool { return paths.Contains(c, full) })
}

// isUngrantable reports whether a path is below a mount that no grant makes writable.
func (g *writeGuard) isUngrantable(file string) bool {
	g.protectMu.RLock()
	defer g.protectMu.RUnlock()
	for ; file != "/" && file != "."; file = path.Dir(file) {
		if kind, ok := g.mountKinds[file]; ok {
			return kind == plan.ReadOnlyBind || kind == plan.GuardedFile || kind == plan.MaskedPath || kind == plan.ReplacedFile
		}
	}
	return false
}

func (g *writeGuard) isMountName(last []byte) bool {
	g.protectMu.RLock()
	defer g.protectMu.RUnlock()
	return g.mountNames[string(last)]
}

// forgetMount forgets the kind of a removed mount.
func (g *writeGuard) forgetMount(path string) {
	g.protectMu.Lock()
	defer g.protectMu.Unlock()
	delete(g.mountKinds, path)
}

func nearestKind(kinds map[string]plan.MountKind, path string) plan.MountKind {
	for d := filepath.Dir(path); d != "/" && d != "."; d = filepath.Dir(d) {
		if k, ok := kinds[d]; ok {
			return k
		}
	}
	return ""
}

// workDirOf returns the innermost of the session's writable directories around a path, or "".
func (g *writeGuard) workDirOf(full string) (base string) {
	for _, w := range g.workDirs {
		if len(w) > len(base) && paths.Contains(w, full) {
			base = w
		}
	}
	return base
}

// isWritablePath reports whether a path is in a directory that the session writes.
func (g *writeGuard) isWritablePath(full string) bool {
	g.protectMu.RLock()
	defer g.protectMu.RUnlock()
	return g.workDirOf(full) != ""
}

// isMountPoint reports whether a path without links is that of a mount.
func (g *writeGuard) isMountPoint(full string) bool {
	g.protectMu.RLock()
	defer g.protectMu.RUnlock()
	_, ok := g.mountKinds[full]
	return ok
}

// kindAbove returns the kind of the nearest mount around a path in the session.
func (g *writeGuard) kindAbove(path string) plan.MountKind {
	g.protectMu.RLock()
	defer g.protectMu.RUnlock()
	return nearestKind(g.mountKinds, path)
}
