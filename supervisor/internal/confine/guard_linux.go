package confine

import (
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// A writeGuard decides by name, at each call, what may change in what a session writes. Mounts protect what
// was there when the session started; programs outside replace it, and make more. So the guard asks what
// a name means now: a repository that somebody made a moment ago is protected like any other. Of those
// that the session itself made it keeps hooks and settings, because git runs what they name also for the
// repository around them.
type writeGuard struct {
	workDirs   []string // what the session writes; guarded by keeping, as is reach
	gitTargets []string // what git's settings lead to in it

	ownMu        sync.Mutex
	ownRepos     map[string]bool // the directories of repositories that the session made, by identity
	freshDirs    []string        // the directories that it made last, by identity; at most maxFreshDirs
	ownReposFile *os.File        // what own has, for the session's later workers; nil without one
}

// loadOwnRepos reads which repositories the session's earlier workers made, and opens the file for more.
func (b *Sandbox) loadOwnRepos() {
	b.ownRepos = readOwnRepos(string(b.plan.State))
	b.ownReposFile, _ = os.OpenFile(ownReposFileIn(string(b.plan.State)), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600) // without one they are protected later
}

// flatProtectedNames are the protected names that have no slash; nestedProtectedNames are the others, by their first part.
var flatProtectedNames, nestedProtectedNames = func() (plain map[string]bool, slashed map[string][]string) {
	plain, slashed = map[string]bool{}, map[string][]string{}
	for _, n := range protectedNames {
		if first, _, found := strings.Cut(n, "/"); found {
			slashed[first] = append(slashed[first], n)
		} else {
			plain[n] = true
		}
	}
	return plain, slashed
}()

// otherRepositories are the directories of repositories that are not git's.
var otherRepositories = map[string]bool{".hg": true, ".jj": true, ".pijul": true, ".sl": true, "_darcs": true}

// guardMore adds directories that the session writes.
func (b *Sandbox) guardMore(work, reach []Path) {
	b.protectMu.Lock()
	defer b.protectMu.Unlock()
	for _, p := range work {
		b.workDirs = append(b.workDirs, string(p))
	}
	for _, p := range reach {
		if !slices.Contains(b.gitTargets, string(p)) {
			b.gitTargets = append(b.gitTargets, string(p))
		}
	}
}

// workDirOf returns the innermost directory that the session writes around a path, or "".
func (b *Sandbox) workDirOf(full string) (base string) {
	for _, w := range b.workDirs {
		if len(w) > len(base) && inside(full, w) {
			base = w
		}
	}
	return base
}

// isWritablePath reports whether the session writes a path.
func (b *Sandbox) isWritablePath(full string) bool {
	b.protectMu.RLock()
	defer b.protectMu.RUnlock()
	return b.workDirOf(full) != ""
}

// A pathAccess is what a session may do with a path.
type pathAccess int

const (
	accessFull   pathAccess = iota
	accessRemove            // it may go, and does not change but by judgement
	accessNone              // it must not be made, written, replaced or removed
)

// isProtected reports whether nothing may happen to a path.
func (b *Sandbox) isProtected(full string) bool { return b.accessOf(full) == accessNone }

// isRestricted reports whether a path must not be made or written.
func (b *Sandbox) isRestricted(full string) bool { return b.accessOf(full) != accessFull }

// accessOf judges a path without links, as any filesystem may take it.
// Almost every path costs only comparisons.
func (b *Sandbox) accessOf(full string) pathAccess {
	b.protectMu.RLock()
	defer b.protectMu.RUnlock()
	if b.isHiddenLocked(full) {
		return accessNone
	}
	base := b.workDirOf(full)
	if base == "" || full == base {
		return accessFull
	}
	for _, r := range b.gitTargets {
		if inside(full, r) {
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
			return b.accessOfDotGit(at, after)
		}
		if b.isProtectedName(above, at, name, base) {
			return accessNone
		}
		if (gitDirNames[name] || isCheckedSettings(name)) && isProtectedInGit(foldPath(rest)) && canBeGitDir(above) {
			return b.accessInGitDir(above, rest)
		}
		if b.isProtectedNested(above, at, foldPath(rest), base) {
			return accessNone
		}
		rest = after
	}
	return accessFull
}

// gitDirNames are the names in the directory of a repository that matter.
var gitDirNames = map[string]bool{"hooks": true, "config": true, "config.worktree": true, "commondir": true, "gitdir": true, "info": true, "modules": true, "worktrees": true, "remotes": true, "branches": true}

// isCheckedSettings reports whether a name is one of settings that were checked, and do not have their place yet.
func isCheckedSettings(name string) bool { return strings.HasPrefix(name, checkedSettingsPrefix) }

// isProtectedName judges a name that is not of git's own.
func (b *Sandbox) isProtectedName(above, at, name, base string) bool {
	switch {
	case b.protectedLastNames[name] && name != "head" && b.protectedPaths[foldPath(at)]:
		return true
	case flatProtectedNames[name]:
		return above == base || b.isForeign(above+"/.git")
	case name == "head": // git would take the directory for a repository
		return b.isForeign(above + "/.git")
	case slices.Contains(hookSettings, name):
		return b.isForeign(above+"/.git") && (len(b.gitTargets) > 0 || hasHooks(above+"/.git/hooks"))
	}
	return false
}

// isProtectedNested judges names that have slashes, which begin in a directory.
func (b *Sandbox) isProtectedNested(above, at, rest, base string) bool {
	first, _, _ := strings.Cut(rest, "/")
	switch {
	case !slices.ContainsFunc(nestedProtectedNames[first], func(n string) bool { return inside(rest, n) }):
		return false
	case otherRepositories[first]:
		return b.isForeign(at)
	}
	return above == base || b.isForeign(above+"/.git")
}

// accessOfDotGit judges .git in a directory, and a name that matters below it.
func (b *Sandbox) accessOfDotGit(git, below string) pathAccess {
	if below != "" {
		return b.accessInGitDir(git, below)
	}
	st, err := os.Lstat(git)
	if presenceOfError(err) == missing || err == nil && st.IsDir() || b.isOwnRepo(git) {
		return accessFull
	}
	return accessNone // a file names the repository
}

// accessInGitDir judges a name that matters in the directory of a repository.
func (b *Sandbox) accessInGitDir(git, below string) pathAccess {
	switch last := foldPath(path.Base(below)); {
	case isOldRemote(below) && strings.Contains(path.Dir(below), "/") && !canBeGitDir(path.Join(git, path.Dir(path.Dir(below)))):
		return accessFull // it is in a submodule whose name ends so
	case !b.isOwnWithin(git, below):
		return accessNone
	case last == "gitdir", last == "attributes": // they name no program
		return accessFull
	}
	return accessRemove
}

// gitDatabaseDirs are the directories of a repository with names of any kind in them.
var gitDatabaseDirs = []string{"objects", "refs", "logs"}

// isProtectedInGit judges a path in the directory of a repository.
func isProtectedInGit(below string) bool {
	parts := strings.Split(below, "/")
	last := parts[len(parts)-1]
	switch {
	case slices.Contains(gitDatabaseDirs, parts[0]):
		return false
	case slices.Contains(parts[:len(parts)-1], "hooks"):
		return !strings.HasSuffix(last, ".sample") // git runs no sample
	case slices.Contains([]string{"config", "config.worktree", "commondir", "gitdir"}, last), isCheckedSettings(last):
		return true
	}
	return strings.HasSuffix("/"+below, "/info/attributes") || isOldRemote(below)
}

// oldRemotes are the directories in which git still finds remotes that no settings have.
var oldRemotes = []string{"remotes", "branches"}

// isOldRemote reports whether a path in the directory of a repository is that of such a remote.
func isOldRemote(below string) bool {
	return slices.Contains(oldRemotes, foldPath(path.Base(path.Dir(below))))
}

// isOwnWithin reports whether a path in a repository's directory is the session's: the innermost of the
// repository, its submodules and work trees counts.
func (b *Sandbox) isOwnWithin(git, below string) bool {
	for own := b.isOwnRepo(git); ; {
		part, after, found := strings.Cut(below, "/")
		if !found {
			return own
		}
		git += "/" + part
		switch {
		case b.isOwnRepo(git):
			own = true
		case canBeGitDir(git):
			own = false
		}
		below = after
	}
}

func (b *Sandbox) isOwnRepo(name string) bool {
	b.ownMu.Lock()
	defer b.ownMu.Unlock()
	return len(b.ownRepos) > 0 && b.ownRepos[fileIdentity(name)] // which is never ""
}

// isForeign reports whether something may be there that the session did not make.
func (b *Sandbox) isForeign(name string) bool {
	return presenceOf(name) != missing && !b.isOwnRepo(name)
}

// canBeGitDir reports whether a directory may be that of a repository.
func canBeGitDir(dir string) bool { return gitDirPresence(dir) != missing }

// isForeignBare reports whether a directory may be a repository without a work tree that the session did not
// make.
func (b *Sandbox) isForeignBare(dir string) bool { return canBeGitDir(dir) && !b.isOwnRepo(dir) }

// maxFreshDirs bounds the directories that are remembered until they are repositories.
const maxFreshDirs = 2048

// recordCreated notes that the session made a name, if that makes it the owner of a repository: its .git, a
// submodule or work tree in that of another, or the last part of a bare one whose directory it made as
// well. Somebody else may be making a repository of any other directory.
func (b *Sandbox) recordCreated(full string) {
	isLast := false
	switch name := foldPath(path.Base(full)); {
	case name == ".git", otherRepositories[name], b.isAdded(full):
	case (name == "objects" || name == "head" || name == "commondir") && isGitDir(path.Dir(full)):
		full, isLast = path.Dir(full), true
	default:
		return
	}
	b.ownMu.Lock()
	defer b.ownMu.Unlock()
	id := fileIdentity(full)
	if id == "" || b.ownRepos[id] || len(b.ownRepos) >= maxOwnRepos || isLast && !slices.Contains(b.freshDirs, id) {
		return
	}
	if b.ownRepos == nil {
		b.ownRepos = map[string]bool{}
	}
	b.ownRepos[id] = true
	if b.ownReposFile != nil && !strings.Contains(id, "\n") {
		_, _ = b.ownReposFile.WriteString(id + "\n") // else it is protected later, as those of others
	}
}

// recordFreshDir notes that the session made a directory.
func (b *Sandbox) recordFreshDir(s nameInDir) {
	id := identityAt(s.dir, s.name, 0, s.fullPath)
	if id == "" || !b.isWritablePath(s.fullPath) {
		return
	}
	b.ownMu.Lock()
	defer b.ownMu.Unlock()
	if len(b.freshDirs) >= maxFreshDirs {
		b.freshDirs = slices.Delete(b.freshDirs, 0, maxFreshDirs/2)
	}
	b.freshDirs = append(b.freshDirs, id)
}

// isAdded reports whether a path is that of a submodule or a work tree in the directory of a repository, or
// leads there, and is not in the directory of one that is there already.
func (b *Sandbox) isAdded(full string) bool {
	if !strings.Contains(full, "/.git/modules/") && !strings.Contains(full, "/.git/worktrees/") {
		return false
	}
	for dir := path.Dir(full); dir != "/"; dir = path.Dir(dir) {
		above, name := path.Split(dir)
		if (name == "modules" || name == "worktrees") && (path.Base(above) == ".git" || isGitDir(above)) {
			return true
		}
		if canBeGitDir(dir) {
			return false
		}
	}
	return false
}

// checkMovePath returns why a name must stay where it is.
func (b *Sandbox) checkMovePath(s nameInDir) error {
	kind := s.fileType()
	if kind == 0 {
		return unix.ENOENT // what somebody makes in this moment is not moved
	}
	if b.isProtected(s.fullPath) || b.isRepositoryPart(s.fullPath) {
		return protectedNameError{path: s.fullPath}
	}
	if kind != unix.S_IFDIR {
		return nil
	}
	if b.isInForeignGit(s.fullPath) || b.isAboveMount(s.fullPath) || b.isWritablePath(s.fullPath) && hasWorkTree(s.fullPath) {
		return protectedNameError{path: s.fullPath}
	}
	if b.hasForeignRepo(s.fullPath, maxWalkedNames) {
		return unix.EXDEV
	}
	return nil
}

// isRepositoryPart reports whether a name is what makes a repository of the directory, and the session
// did not make that: it could be another without it.
func (b *Sandbox) isRepositoryPart(full string) bool {
	if !b.isWritablePath(full) {
		return false
	}
	switch name := foldPath(path.Base(full)); {
	case name == ".git", otherRepositories[name]:
		return !b.isOwnRepo(full) // also when it is made in this moment
	case gitDirParts[name]:
		return b.isForeignBare(path.Dir(full))
	}
	return false
}

// gitDirParts are the names that make a repository of a directory.
var gitDirParts = map[string]bool{"head": true, "objects": true, "commondir": true, "worktrees": true}

// gitDirAround returns the .git around a path, or the directory that has it if that is a repository, and the
// path in it; "" for the files of git's database, and where there is none.
func (b *Sandbox) gitDirAround(full string) (git, below string) {
	b.protectMu.RLock()
	base := b.workDirOf(full)
	b.protectMu.RUnlock()
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

// isInForeignGit reports whether a path is in the directory of a repository, where git moves no
// directories but those of its database.
func (b *Sandbox) isInForeignGit(full string) bool {
	git, below := b.gitDirAround(full)
	return git != "" && !b.isOwnWithin(git, below+"/")
}

// isAboveMount reports whether a mount, something hidden or something that git's settings lead to is below a
// directory.
func (b *Sandbox) isAboveMount(full string) bool {
	b.protectMu.RLock()
	defer b.protectMu.RUnlock()
	for p := range b.mountKinds {
		if p != full && inside(p, full) {
			return true
		}
	}
	as := foldPath(full)
	return slices.ContainsFunc(b.gitTargets, func(r string) bool { return r != full && inside(r, full) }) ||
		slices.ContainsFunc(b.hiddenPaths, func(c string) bool { return inside(c, as) })
}

// maxWalkedNames bounds the names in the search of a directory, which takes a tenth of a second.
const maxWalkedNames = 200_000

// hasForeignRepo reports whether a directory may have a repository in it that the session did not make: also
// if it has too many names, or one that cannot be read. Like the search at the start it leaves out
// node_modules.
func (b *Sandbox) hasForeignRepo(full string, most int) bool {
	if !b.isWritablePath(full) {
		return false
	}
	left := most
	defer func() {
		if most-left > callsPerCollection {
			runtime.GC() // the stage's collector waits for much more
		}
	}()
	for queue := []string{full}; len(queue) > 0; queue = queue[1:] {
		dir := queue[0]
		entries, err := os.ReadDir(dir)
		if left -= len(entries); left < 0 || presenceOfError(err) == unknown && !isInaccessible(os.Getuid(), dir) {
			return true
		}
		for _, e := range entries {
			switch name := foldPath(e.Name()); {
			case name == ".git", otherRepositories[name]:
				if b.isForeign(dir + "/" + e.Name()) {
					return true
				}
			case name == "head" && b.isForeignBare(dir):
				return true
			case e.IsDir() && e.Name() != "node_modules":
				queue = append(queue, dir+"/"+e.Name())
			}
		}
	}
	return false
}

// isInaccessible reports whether a directory is another user's and open to nobody else, such as that of a
// database in a container. A user has no repository in it.
func isInaccessible(user int, dir string) bool {
	var st unix.Stat_t
	return unix.Lstat(dir, &st) == nil && user != 0 && int(st.Uid) != user && st.Mode&0o077 == 0
}

// mustBeEmpty reports whether a name must not get something that may have been filled before: a part of a
// repository, what makes one of a directory above another, or a directory that would hold protected names.
func (b *Sandbox) mustBeEmpty(full string, moving bool) bool {
	name := foldPath(path.Base(full))
	switch {
	case (name == ".git" || name == "head") && !isPresent(full):
		return b.hasForeignRepo(path.Dir(full), maxWalkedNames)
	case moving:
		return b.isHooks(full) || gitDirNames[name] && b.isInForeignGit(full) || b.isAboveName(full)
	}
	return false
}

// isHooks reports whether a path is that of the hooks or old remotes of a repository.
func (b *Sandbox) isHooks(full string) bool {
	switch name := foldPath(path.Base(full)); {
	case name == "hooks":
		git, _ := b.gitDirAround(full)
		return git != ""
	case slices.Contains(oldRemotes, name):
		return b.isWritablePath(full) && canBeGitDir(path.Dir(full))
	}
	return false
}

// isAboveName reports whether a protected name that has slashes begins with a path.
func (b *Sandbox) isAboveName(full string) bool {
	b.protectMu.RLock()
	defer b.protectMu.RUnlock()
	base := b.workDirOf(full)
	if base == "" {
		return false
	}
	for at := full; at != base; at = path.Dir(at) {
		above, first := path.Dir(at), foldPath(path.Base(at))
		rest := foldPath(strings.TrimPrefix(full, above+"/"))
		for _, n := range nestedProtectedNames[first] {
			if strings.HasPrefix(n, rest+"/") && (above == base || b.isForeign(above+"/.git") || otherRepositories[first] && b.isForeign(at)) {
				return true
			}
		}
	}
	return false
}

// isGitTarget reports whether git's settings lead to a path.
func (b *Sandbox) isGitTarget(full string) bool {
	b.protectMu.RLock()
	defer b.protectMu.RUnlock()
	return slices.ContainsFunc(b.gitTargets, func(r string) bool { return inside(full, r) })
}
