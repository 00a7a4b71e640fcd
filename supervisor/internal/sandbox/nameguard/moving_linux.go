package nameguard

import (
	"os"
	"path"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/internal/paths"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/filestate"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/foldedname"
)

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

// isInForeignGit reports whether a path is in the git directory of a foreign repository. Git itself
// moves directories there only in its database.
func (g *Guard) isInForeignGit(full string) bool {
	git, below := g.gitDirAround(full)
	return git != "" && !g.isOwnWithin(git, below+"/")
}

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

// maxWalkedNames bounds the names in the search of a directory; that many take a tenth of a second.
const maxWalkedNames = 200_000

// namesPerCollection is the number of names of a search after which the monitor frees their memory,
// some megabytes.
const namesPerCollection = 4096

// isInaccessible reports whether a directory belongs to another user and is closed to all others,
// like that of a database in a container. The user has no repository in it.
func isInaccessible(uid int, dir string) bool {
	var st unix.Stat_t
	return unix.Lstat(dir, &st) == nil && uid != 0 && int(st.Uid) != uid && st.Mode&0o077 == 0
}
