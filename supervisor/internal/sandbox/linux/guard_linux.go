package linux

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
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/plan"
)

// A writeGuard decides at each call, by name, what a session may change in the directories that it
// writes. Mounts protect only what was there when the session started, and programs outside replace
// files and make new ones. So the guard checks what a name means at the time of the call: a
// repository that was made a moment ago is protected like any other.
//
// In repositories that the session itself made, it protects hooks and settings, because git also
// runs what they name for the repository around them.
type writeGuard struct {
	workDirs   []string // directories that the session writes; guarded by protectMu, as is gitTargets
	gitTargets []string // paths in them that git settings lead to

	ownMu        sync.Mutex
	ownRepos     map[string]bool // directories of repositories that the session made, by identity
	freshDirs    []string        // the latest directories that it made, by identity; at most maxFreshDirs
	ownReposFile *os.File        // records ownRepos for the session's later workers; may be nil
}

// loadOwnRepos loads the list of repositories that the session's earlier workers made, and opens
// the file for more.
func (sb *ActiveSandbox) loadOwnRepos() {
	sb.ownRepos = plan.ReadOwnRepos(string(sb.plan.State))
	sb.ownReposFile, _ = os.OpenFile(plan.OwnReposFileIn(string(sb.plan.State)), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600) // without the file, later workers protect them
}

