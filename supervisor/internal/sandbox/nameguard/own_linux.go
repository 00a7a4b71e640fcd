package nameguard

import (
	"os"
	"path"
	"slices"
	"strings"

	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/filestate"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/foldedname"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/gitdir"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/workerview"
)

// RecordCreated records that the session created a name, if that makes it the owner of a
// repository. That holds for its .git and for a submodule or work tree. It also holds for the last
// part of a bare repository if the session created the directory. Otherwise another program may be
// making a repository there.
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

// RecordFreshDir records that the session created a directory.
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

// maxFreshDirs bounds the directories that are remembered because they may become repositories.
const maxFreshDirs = 2048

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
		return !g.isOwnRepo(full) // also if it is being created at this moment
	case GitDirParts[name]:
		return g.isForeignBare(path.Dir(full))
	}
	return false
}

// GitDirParts are the names that turn a directory into a repository.
var GitDirParts = map[string]bool{"head": true, "objects": true, "commondir": true, "worktrees": true}

// otherRepositories are the directories of repositories of other version control systems.
var otherRepositories = map[string]bool{".hg": true, ".jj": true, ".pijul": true, ".sl": true, "_darcs": true}

// isOwnWithin reports whether a path in a git directory belongs to a repository that the session
// created. The innermost of the repository, its submodules and its work trees decides.
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

// isForeign reports whether a name may exist that the session did not make.
func (g *Guard) isForeign(name string) bool {
	return filestate.PresenceOf(name) != filestate.Missing && !g.isOwnRepo(name)
}

// isForeignBare reports whether a directory may be a bare repository that the session did not make.
func (g *Guard) isForeignBare(dir string) bool {
	return canBeGitDir(dir) && !g.isOwnRepo(dir)
}

func (g *Guard) isOwnRepo(name string) bool {
	g.ownMu.Lock()
	defer g.ownMu.Unlock()
	return len(g.ownRepos) > 0 && g.ownRepos[filestate.IdentityOf(name)] // the list never contains ""
}

// canBeGitDir reports whether a directory may be a git directory.
func canBeGitDir(dir string) bool { return gitdir.GitDirPresence(dir) != filestate.Missing }

// ReadOwnRepos reads the list of repositories that the session's workers have made.
func (g *Guard) ReadOwnRepos(state string) { g.ownRepos = gitdir.ReadOwnRepos(state) }

// LoadOwnRepos loads the list of repositories that the session's earlier workers made, and opens
// the file for more.
func (g *Guard) LoadOwnRepos(state string) {
	g.ReadOwnRepos(state)
	g.ownReposFile, _ = os.OpenFile(gitdir.OwnReposFileIn(state), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600) // without the file, later workers protect them
}
