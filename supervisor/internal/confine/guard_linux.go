package confine

import (
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// A guard decides by name, at each call, what may change in what a session writes. Mounts protect what
// was there when the session started; programs outside replace it, and make more. So the guard asks what
// a name means now: a repository that somebody made a moment ago is protected like any other, but those
// that the session itself made.
type guard struct {
	work  []string // what the session writes; guarded by keeping, as is reach
	reach []string // what git's settings lead to in it

	making sync.Mutex
	own    map[string]bool // the directories of repositories that the session made, by identity
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

// protects reports whether a path without links must not be made, written, replaced or removed. Case
// does not count, because on some filesystems it does not. Almost every path costs only comparisons.
func (b *Box) protects(full string) bool {
	b.keeping.RLock()
	defer b.keeping.RUnlock()
	if b.isClosed(full) {
		return true
	}
	base := b.workAround(full)
	if base == "" || full == base {
		return false
	}
	for _, r := range b.reach {
		if inside(full, r) {
			return true
		}
	}
	at, rest := base, full[len(base)+1:]
	for rest != "" {
		part, after, _ := strings.Cut(rest, "/")
		above, name := at, strings.ToLower(part)
		at += "/" + part
		if name == ".git" {
			return b.protectsInTree(above, at, after)
		}
		if b.protectsName(above, at, name, base) || inBare[name] && b.isForeignBare(above) && protectsInGit(strings.ToLower(rest)) {
			return true
		}
		if slices.ContainsFunc(slashedNames[name], func(n string) bool { return inside(strings.ToLower(rest), n) }) {
			if otherRepositories[name] {
				return b.isForeign(at)
			}
			return above == base || b.isForeign(above+"/.git")
		}
		rest = after
	}
	return false
}

// inBare are the names in the directory of a repository that matter.
var inBare = map[string]bool{"hooks": true, "config": true, checkedSettings: true, "config.worktree": true, "commondir": true, "gitdir": true, "info": true, "modules": true, "worktrees": true}

// protectsName judges a name that is not of git's own.
func (b *Box) protectsName(above, at, name, base string) bool {
	switch {
	case b.keptNames[name] && name != "head" && b.kept[strings.ToLower(at)]:
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

// protectsInTree judges .git in a directory, and what is below it.
func (b *Box) protectsInTree(above, git, below string) bool {
	if b.isOwn(git) {
		return false
	}
	if below == "" { // a file that names the repository
		var st unix.Stat_t
		return unix.Lstat(git, &st) == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR
	}
	return protectsInGit(strings.ToLower(below)) && !b.isOwnWithin(git, below)
}

// protectsInGit judges a path in the directory of a repository.
func protectsInGit(below string) bool {
	parts := strings.Split(below, "/")
	last := parts[len(parts)-1]
	switch {
	case slices.Contains([]string{"objects", "refs", "logs"}, parts[0]):
		return false
	case slices.Contains(parts[:len(parts)-1], "hooks"):
		return !strings.HasSuffix(last, ".sample") // git runs no sample
	case slices.Contains([]string{"config", checkedSettings, "config.worktree", "commondir", "gitdir"}, last):
		return true
	}
	return strings.HasSuffix("/"+below, "/info/attributes")
}

// isOwnWithin reports whether a path in a repository's directory is in a submodule or a work tree that
// the session added, and not in one of somebody else's in that.
func (b *Box) isOwnWithin(git, below string) (own bool) {
	for {
		part, after, found := strings.Cut(below, "/")
		if !found {
			return own
		}
		git += "/" + part
		switch {
		case b.isOwn(git):
			own = true
		case isGitDir(git):
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

// isForeign reports whether something is there that the session did not make.
func (b *Box) isForeign(name string) bool { return exists(name) && !b.isOwn(name) }

// isForeignBare reports whether a directory is a repository without a work tree that the session did not
// make.
func (b *Box) isForeignBare(dir string) bool { return isGitDir(dir) && !b.isOwn(dir) }

// noteMade notes that the session made a name, if that makes it the owner of a repository: its .git, a
// submodule or work tree in that of another, or the last part of a bare one.
func (b *Box) noteMade(full string) {
	switch folded := strings.ToLower(path.Base(full)); {
	case folded == ".git", otherRepositories[folded], b.isAdded(full):
	case (folded == "objects" || folded == "head") && isGitDir(path.Dir(full)):
		full = path.Dir(full)
	default:
		return
	}
	b.making.Lock()
	defer b.making.Unlock()
	id := identity(full)
	if id == "" || b.own[id] || len(b.own) >= mostOwn {
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

// isAdded reports whether a path is that of a submodule or a work tree in the directory of a repository, and
// not in the directory of one that somebody else added.
func (b *Box) isAdded(full string) bool {
	if !strings.Contains(full, "/.git/modules/") && !strings.Contains(full, "/.git/worktrees/") {
		return false
	}
	for dir := path.Dir(full); dir != "/"; dir = path.Dir(dir) {
		above, name := path.Split(dir)
		if (name == "modules" || name == "worktrees") && (path.Base(above) == ".git" || isGitDir(above)) {
			return true
		}
		if b.isForeignBare(dir) {
			return false
		}
	}
	return false
}

// mayMove returns why a name must stay where it is. mv copies on EXDEV, and leaves what it may not
// remove.
func (b *Box) mayMove(s spot) error {
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
	if b.isInForeignGit(s.full) || b.isAbovePlace(s.full) {
		return keptError{path: s.full}
	}
	if found, all := b.holdsForeign(s.full); found || !all {
		return unix.EXDEV
	}
	return nil
}

// makesRepository reports whether a name is what makes a repository of the directory, and the session
// did not make that: it could be another without it.
func (b *Box) makesRepository(full string) bool {
	b.keeping.RLock()
	defer b.keeping.RUnlock()
	if b.workAround(full) == "" {
		return false
	}
	switch name := strings.ToLower(path.Base(full)); {
	case name == ".git", otherRepositories[name]:
		return !b.isOwn(full) // also when it is made in this moment
	case name == "head", name == "objects", name == "commondir":
		return b.isForeignBare(path.Dir(full))
	}
	return false
}

// isInForeignGit reports whether a path is in the directory of a repository, where git moves no
// directories but those of objects.
func (b *Box) isInForeignGit(full string) bool {
	b.keeping.RLock()
	defer b.keeping.RUnlock()
	base := b.workAround(full)
	if base == "" {
		return false
	}
	tree, below, found := strings.Cut(full, "/.git/")
	if !found || !inside(tree, base) {
		return inBare[strings.ToLower(path.Base(full))] && b.isForeignBare(path.Dir(full))
	}
	first, _, _ := strings.Cut(below, "/")
	return b.isForeign(tree+"/.git") && !b.isOwnWithin(tree+"/.git", below+"/") && !slices.Contains([]string{"objects", "refs", "logs"}, first)
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
	folded := strings.ToLower(full)
	return slices.ContainsFunc(b.reach, func(r string) bool { return r != full && inside(r, full) }) ||
		slices.ContainsFunc(b.closed, func(c string) bool { return inside(c, folded) })
}

// mostWalked bounds the names in the search of a directory that is moved, which takes a tenth of a second.
const mostWalked = 50_000

// holdsForeign reports whether a directory has a repository in it that the session did not make, and
// whether it has looked at all of it. Like the search at the start it leaves out node_modules.
func (b *Box) holdsForeign(full string) (found, all bool) {
	b.keeping.RLock()
	work := b.workAround(full) != ""
	b.keeping.RUnlock()
	if !work {
		return false, true
	}
	left := mostWalked
	for queue := []string{full}; len(queue) > 0; queue = queue[1:] {
		dir := queue[0]
		entries, _ := os.ReadDir(dir)
		if left -= len(entries); left < 0 {
			runtime.GC() // the stage's collector waits for much more
			return false, false
		}
		for _, e := range entries {
			switch {
			case strings.EqualFold(e.Name(), ".git"), otherRepositories[strings.ToLower(e.Name())]:
				if b.isForeign(dir + "/" + e.Name()) {
					return true, true
				}
			case e.Name() == "HEAD" && b.isForeignBare(dir):
				return true, true
			case e.IsDir() && e.Name() != "node_modules":
				queue = append(queue, dir+"/"+e.Name())
			}
		}
	}
	return false, true
}

// fills reports whether a name must not get something that may have been filled before: a part of a
// repository, what makes one of a directory above another, or a directory that would hold protected names.
func (b *Box) fills(full string, moving bool) bool {
	name := strings.ToLower(path.Base(full))
	switch {
	case (name == ".git" || name == "head") && !exists(full):
		found, _ := b.holdsForeign(path.Dir(full))
		return found
	case moving:
		return inBare[name] && b.isInForeignGit(full) || b.isAboveName(full)
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
		above, first := path.Dir(at), strings.ToLower(path.Base(at))
		rest := strings.ToLower(strings.TrimPrefix(full, above+"/"))
		for _, n := range slashedNames[first] {
			if strings.HasPrefix(n, rest+"/") && (above == base || b.isForeign(above+"/.git") || otherRepositories[first] && b.isForeign(at)) {
				return true
			}
		}
	}
	return false
}

// checkedSettings is the name of settings that were checked, until they have their place. No program of
// the session may open it.
const checkedSettings = "config.checked-by-turnstone"

// replaceSettings puts new settings of a repository that the session did not make in the place of the old
// ones, as git does by a rename, if they differ in what a session may set. It takes a copy: the program
// may still have its own file open. done is false for all other renames.
func (b *Box) replaceSettings(from spot, file string, flags uint) (done bool, err error) {
	dir, name := path.Split(file)
	if name != "config" || flags != 0 {
		return false, nil
	}
	to, err := b.spotOf(dir, name)
	if err != nil {
		return false, err
	}
	defer to.close()
	if !b.protects(to.full) || b.reaches(to.full) || !isGitDir(path.Dir(to.full)) {
		return false, nil
	}
	now, _, err := readSettings(from.dir, from.name)
	if err != nil {
		return false, err
	}
	was, mode, err := readSettings(to.dir, to.name)
	if err != nil || !b.mayFollow(path.Dir(to.full), newAddresses(was, now)) {
		return false, nil // it is refused as protected
	}
	if setting, refused := refusedIn(was, now); refused {
		return false, keptError{to.full, setting}
	}
	_ = unix.Unlinkat(to.dir, checkedSettings, 0)
	fd, err := unix.Openat(to.dir, checkedSettings, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return false, err
	}
	defer unix.Close(fd)
	if err = unix.Fchmod(fd, mode); err == nil {
		_, err = unix.Write(fd, now)
	}
	if err == nil {
		err = unix.Renameat(to.dir, checkedSettings, to.dir, to.name)
	}
	if err != nil {
		_ = unix.Unlinkat(to.dir, checkedSettings, 0)
		return false, err
	}
	return true, unix.Unlinkat(from.dir, from.name, 0)
}

// mayFollow reports whether git may push to new addresses from a repository. It would run the hooks of one
// that the session made.
func (b *Box) mayFollow(git string, addresses []string) bool {
	return !slices.ContainsFunc(addresses, func(address string) bool {
		file, local := localAddress(address)
		if !local {
			return false
		}
		if !path.IsAbs(file) {
			file = path.Join(path.Dir(git), file)
		}
		return !b.isFirm(file)
	})
}

// isFirm reports whether a path leads to a repository that the session can neither change nor exchange.
func (b *Box) isFirm(file string) bool {
	b.keeping.RLock()
	defer b.keeping.RUnlock()
	if b.workAround(file) == "" {
		return true
	}
	found, err := filepath.EvalSymlinks(file)
	if err != nil || found != path.Clean(file) {
		return false
	}
	return b.isForeign(found+"/.git") || b.isForeignBare(found)
}

// reaches reports whether git's settings lead to a path.
func (b *Box) reaches(full string) bool {
	b.keeping.RLock()
	defer b.keeping.RUnlock()
	return slices.ContainsFunc(b.reach, func(r string) bool { return inside(full, r) })
}

// readSettings reads a settings file, and its mode.
func readSettings(dir int, name string) (text []byte, mode uint32, err error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, 0, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size > maxSettings {
		return nil, 0, unix.EINVAL
	}
	text = make([]byte, st.Size)
	n, err := unix.Pread(fd, text, 0)
	if err != nil || n < len(text) {
		return nil, 0, unix.EIO
	}
	return text, st.Mode & 0o777, nil
}
