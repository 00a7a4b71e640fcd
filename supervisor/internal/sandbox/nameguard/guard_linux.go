package nameguard

import (
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/internal/paths"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/filestate"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/foldedname"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/gitdir"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/mountlist"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/workerview"
)

// A Guard decides at each call, by name, what a session may change in the directories that it
// writes. Mounts protect only what was there when the session started, and programs outside replace
// files and make new ones. So the guard checks what a name means at the time of the call: a
// repository that was made a moment ago is protected like any other.
//
// In repositories that the session itself made, it protects hooks and settings, because git also
// runs what they name for the repository around them.
type Guard struct {
	view *workerview.View

	workDirs   []string // directories that the session writes; guarded by protectMu, as is gitTargets
	gitTargets []string // paths in them that git settings lead to

	ownMu        sync.Mutex
	ownRepos     map[string]bool // directories of repositories that the session made, by identity
	freshDirs    []string        // the latest directories that it made, by identity; at most maxFreshDirs
	ownReposFile *os.File        // records ownRepos for the session's later workers; may be nil

	protectMu          sync.RWMutex
	protectedPaths     map[string]bool                // paths that must not be made, folded
	protectedLastNames map[string]bool                // their last names
	protectedParents   map[string]bool                // all directories above them
	hiddenPaths        []string                       // hidden paths, case-folded
	mountKinds         map[string]mountlist.MountKind // the mounts by path
	mountNames         map[string]bool                // their last names
}

// New returns a guard that protects nothing yet.
func New(view *workerview.View) *Guard { return &Guard{view: view} }

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

// otherRepositories are the directories of repositories of other version control systems.
var otherRepositories = map[string]bool{".hg": true, ".jj": true, ".pijul": true, ".sl": true, "_darcs": true}

// A pathAccess says what a session may do with a path that the guard knows.
type pathAccess int

const (
	accessFull   pathAccess = iota
	AccessRemove            // it may be removed, and changes only through a check
	AccessNone              // it must not be made, written, replaced or removed
)

// isProtected reports whether a path must not be changed in any way.
func (g *Guard) isProtected(full string) bool { return g.AccessOf(full) == AccessNone }

// IsRestricted reports whether a path must not be made or written.
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

// gitDirNames are the names in a git directory that the guard checks.
var gitDirNames = map[string]bool{"hooks": true, "config": true, "config.worktree": true, "commondir": true, "gitdir": true, "info": true, "modules": true, "worktrees": true, "remotes": true, "branches": true}

// isCheckedSettings reports whether a name is that of a checked settings file that is not in its
// place yet.
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

// isOldRemote reports whether a path in a git directory is that of such a remote.
func isOldRemote(below string) bool {
	return slices.Contains(oldRemotes, foldedname.FoldPath(path.Base(path.Dir(below))))
}

// isOwnWithin reports whether a path in a git directory belongs to a repository that the session
// made. The innermost of the repository, its submodules and its work trees decides.
func (g *Guard) isOwnWithin(git, below string) bool {
	for own := g.isOwnRepo(git); ; {
		part, after, found := strings.Cut(below, "/")
		if !found {
			return own
		}
		git += "/" + part
		switch {
		case g.isOwnRepo(git):
			own = true
		case canBeGitDir(git):
			own = false
		}
		below = after
	}
}

func (g *Guard) isOwnRepo(name string) bool {
	g.ownMu.Lock()
	defer g.ownMu.Unlock()
	return len(g.ownRepos) > 0 && g.ownRepos[filestate.IdentityOf(name)] // the list never contains ""
}

// isForeign reports whether a name may exist that the session did not make.
func (g *Guard) isForeign(name string) bool {
	return filestate.PresenceOf(name) != filestate.Missing && !g.isOwnRepo(name)
}

// canBeGitDir reports whether a directory may be a git directory.
func canBeGitDir(dir string) bool { return gitdir.GitDirPresence(dir) != filestate.Missing }

// isForeignBare reports whether a directory may be a bare repository that the session did not make.
func (g *Guard) isForeignBare(dir string) bool {
	return canBeGitDir(dir) && !g.isOwnRepo(dir)
}

// maxFreshDirs bounds the directories that are remembered because they may become repositories.
const maxFreshDirs = 2048

