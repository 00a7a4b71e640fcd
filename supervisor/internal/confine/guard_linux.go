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

// A guard decides by name, at each call, what may change in what a session writes. Mounts protect what
// was there when the session started; programs outside replace it, and make more. So the guard asks what
// a name means now: a repository that somebody made a moment ago is protected like any other. Of those
// that the session itself made it keeps hooks and settings, because git runs what they name also for the
// repository around them.
type guard struct {
	work  []string // what the session writes; guarded by keeping, as is reach
	reach []string // what git's settings lead to in it

	making sync.Mutex
	own    map[string]bool // the directories of repositories that the session made, by identity
	fresh  []string        // the directories that it made last, by identity; at most mostFresh
	notes  *os.File        // what own has, for the session's later workers; nil without one
}

// openOwn reads which repositories the session's earlier workers made, and opens the file for more.
func (b *Box) openOwn() {
	b.own = ownRepositories(string(b.plan.State))
	b.notes, _ = os.OpenFile(ownFileIn(string(b.plan.State)), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600) // without one they are protected later
}

// plainNames are the protected names that have no slash; slashedNames are the others, by their first part.
var plainNames, slashedNames = func() (plain map[string]bool, slashed map[string][]string) {
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
func (b *Box) guardMore(work, reach []Path) {
	b.keeping.Lock()
	defer b.keeping.Unlock()
	for _, p := range work {
		b.work = append(b.work, string(p))
	}
	for _, p := range reach {
		if !slices.Contains(b.reach, string(p)) {
			b.reach = append(b.reach, string(p))
		}
	}
}

// workAround returns the innermost directory that the session writes around a path, or "".
func (b *Box) workAround(full string) (base string) {
	for _, w := range b.work {
		if len(w) > len(base) && inside(full, w) {
			base = w
		}
	}
	return base
}

// isWork reports whether the session writes a path.
func (b *Box) isWork(full string) bool {
	b.keeping.RLock()
	defer b.keeping.RUnlock()
	return b.workAround(full) != ""
}

// A freedom is what a session may do with a path.
type freedom int

const (
	anything freedom = iota
	removal          // it may go, and does not change but by judgement
	nothing          // it must not be made, written, replaced or removed
)

// protects reports whether nothing may happen to a path.
func (b *Box) protects(full string) bool { return b.freedomOf(full) == nothing }

// isHeld reports whether a path must not be made or written.
func (b *Box) isHeld(full string) bool { return b.freedomOf(full) != anything }

// freedomOf judges a path without links, as any filesystem may take it.
// Almost every path costs only comparisons.
func (b *Box) freedomOf(full string) freedom {
	b.keeping.RLock()
	defer b.keeping.RUnlock()
	if b.isClosed(full) {
		return nothing
	}
	base := b.workAround(full)
	if base == "" || full == base {
		return anything
	}
	for _, r := range b.reach {
		if inside(full, r) {
			return nothing
		}
	}
	at, rest := base, full[len(base)+1:]
	for rest != "" {
		part, after, _ := strings.Cut(rest, "/")
		above, name := at, folded(part)
		at += "/" + part
		if isAlias(above, part) {
			return nothing
		}
		if name == ".git" && (after == "" || protectsInGit(folded(after))) {
			return b.freedomOfTree(at, after)
		}
		if b.protectsName(above, at, name, base) {
			return nothing
		}
		if (inBare[name] || isChecked(name)) && protectsInGit(folded(rest)) && mayBeGitDir(above) {
			return b.freedomInGit(above, rest)
		}
		if b.protectsSlashed(above, at, folded(rest), base) {
			return nothing
		}
		rest = after
	}
	return anything
}

// inBare are the names in the directory of a repository that matter.
var inBare = map[string]bool{"hooks": true, "config": true, "config.worktree": true, "commondir": true, "gitdir": true, "info": true, "modules": true, "worktrees": true, "remotes": true, "branches": true}

// isChecked reports whether a name is one of settings that were checked, and do not have their place yet.
func isChecked(name string) bool { return strings.HasPrefix(name, checkedSettings) }

// protectsName judges a name that is not of git's own.
func (b *Box) protectsName(above, at, name, base string) bool {
	switch {
	case b.keptNames[name] && name != "head" && b.kept[folded(at)]:
		return true
	case plainNames[name]:
		return above == base || b.isForeign(above+"/.git")
	case name == "head": // git would take the directory for a repository
		return b.isForeign(above + "/.git")
	case slices.Contains(settingsOfHooks, name):
		return b.isForeign(above+"/.git") && (len(b.reach) > 0 || hasHooks(above+"/.git/hooks"))
	}
	return false
}

// protectsSlashed judges names that have slashes, which begin in a directory.
func (b *Box) protectsSlashed(above, at, rest, base string) bool {
	first, _, _ := strings.Cut(rest, "/")
	switch {
	case !slices.ContainsFunc(slashedNames[first], func(n string) bool { return inside(rest, n) }):
		return false
	case otherRepositories[first]:
		return b.isForeign(at)
	}
	return above == base || b.isForeign(above+"/.git")
}

// freedomOfTree judges .git in a directory, and a name that matters below it.
func (b *Box) freedomOfTree(git, below string) freedom {
	if below != "" {
		return b.freedomInGit(git, below)
	}
	st, err := os.Lstat(git)
	if presenceBy(err) == missing || err == nil && st.IsDir() || b.isOwn(git) {
		return anything
	}
	return nothing // a file names the repository
}

// freedomInGit judges a name that matters in the directory of a repository.
func (b *Box) freedomInGit(git, below string) freedom {
	switch last := folded(path.Base(below)); {
	case isOldRemote(below) && strings.Contains(path.Dir(below), "/") && !mayBeGitDir(path.Join(git, path.Dir(path.Dir(below)))):
		return anything // it is in a submodule whose name ends so
	case !b.isOwnWithin(git, below):
		return nothing
	case last == "gitdir", last == "attributes": // they name no program
		return anything
	}
	return removal
}

// database are the directories of a repository with names of any kind in them.
var database = []string{"objects", "refs", "logs"}

// protectsInGit judges a path in the directory of a repository.
func protectsInGit(below string) bool {
	parts := strings.Split(below, "/")
	last := parts[len(parts)-1]
	switch {
	case slices.Contains(database, parts[0]):
		return false
	case slices.Contains(parts[:len(parts)-1], "hooks"):
		return !strings.HasSuffix(last, ".sample") // git runs no sample
	case slices.Contains([]string{"config", "config.worktree", "commondir", "gitdir"}, last), isChecked(last):
		return true
	}
	return strings.HasSuffix("/"+below, "/info/attributes") || isOldRemote(below)
}

// oldRemotes are the directories in which git still finds remotes that no settings have.
var oldRemotes = []string{"remotes", "branches"}

// isOldRemote reports whether a path in the directory of a repository is that of such a remote.
func isOldRemote(below string) bool {
	return slices.Contains(oldRemotes, folded(path.Base(path.Dir(below))))
}

// isOwnWithin reports whether a path in a repository's directory is the session's: the innermost of the
// repository, its submodules and work trees counts.
func (b *Box) isOwnWithin(git, below string) bool {
	for own := b.isOwn(git); ; {
		part, after, found := strings.Cut(below, "/")
		if !found {
			return own
		}
		git += "/" + part
		switch {
		case b.isOwn(git):
			own = true
		case mayBeGitDir(git):
			own = false
		}
		below = after
	}
}

func (b *Box) isOwn(name string) bool {
	b.making.Lock()
	defer b.making.Unlock()
	return len(b.own) > 0 && b.own[identity(name)] // which is never ""
}

// isForeign reports whether something may be there that the session did not make.
func (b *Box) isForeign(name string) bool { return presenceOf(name) != missing && !b.isOwn(name) }

// mayBeGitDir reports whether a directory may be that of a repository.
func mayBeGitDir(dir string) bool { return gitDirAt(dir) != missing }

// isForeignBare reports whether a directory may be a repository without a work tree that the session did not
// make.
func (b *Box) isForeignBare(dir string) bool { return mayBeGitDir(dir) && !b.isOwn(dir) }

// mostFresh bounds the directories that are remembered until they are repositories.
const mostFresh = 2048

// noteMade notes that the session made a name, if that makes it the owner of a repository: its .git, a
// submodule or work tree in that of another, or the last part of a bare one whose directory it made as
// well. Somebody else may be making a repository of any other directory.
func (b *Box) noteMade(full string) {
	isLast := false
	switch name := folded(path.Base(full)); {
	case name == ".git", otherRepositories[name], b.isAdded(full):
	case (name == "objects" || name == "head" || name == "commondir") && isGitDir(path.Dir(full)):
		full, isLast = path.Dir(full), true
	default:
		return
	}
	b.making.Lock()
	defer b.making.Unlock()
	id := identity(full)
	if id == "" || b.own[id] || len(b.own) >= mostOwn || isLast && !slices.Contains(b.fresh, id) {
		return
	}
	if b.own == nil {
		b.own = map[string]bool{}
	}
	b.own[id] = true
	if b.notes != nil && !strings.Contains(id, "\n") {
		_, _ = b.notes.WriteString(id + "\n") // else it is protected later, as those of others
	}
}

// noteFresh notes that the session made a directory.
func (b *Box) noteFresh(s spot) {
	id := identityAt(s.dir, s.name, 0, s.full)
	if id == "" || !b.isWork(s.full) {
		return
	}
	b.making.Lock()
	defer b.making.Unlock()
	if len(b.fresh) >= mostFresh {
		b.fresh = slices.Delete(b.fresh, 0, mostFresh/2)
	}
	b.fresh = append(b.fresh, id)
}

// isAdded reports whether a path is that of a submodule or a work tree in the directory of a repository, or
// leads there, and is not in the directory of one that is there already.
func (b *Box) isAdded(full string) bool {
	if !strings.Contains(full, "/.git/modules/") && !strings.Contains(full, "/.git/worktrees/") {
		return false
	}
	for dir := path.Dir(full); dir != "/"; dir = path.Dir(dir) {
		above, name := path.Split(dir)
		if (name == "modules" || name == "worktrees") && (path.Base(above) == ".git" || isGitDir(above)) {
			return true
		}
		if mayBeGitDir(dir) {
			return false
		}
	}
	return false
}

// judgeMove returns why a name must stay where it is.
func (b *Box) judgeMove(s spot) error {
	kind := s.kind()
	if kind == 0 {
		return unix.ENOENT // what somebody makes in this moment is not moved
	}
	if b.protects(s.full) || b.makesRepository(s.full) {
		return keptError{path: s.full}
	}
	if kind != unix.S_IFDIR {
		return nil
	}
	if b.isInForeignGit(s.full) || b.isAbovePlace(s.full) || b.isWork(s.full) && holdsWorkTree(s.full) {
		return keptError{path: s.full}
	}
	if b.holdsForeign(s.full, mostWalked) {
		return unix.EXDEV
	}
	return nil
}

// makesRepository reports whether a name is what makes a repository of the directory, and the session
// did not make that: it could be another without it.
func (b *Box) makesRepository(full string) bool {
	if !b.isWork(full) {
		return false
	}
	switch name := folded(path.Base(full)); {
	case name == ".git", otherRepositories[name]:
		return !b.isOwn(full) // also when it is made in this moment
	case partsOfGit[name]:
		return b.isForeignBare(path.Dir(full))
	}
	return false
}

// partsOfGit are the names that make a repository of a directory.
var partsOfGit = map[string]bool{"head": true, "objects": true, "commondir": true, "worktrees": true}

// gitAround returns the .git around a path, or the directory that has it if that is a repository, and the
// path in it; "" for the files of git's database, and where there is none.
func (b *Box) gitAround(full string) (git, below string) {
	b.keeping.RLock()
	base := b.workAround(full)
	b.keeping.RUnlock()
	if base == "" {
		return "", ""
	}
	for git = path.Dir(full); len(git) > len(base); git = path.Dir(git) {
		if folded(path.Base(git)) != ".git" {
			continue
		}
		below = full[len(git)+1:]
		if first, _, _ := strings.Cut(below, "/"); !slices.Contains(database, first) {
			return git, below
		}
		break
	}
	if git, below = path.Dir(full), path.Base(full); inBare[folded(below)] && mayBeGitDir(git) {
		return git, below
	}
	return "", ""
}

// isInForeignGit reports whether a path is in the directory of a repository, where git moves no
// directories but those of its database.
func (b *Box) isInForeignGit(full string) bool {
	git, below := b.gitAround(full)
	return git != "" && !b.isOwnWithin(git, below+"/")
}

// isAbovePlace reports whether a mount, something hidden or something that git's settings lead to is below a
// directory.
func (b *Box) isAbovePlace(full string) bool {
	b.keeping.RLock()
	defer b.keeping.RUnlock()
	for p := range b.places {
		if p != full && inside(p, full) {
			return true
		}
	}
	as := folded(full)
	return slices.ContainsFunc(b.reach, func(r string) bool { return r != full && inside(r, full) }) ||
		slices.ContainsFunc(b.closed, func(c string) bool { return inside(c, as) })
}

// mostWalked bounds the names in the search of a directory, which takes a tenth of a second.
const mostWalked = 200_000

// holdsForeign reports whether a directory may have a repository in it that the session did not make: also
// if it has too many names, or one that cannot be read. Like the search at the start it leaves out
// node_modules.
func (b *Box) holdsForeign(full string, most int) bool {
	if !b.isWork(full) {
		return false
	}
	left := most
	defer func() {
		if most-left > collectAfter {
			runtime.GC() // the stage's collector waits for much more
		}
	}()
	for queue := []string{full}; len(queue) > 0; queue = queue[1:] {
		dir := queue[0]
		entries, err := os.ReadDir(dir)
		if left -= len(entries); left < 0 || presenceBy(err) == unknown && !isClosedTo(os.Getuid(), dir) {
			return true
		}
		for _, e := range entries {
			switch name := folded(e.Name()); {
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

// isClosedTo reports whether a directory is another user's and open to nobody else, such as that of a
// database in a container. A user has no repository in it.
func isClosedTo(user int, dir string) bool {
	var st unix.Stat_t
	return unix.Lstat(dir, &st) == nil && user != 0 && int(st.Uid) != user && st.Mode&0o077 == 0
}

// fills reports whether a name must not get something that may have been filled before: a part of a
// repository, what makes one of a directory above another, or a directory that would hold protected names.
func (b *Box) fills(full string, moving bool) bool {
	name := folded(path.Base(full))
	switch {
	case (name == ".git" || name == "head") && !exists(full):
		return b.holdsForeign(path.Dir(full), mostWalked)
	case moving:
		return b.isHooks(full) || inBare[name] && b.isInForeignGit(full) || b.isAboveName(full)
	}
	return false
}

// isHooks reports whether a path is that of the hooks or old remotes of a repository.
func (b *Box) isHooks(full string) bool {
	switch name := folded(path.Base(full)); {
	case name == "hooks":
		git, _ := b.gitAround(full)
		return git != ""
	case slices.Contains(oldRemotes, name):
		return b.isWork(full) && mayBeGitDir(path.Dir(full))
	}
	return false
}

// isAboveName reports whether a protected name that has slashes begins with a path.
func (b *Box) isAboveName(full string) bool {
	b.keeping.RLock()
	defer b.keeping.RUnlock()
	base := b.workAround(full)
	if base == "" {
		return false
	}
	for at := full; at != base; at = path.Dir(at) {
		above, first := path.Dir(at), folded(path.Base(at))
		rest := folded(strings.TrimPrefix(full, above+"/"))
		for _, n := range slashedNames[first] {
			if strings.HasPrefix(n, rest+"/") && (above == base || b.isForeign(above+"/.git") || otherRepositories[first] && b.isForeign(at)) {
				return true
			}
		}
	}
	return false
}

// reaches reports whether git's settings lead to a path.
func (b *Box) reaches(full string) bool {
	b.keeping.RLock()
	defer b.keeping.RUnlock()
	return slices.ContainsFunc(b.reach, func(r string) bool { return inside(full, r) })
}