// flatProtectedNames are the protected names without a slash; nestedProtectedNames are the others,
// by their first part.
var flatProtectedNames, nestedProtectedNames = func() (plain map[string]bool, slashed map[string][]string) {
	plain, slashed = map[string]bool{}, map[string][]string{}
	for _, n := range plan.ProtectedNames {
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

// guardMore adds directories that the session writes, and paths that git settings lead to.
func (sb *ActiveSandbox) guardMore(work, targets []plan.Path) {
	sb.protectMu.Lock()
	defer sb.protectMu.Unlock()
	for _, p := range work {
		sb.workDirs = append(sb.workDirs, string(p))
	}
	for _, p := range targets {
		if !slices.Contains(sb.gitTargets, string(p)) {
			sb.gitTargets = append(sb.gitTargets, string(p))
		}
	}
}

// workDirOf returns the innermost of the session's writable directories around a path, or "".
func (sb *ActiveSandbox) workDirOf(full string) (base string) {
	for _, w := range sb.workDirs {
		if len(w) > len(base) && paths.Contains(w, full) {
			base = w
		}
	}
	return base
}

// isWritablePath reports whether a path is in a directory that the session writes.
func (sb *ActiveSandbox) isWritablePath(full string) bool {
	sb.protectMu.RLock()
	defer sb.protectMu.RUnlock()
	return sb.workDirOf(full) != ""
}

// A pathAccess says what a session may do with a path that the guard knows.
type pathAccess int

const (
	accessFull   pathAccess = iota
	accessRemove            // it may be removed, and changes only through a check
	accessNone              // it must not be made, written, replaced or removed
)

// isProtected reports whether a path must not be changed in any way.
func (sb *ActiveSandbox) isProtected(full string) bool { return sb.accessOf(full) == accessNone }

// isRestricted reports whether a path must not be made or written.
func (sb *ActiveSandbox) isRestricted(full string) bool { return sb.accessOf(full) != accessFull }

// accessOf returns the access to a path without links, whose names are compared as any filesystem
// may read them. For almost every path it costs only comparisons.
func (sb *ActiveSandbox) accessOf(full string) pathAccess {
	sb.protectMu.RLock()
	defer sb.protectMu.RUnlock()
	if sb.isHiddenLocked(full) {
		return accessNone
	}
	base := sb.workDirOf(full)
	if base == "" || full == base {
		return accessFull
	}
	for _, r := range sb.gitTargets {
		if paths.Contains(r, full) {
			return accessNone
		}
	}
	at, rest := base, full[len(base)+1:]
	for rest != "" {
		part, after, _ := strings.Cut(rest, "/")
		above, name := at, foldPath(part)
		at += "/" + part
		if isShortName(above, part) {
			return accessNone
		}
		if name == ".git" && (after == "" || isProtectedInGit(foldPath(after))) {
			return sb.accessOfDotGit(at, after)
		}
		if sb.isProtectedName(above, at, name, base) {
			return accessNone
		}
		if (gitDirNames[name] || isCheckedSettings(name)) && isProtectedInGit(foldPath(rest)) && canBeGitDir(above) {
			return sb.accessInGitDir(above, rest)
		}
		if sb.isProtectedNested(above, at, foldPath(rest), base) {
			return accessNone
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
func (sb *ActiveSandbox) isProtectedName(above, at, name, base string) bool {
	switch {
	case sb.protectedLastNames[name] && name != "head" && sb.protectedPaths[foldPath(at)]:
		return true
	case flatProtectedNames[name]:
		return above == base || sb.isForeign(above+"/.git")
	case name == "head": // with HEAD, git would treat the directory as a repository
		return sb.isForeign(above + "/.git")
	case slices.Contains(plan.HookSettings, name):
		return sb.isForeign(above+"/.git") && (len(sb.gitTargets) > 0 || plan.HasHooks(above+"/.git/hooks"))
	}
	return false
}

// isProtectedNested reports whether a path starts with a protected name that contains a slash.
func (sb *ActiveSandbox) isProtectedNested(above, at, rest, base string) bool {
	first, _, _ := strings.Cut(rest, "/")
	switch {
	case !slices.ContainsFunc(nestedProtectedNames[first], func(n string) bool { return paths.Contains(n, rest) }):
		return false
	case otherRepositories[first]:
		return sb.isForeign(at)
	}
	return above == base || sb.isForeign(above+"/.git")
}

// accessOfDotGit returns the access to the .git of a directory, or to a checked name below it.
func (sb *ActiveSandbox) accessOfDotGit(git, below string) pathAccess {
	if below != "" {
		return sb.accessInGitDir(git, below)
	}
	st, err := os.Lstat(git)
	if filestate.PresenceOfError(err) == filestate.Missing || err == nil && st.IsDir() || sb.isOwnRepo(git) {
		return accessFull
	}
	return accessNone // a .git file names the repository
}

// accessInGitDir returns the access to a checked name in a git directory.
func (sb *ActiveSandbox) accessInGitDir(git, below string) pathAccess {
	switch last := foldPath(path.Base(below)); {
	case isOldRemote(below) && strings.Contains(path.Dir(below), "/") && !canBeGitDir(path.Join(git, path.Dir(path.Dir(below)))):
		return accessFull // it belongs to a submodule whose name ends like this
	case !sb.isOwnWithin(git, below):
		return accessNone
	case last == "gitdir", last == "attributes": // these name no program
		return accessFull
	}
	return accessRemove
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
	return slices.Contains(oldRemotes, foldPath(path.Base(path.Dir(below))))
}

// isOwnWithin reports whether a path in a git directory belongs to a repository that the session
// made. The innermost of the repository, its submodules and its work trees decides.
func (sb *ActiveSandbox) isOwnWithin(git, below string) bool {
	for own := sb.isOwnRepo(git); ; {
		part, after, found := strings.Cut(below, "/")
		if !found {
			return own
		}
		git += "/" + part
		switch {
		case sb.isOwnRepo(git):
			own = true
		case canBeGitDir(git):
			own = false
		}
		below = after
	}
}

func (sb *ActiveSandbox) isOwnRepo(name string) bool {
	sb.ownMu.Lock()
	defer sb.ownMu.Unlock()
	return len(sb.ownRepos) > 0 && sb.ownRepos[filestate.IdentityOf(name)] // the list never contains ""
}

// isForeign reports whether a name may exist that the session did not make.
func (sb *ActiveSandbox) isForeign(name string) bool {
	return filestate.PresenceOf(name) != filestate.Missing && !sb.isOwnRepo(name)
}

// canBeGitDir reports whether a directory may be a git directory.
func canBeGitDir(dir string) bool { return plan.GitDirPresence(dir) != filestate.Missing }

// isForeignBare reports whether a directory may be a bare repository that the session did not make.
func (sb *ActiveSandbox) isForeignBare(dir string) bool {
	return canBeGitDir(dir) && !sb.isOwnRepo(dir)
}

// maxFreshDirs bounds the directories that are remembered because they may become repositories.
const maxFreshDirs = 2048

// recordCreated records that the session made a name, if that makes it the owner of a repository.
// That holds for its .git and for a submodule or work tree. It also holds for the last part of a
// bare repository if the session made the directory; otherwise someone else may be making a
// repository there.
func (sb *ActiveSandbox) recordCreated(full string) {
	isLast := false
	switch name := foldPath(path.Base(full)); {
	case name == ".git", otherRepositories[name], sb.isAdded(full):
	case (name == "objects" || name == "head" || name == "commondir") && plan.IsGitDir(path.Dir(full)):
		full, isLast = path.Dir(full), true
	default:
		return
	}
	sb.ownMu.Lock()
	defer sb.ownMu.Unlock()
	id := filestate.IdentityOf(full)
	if id == "" || sb.ownRepos[id] || len(sb.ownRepos) >= plan.MaxOwnRepos || isLast && !slices.Contains(sb.freshDirs, id) {
		return
	}
	if sb.ownRepos == nil {
		sb.ownRepos = map[string]bool{}
	}
	sb.ownRepos[id] = true
	if sb.ownReposFile != nil && !strings.Contains(id, "\n") {
		_, _ = sb.ownReposFile.WriteString(id + "\n") // on failure, later workers protect it like a foreign one
	}
}

// recordFreshDir records that the session made a directory.
func (sb *ActiveSandbox) recordFreshDir(s nameInDir) {
	id := filestate.IdentityAt(s.dir, s.name, 0, s.fullPath)
	if id == "" || !sb.isWritablePath(s.fullPath) {
		return
	}
	sb.ownMu.Lock()
	defer sb.ownMu.Unlock()
	if len(sb.freshDirs) >= maxFreshDirs {
		sb.freshDirs = slices.Delete(sb.freshDirs, 0, maxFreshDirs/2)
	}
	sb.freshDirs = append(sb.freshDirs, id)
}

// isAdded reports whether a path is the git directory of a submodule or work tree, or a directory
// on the way to one. Paths inside an existing git directory of that kind do not count.
func (sb *ActiveSandbox) isAdded(full string) bool {
	if !strings.Contains(full, "/.git/modules/") && !strings.Contains(full, "/.git/worktrees/") {
		return false
	}
	for dir := path.Dir(full); dir != "/"; dir = path.Dir(dir) {
		above, name := path.Split(dir)
		if (name == "modules" || name == "worktrees") && (path.Base(above) == ".git" || plan.IsGitDir(above)) {
			return true
		}
		if canBeGitDir(dir) {
			return false
		}
	}
	return false
}

// checkMovePath returns an error if a name must not be moved.
func (sb *ActiveSandbox) checkMovePath(s nameInDir) error {
	kind := s.fileType()
	if kind == 0 {
		return unix.ENOENT // a name that is being made at this moment is not moved
	}
	if sb.isProtected(s.fullPath) || sb.isRepositoryPart(s.fullPath) {
		return protectedNameError{path: s.fullPath}
	}
	if kind != unix.S_IFDIR {
		return nil
	}
	if sb.isInForeignGit(s.fullPath) || sb.isAboveMount(s.fullPath) || sb.isWritablePath(s.fullPath) && hasWorkTree(s.fullPath) {
		return protectedNameError{path: s.fullPath}
	}
	if sb.hasForeignRepo(s.fullPath, maxWalkedNames) {
		return unix.EXDEV
	}
	return nil
}

// isRepositoryPart reports whether a name is a part without which its directory would not be a
// repository, and the session did not make that repository.
func (sb *ActiveSandbox) isRepositoryPart(full string) bool {
	if !sb.isWritablePath(full) {
		return false
	}
	switch name := foldPath(path.Base(full)); {
	case name == ".git", otherRepositories[name]:
		return !sb.isOwnRepo(full) // also if it is being made at this moment
	case gitDirParts[name]:
		return sb.isForeignBare(path.Dir(full))
	}
	return false
}

// gitDirParts are the names that turn a directory into a repository.
var gitDirParts = map[string]bool{"head": true, "objects": true, "commondir": true, "worktrees": true}

// gitDirAround returns the .git directory around a path, or the path's directory if that is a bare
// repository, and the rest of the path. It returns "" for files of git's database and for paths
// outside git directories.
func (sb *ActiveSandbox) gitDirAround(full string) (git, below string) {
	sb.protectMu.RLock()
	base := sb.workDirOf(full)
	sb.protectMu.RUnlock()
	if base == "" {
		return "", ""
	}
	for git = path.Dir(full); len(git) > len(base); git = path.Dir(git) {
		if foldPath(path.Base(git)) != ".git" {
			continue
		}
		below = full[len(git)+1:]
		if first, _, _ := strings.Cut(below, "/"); !slices.Contains(gitDatabaseDirs, first) {
			return git, below
		}
		break
	}
	if git, below = path.Dir(full), path.Base(full); gitDirNames[foldPath(below)] && canBeGitDir(git) {
		return git, below
	}
	return "", ""
}

// isInForeignGit reports whether a path is in the git directory of a foreign repository. Git itself
// moves directories there only in its database.
func (sb *ActiveSandbox) isInForeignGit(full string) bool {
	git, below := sb.gitDirAround(full)
	return git != "" && !sb.isOwnWithin(git, below+"/")
}

// isAboveMount reports whether a directory contains a mount, a hidden path or a path that git
// settings lead to.
func (sb *ActiveSandbox) isAboveMount(full string) bool {
	sb.protectMu.RLock()
	defer sb.protectMu.RUnlock()
	for p := range sb.mountKinds {
		if p != full && paths.Contains(full, p) {
			return true
		}
	}
	as := foldPath(full)
	return slices.ContainsFunc(sb.gitTargets, func(r string) bool { return r != full && paths.Contains(full, r) }) ||
		slices.ContainsFunc(sb.hiddenPaths, func(c string) bool { return paths.Contains(as, c) })
}

// maxWalkedNames bounds the names in the search of a directory; that many take a tenth of a second.
const maxWalkedNames = 200_000

// hasForeignRepo reports whether a directory may contain a repository that the session did not
// make. It also reports true if the directory has too many names, or one that cannot be read. Like
// the search at the start, it skips node_modules.
func (sb *ActiveSandbox) hasForeignRepo(full string, limit int) bool {
	if !sb.isWritablePath(full) {
		return false
	}
	left := limit
	defer func() {
		if limit-left > callsPerCollection {
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
			switch name := foldPath(e.Name()); {
			case name == ".git", otherRepositories[name]:
				if sb.isForeign(dir + "/" + e.Name()) {
					return true
				}
			case name == "head" && sb.isForeignBare(dir):
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
func (sb *ActiveSandbox) mustBeEmpty(full string, moving bool) bool {
	name := foldPath(path.Base(full))
	switch {
	case (name == ".git" || name == "head") && !filestate.IsPresent(full):
		return sb.hasForeignRepo(path.Dir(full), maxWalkedNames)
	case moving:
		return sb.isHooks(full) || gitDirNames[name] && sb.isInForeignGit(full) || sb.isAboveName(full)
	}
	return false
}

// isHooks reports whether a path is the directory of a repository's hooks or old remotes.
func (sb *ActiveSandbox) isHooks(full string) bool {
	switch name := foldPath(path.Base(full)); {
	case name == "hooks":
		git, _ := sb.gitDirAround(full)
		return git != ""
	case slices.Contains(oldRemotes, name):
		return sb.isWritablePath(full) && canBeGitDir(path.Dir(full))
	}
	return false
}

// isAboveName reports whether a path is the beginning of a protected name that contains a slash.
func (sb *ActiveSandbox) isAboveName(full string) bool {
	sb.protectMu.RLock()
	defer sb.protectMu.RUnlock()
	base := sb.workDirOf(full)
	if base == "" {
		return false
	}
	for at := full; at != base; at = path.Dir(at) {
		above, first := path.Dir(at), foldPath(path.Base(at))
		rest := foldPath(strings.TrimPrefix(full, above+"/"))
		for _, n := range nestedProtectedNames[first] {
			if strings.HasPrefix(n, rest+"/") && (above == base || sb.isForeign(above+"/.git") || otherRepositories[first] && sb.isForeign(at)) {
				return true
			}
		}
	}
	return false
}

// isGitTarget reports whether git settings lead to a path.
func (sb *ActiveSandbox) isGitTarget(full string) bool {
	sb.protectMu.RLock()
	defer sb.protectMu.RUnlock()
	return slices.ContainsFunc(sb.gitTargets, func(r string) bool { return paths.Contains(r, full) })
}
