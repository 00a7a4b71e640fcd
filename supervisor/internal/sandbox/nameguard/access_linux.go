package nameguard

import (
	"os"
	"path"
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/internal/paths"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/filestate"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/foldedname"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/gitdir"
)

// A pathAccess says what a session may do with a path that the guard knows.
type pathAccess int

const (
	accessFull   pathAccess = iota
	AccessRemove            // it may be removed, and changes only through a check
	AccessNone              // it must not be created, written, replaced or removed
)

// isProtected reports whether a path must not be changed in any way.
func (g *Guard) isProtected(full string) bool { return g.AccessOf(full) == AccessNone }

// IsRestricted reports whether a path must not be created or written.
func (g *Guard) IsRestricted(full string) bool { return g.AccessOf(full) != accessFull }

// AccessOf returns the access to a path without links, whose names are compared as any filesystem
// may read them. For almost every path it costs only comparisons.
func (g *Guard) AccessOf(full string) pathAccess {
	g.protectMu.RLock()
	defer g.protectMu.RUnlock()
	if g.isHiddenLocked(full) {
		return AccessNone
	}
	base := g.workDirOf(full)
	if base == "" || full == base {
		return accessFull
	}
	for _, r := range g.gitTargets {
		if paths.Contains(r, full) {
			return AccessNone
		}
	}
	at, rest := base, full[len(base)+1:]
	for rest != "" {
		part, after, _ := strings.Cut(rest, "/")
		above, name := at, foldedname.FoldPath(part)
		at += "/" + part
		if foldedname.IsShortName(above, part) {
			return AccessNone
		}
		if name == ".git" && (after == "" || isProtectedInGit(foldedname.FoldPath(after))) {
			return g.accessOfDotGit(at, after)
		}
		if g.isProtectedName(above, at, name, base) {
			return AccessNone
		}
		if (gitDirNames[name] || isCheckedSettings(name)) && isProtectedInGit(foldedname.FoldPath(rest)) && canBeGitDir(above) {
			return g.accessInGitDir(above, rest)
		}
		if g.isProtectedNested(above, at, foldedname.FoldPath(rest), base) {
			return AccessNone
		}
		rest = after
	}
	return accessFull
}

// flatProtectedNames are the protected names without a slash; nestedProtectedNames are the others,
// by their first part.
var flatProtectedNames, nestedProtectedNames = func() (plain map[string]bool, slashed map[string][]string) {
	plain, slashed = map[string]bool{}, map[string][]string{}
	for _, n := range gitdir.ProtectedNames {
		if first, _, found := strings.Cut(n, "/"); found {
			slashed[first] = append(slashed[first], n)
		} else {
			plain[n] = true
		}
	}
	return plain, slashed
}()

// gitDirNames are the names in a git directory that the guard checks.
var gitDirNames = map[string]bool{"hooks": true, "config": true, "config.worktree": true, "commondir": true, "gitdir": true, "info": true, "modules": true, "worktrees": true, "remotes": true, "branches": true}

// isCheckedSettings reports whether a name belongs to a checked settings file that was not moved to
// its final name yet.
func isCheckedSettings(name string) bool { return strings.HasPrefix(name, checkedSettingsPrefix) }

// isProtectedName reports whether a name outside git directories is protected.
func (g *Guard) isProtectedName(above, at, name, base string) bool {
	switch {
	case g.protectedLastNames[name] && name != "head" && g.protectedPaths[foldedname.FoldPath(at)]:
		return true
	case flatProtectedNames[name]:
		return above == base || g.isForeign(above+"/.git")
	case name == "head": // with HEAD, git would treat the directory as a repository
		return g.isForeign(above + "/.git")
	case slices.Contains(gitdir.HookSettings, name):
		return g.isForeign(above+"/.git") && (len(g.gitTargets) > 0 || gitdir.HasHooks(above+"/.git/hooks"))
	}
	return false
}

// isProtectedNested reports whether a path starts with a protected name that contains a slash.
func (g *Guard) isProtectedNested(above, at, rest, base string) bool {
	first, _, _ := strings.Cut(rest, "/")
	switch {
	case !slices.ContainsFunc(nestedProtectedNames[first], func(n string) bool { return paths.Contains(n, rest) }):
		return false
	case otherRepositories[first]:
		return g.isForeign(at)
	}
	return above == base || g.isForeign(above+"/.git")
}

// accessOfDotGit returns the access to the .git of a directory, or to a checked name below it.
func (g *Guard) accessOfDotGit(git, below string) pathAccess {
	if below != "" {
		return g.accessInGitDir(git, below)
	}
	st, err := os.Lstat(git)
	if filestate.PresenceOfError(err) == filestate.Missing || err == nil && st.IsDir() || g.isOwnRepo(git) {
		return accessFull
	}
	return AccessNone // a .git file names the repository
}

// accessInGitDir returns the access to a checked name in a git directory.
func (g *Guard) accessInGitDir(git, below string) pathAccess {
	switch last := foldedname.FoldPath(path.Base(below)); {
	case isOldRemote(below) && strings.Contains(path.Dir(below), "/") && !canBeGitDir(path.Join(git, path.Dir(path.Dir(below)))):
		return accessFull // it belongs to a submodule whose name ends like this
	case !g.isOwnWithin(git, below):
		return AccessNone
	case last == "gitdir", last == "attributes": // these name no program
		return accessFull
	}
	return AccessRemove
}

// gitDatabaseDirs are the directories of a repository that may contain names of any kind.
var gitDatabaseDirs = []string{"objects", "refs", "logs"}

// isProtectedInGit reports whether a path in a git directory is protected.
func isProtectedInGit(below string) bool {
	parts := strings.Split(below, "/")
	last := parts[len(parts)-1]
	switch {
	case slices.Contains(gitDatabaseDirs, parts[0]):
		return false
	case slices.Contains(parts[:len(parts)-1], "hooks"):
		return !strings.HasSuffix(last, ".sample") // git never runs samples
	case slices.Contains([]string{"config", "config.worktree", "commondir", "gitdir"}, last), isCheckedSettings(last):
		return true
	}
	return strings.HasSuffix("/"+below, "/info/attributes") || isOldRemote(below)
}

// oldRemotes are the directories in which git still looks for remotes that are not in its settings.
var oldRemotes = []string{"remotes", "branches"}

// isOldRemote reports whether a path in a git directory is in one of oldRemotes.
func isOldRemote(below string) bool {
	return slices.Contains(oldRemotes, foldedname.FoldPath(path.Base(path.Dir(below))))
}

// isGitTarget reports whether git settings lead to a path.
func (g *Guard) isGitTarget(full string) bool {
	g.protectMu.RLock()
	defer g.protectMu.RUnlock()
	return slices.ContainsFunc(g.gitTargets, func(r string) bool { return paths.Contains(r, full) })
}

// checkedSettingsPrefix is the prefix of the temporary name of checked settings. No program of the
// session may write such a file.
const checkedSettingsPrefix = "config.checked-by-turnstone"