// RecordCreated records that the session made a name, if that makes it the owner of a repository.
// That holds for its .git and for a submodule or work tree. It also holds for the last part of a
// bare repository if the session made the directory; otherwise someone else may be making a
// repository there.
func (g *Guard) RecordCreated(full string) {
	isLast := false
	switch name := foldedname.FoldPath(path.Base(full)); {
	case name == ".git", otherRepositories[name], g.isAdded(full):
	case (name == "objects" || name == "head" || name == "commondir") && gitdir.IsGitDir(path.Dir(full)):
		full, isLast = path.Dir(full), true
	default:
		return
	}
	g.ownMu.Lock()
	defer g.ownMu.Unlock()
	id := filestate.IdentityOf(full)
	if id == "" || g.ownRepos[id] || len(g.ownRepos) >= gitdir.MaxOwnRepos || isLast && !slices.Contains(g.freshDirs, id) {
		return
	}
	if g.ownRepos == nil {
		g.ownRepos = map[string]bool{}
	}
	g.ownRepos[id] = true
	if g.ownReposFile != nil && !strings.Contains(id, "\n") {
		_, _ = g.ownReposFile.WriteString(id + "\n") // on failure, later workers protect it like a foreign one
	}
}

// RecordFreshDir records that the session made a directory.
func (g *Guard) RecordFreshDir(s workerview.NameInDir) {
	id := filestate.IdentityAt(s.Dir, s.Name, 0, s.FullPath)
	if id == "" || !g.isWritablePath(s.FullPath) {
		return
	}
	g.ownMu.Lock()
	defer g.ownMu.Unlock()
	if len(g.freshDirs) >= maxFreshDirs {
		g.freshDirs = slices.Delete(g.freshDirs, 0, maxFreshDirs/2)
	}
	g.freshDirs = append(g.freshDirs, id)
}

// isAdded reports whether a path is the git directory of a submodule or work tree, or a directory
// on the way to one. Paths inside an existing git directory of that kind do not count.
func (g *Guard) isAdded(full string) bool {
	if !strings.Contains(full, "/.git/modules/") && !strings.Contains(full, "/.git/worktrees/") {
		return false
	}
	for dir := path.Dir(full); dir != "/"; dir = path.Dir(dir) {
		above, name := path.Split(dir)
		if (name == "modules" || name == "worktrees") && (path.Base(above) == ".git" || gitdir.IsGitDir(above)) {
			return true
		}
		if canBeGitDir(dir) {
			return false
		}
	}
	return false
}

// isRepositoryPart reports whether a name is a part without which its directory would not be a
// repository, and the session did not make that repository.
func (g *Guard) isRepositoryPart(full string) bool {
	if !g.isWritablePath(full) {
		return false
	}
	switch name := foldedname.FoldPath(path.Base(full)); {
	case name == ".git", otherRepositories[name]:
		return !g.isOwnRepo(full) // also if it is being made at this moment
	case GitDirParts[name]:
		return g.isForeignBare(path.Dir(full))
	}
	return false
}

// GitDirParts are the names that turn a directory into a repository.
var GitDirParts = map[string]bool{"head": true, "objects": true, "commondir": true, "worktrees": true}

// gitDirAround returns the .git directory around a path, or the path's directory if that is a bare
// repository, and the rest of the path. It returns "" for files of git's database and for paths
// outside git directories.
func (g *Guard) gitDirAround(full string) (git, below string) {
	g.protectMu.RLock()
	base := g.workDirOf(full)
	g.protectMu.RUnlock()
	if base == "" {
		return "", ""
	}
	for git = path.Dir(full); len(git) > len(base); git = path.Dir(git) {
		if foldedname.FoldPath(path.Base(git)) != ".git" {
			continue
		}
		below = full[len(git)+1:]
		if first, _, _ := strings.Cut(below, "/"); !slices.Contains(gitDatabaseDirs, first) {
			return git, below
		}
		break
	}
	if git, below = path.Dir(full), path.Base(full); gitDirNames[foldedname.FoldPath(below)] && canBeGitDir(git) {
		return git, below
	}
	return "", ""
}

// isInForeignGit reports whether a path is in the git directory of a foreign repository. Git itself
// moves directories there only in its database.
func (g *Guard) isInForeignGit(full string) bool {
	git, below := g.gitDirAround(full)
	return git != "" && !g.isOwnWithin(git, below+"/")
}

// isAboveMount reports whether a directory contains a mount, a hidden path or a path that git
// settings lead to.
func (g *Guard) isAboveMount(full string) bool {
	g.protectMu.RLock()
	defer g.protectMu.RUnlock()
	for p := range g.mountKinds {
		if p != full && paths.Contains(full, p) {
			return true
		}
	}
	as := foldedname.FoldPath(full)
	return slices.ContainsFunc(g.gitTargets, func(r string) bool { return r != full && paths.Contains(full, r) }) ||
		slices.ContainsFunc(g.hiddenPaths, func(c string) bool { return paths.Contains(as, c) })
}

// maxWalkedNames bounds the names in the search of a directory; that many take a tenth of a second.
const maxWalkedNames = 200_000

// namesPerCollection is the number of names of a search after which the monitor frees their memory,
// some megabytes.
const namesPerCollection = 4096

// hasForeignRepo reports whether a directory may contain a repository that the session did not
// make. It also reports true if the directory has too many names, or one that cannot be read. Like
// the search at the start, it skips node_modules.
func (g *Guard) hasForeignRepo(full string, limit int) bool {
	if !g.isWritablePath(full) {
		return false
	}
	left := limit
	defer func() {
		if limit-left > namesPerCollection {
			runtime.GC() // the monitor's collector runs only at a much larger heap
		}
	}()
	for queue := []string{full}; len(queue) > 0; queue = queue[1:] {
		dir := queue[0]
		entries, err := os.ReadDir(dir)
		if left -= len(entries); left < 0 || filestate.PresenceOfError(err) == filestate.Unknown && !isInaccessible(os.Getuid(), dir) {
			return true
		}
		for _, e := range entries {
			switch name := foldedname.FoldPath(e.Name()); {
			case name == ".git", otherRepositories[name]:
				if g.isForeign(dir + "/" + e.Name()) {
					return true
				}
			case name == "head" && g.isForeignBare(dir):
				return true
			case e.IsDir() && e.Name() != "node_modules":
				queue = append(queue, dir+"/"+e.Name())
			}
		}
	}
	return false
}

// isInaccessible reports whether a directory belongs to another user and is closed to all others,
// like that of a database in a container. The user has no repository in it.
func isInaccessible(uid int, dir string) bool {
	var st unix.Stat_t
	return unix.Lstat(dir, &st) == nil && uid != 0 && int(st.Uid) != uid && st.Mode&0o077 == 0
}

// mustBeEmpty reports whether a name must not be given to something that may have been filled
// before. Such names are parts of a repository, names that turn a directory above a repository into
// one, and directories that would hold protected names.
func (g *Guard) mustBeEmpty(full string, moving bool) bool {
	name := foldedname.FoldPath(path.Base(full))
	switch {
	case (name == ".git" || name == "head") && !filestate.IsPresent(full):
		return g.hasForeignRepo(path.Dir(full), maxWalkedNames)
	case moving:
		return g.isHooks(full) || gitDirNames[name] && g.isInForeignGit(full) || g.isAboveName(full)
	}
	return false
}

// isHooks reports whether a path is the directory of a repository's hooks or old remotes.
func (g *Guard) isHooks(full string) bool {
	switch name := foldedname.FoldPath(path.Base(full)); {
	case name == "hooks":
		git, _ := g.gitDirAround(full)
		return git != ""
	case slices.Contains(oldRemotes, name):
		return g.isWritablePath(full) && canBeGitDir(path.Dir(full))
	}
	return false
}

// isAboveName reports whether a path is the beginning of a protected name that contains a slash.
func (g *Guard) isAboveName(full string) bool {
	g.protectMu.RLock()
	defer g.protectMu.RUnlock()
	base := g.workDirOf(full)
	if base == "" {
		return false
	}
	for at := full; at != base; at = path.Dir(at) {
		above, first := path.Dir(at), foldedname.FoldPath(path.Base(at))
		rest := foldedname.FoldPath(strings.TrimPrefix(full, above+"/"))
		for _, n := range nestedProtectedNames[first] {
			if strings.HasPrefix(n, rest+"/") && (above == base || g.isForeign(above+"/.git") || otherRepositories[first] && g.isForeign(at)) {
				return true
			}
		}
	}
	return false
}

// isGitTarget reports whether git settings lead to a path.
func (g *Guard) isGitTarget(full string) bool {
	g.protectMu.RLock()
	defer g.protectMu.RUnlock()
	return slices.ContainsFunc(g.gitTargets, func(r string) bool { return paths.Contains(r, full) })
}
