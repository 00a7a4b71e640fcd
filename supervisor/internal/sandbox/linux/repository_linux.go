package linux

import (
	"crypto/rand"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/filestate"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/gitconfig"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/plan"
)

// Git runs the hooks of each repository that it visits, and programs that its settings name. A
// directory becomes a repository with its last part, by whichever program the other parts were
// made. When that happens, its content is checked as if it were made now: it must have no hooks,
// and no settings that name programs.

// commondirText is the content of commondir in the git directory of a linked work tree, which leads
// to the repository.
const commondirText = "../.."

// isWorkTree reports whether a git directory is among the work trees of a repository.
func isWorkTree(git string) bool { return path.Base(path.Dir(git)) == "worktrees" }

// hasWorkTree reports whether a directory may be the git directory of a linked work tree, or
// contain some. Elsewhere they would belong to another repository.
func hasWorkTree(full string) bool {
	mayBeLinked := func(dir string) bool { return plan.LinkedTreePresence(dir) != filestate.Missing }
	if foldPath(path.Base(full)) != "worktrees" {
		return mayBeLinked(full)
	}
	entries, err := os.ReadDir(full)
	return filestate.PresenceOfError(err) == filestate.Unknown || slices.ContainsFunc(entries, func(e os.DirEntry) bool { return mayBeLinked(full + "/" + e.Name()) })
}

// checkCreated checks what a call has made. It is also called for unprotected names, because a
// repository may have been made around the name at the same time.
func (g *writeGuard) checkCreated(s nameInDir, moved bool) error {
	return g.withStablePath(s, func(s nameInDir) error { return g.checkCreatedPath(s, moved) })
}

// checkCreatedPath is checkCreated for one path. It inspects the open directory, because another
// one may have its path for a moment.
func (g *writeGuard) checkCreatedPath(s nameInDir, moved bool) error {
	name, above := foldPath(s.name), selfFDPath(s.dir)
	if !moved && !gitDirParts[name] {
		g.recordCreated(s.fullPath)
	}
	if g.isRestricted(s.fullPath) || moved && g.isHooks(s.fullPath) || g.isGitLink(s, s.fullPath) {
		return protectedNameError{path: s.fullPath}
	}
	switch {
	case gitDirParts[name] && canBeGitDir(above) && (name != "worktrees" || plan.HeadPresence(above) != filestate.Present): // otherwise it was a repository before
		if err := g.checkGitDir(s.dir, path.Dir(s.fullPath)); err != nil {
			return err
		}
		g.recordCreated(s.fullPath)
	case moved && name == ".git" && s.fileType() == unix.S_IFDIR:
		git, err := unix.Openat(s.dir, s.name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(git)
		return g.checkGitDir(git, s.fullPath)
	}
	return nil
}

// isGitLink reports whether a name is a link called .git. A user's git init would complete the
// directory that it leads to, and a session could fill that at any time.
func (g *writeGuard) isGitLink(s nameInDir, full string) bool {
	return foldPath(path.Base(full)) == ".git" && s.fileType() == unix.S_IFLNK && g.isWritablePath(full)
}

// checkGitDir returns an error if a directory must not become a git directory. It replaces the
// settings by a copy, because a program may still have them open.
func (g *writeGuard) checkGitDir(dir int, git string) error {
	if !g.isWritablePath(git) {
		return nil
	}
	for _, name := range append([]string{"hooks"}, oldRemotes...) {
		if hook, found := findHook(dir, name); found {
			return protectedNameError{path: path.Join(git, name, hook)}
		}
	}
	for _, name := range []string{"config", "config.worktree", "commondir"} {
		text, mode, err := readSettings(dir, name)
		if err == unix.ENOENT {
			continue
		}
		k := protectedNameError{path: git + "/" + name}
		if err != nil {
			return k
		}
		refused := false
		if name == "commondir" {
			refused = strings.TrimSpace(string(text)) != commondirText || !isWorkTree(git)
		} else {
			k.setting, refused = gitconfig.RefusedSetting(nil, text, g.gitOwnerOf(git, name, true))
		}
		if refused {
			return k
		}
		if err := putSettings(dir, name, text, mode); err != nil {
			return err
		}
	}
	return nil
}

// isCommondir reports whether a name is that file, of a work tree that the session added.
func (g *writeGuard) isCommondir(s nameInDir) bool {
	return s.name == "commondir" && isWorkTree(path.Dir(s.fullPath)) && g.accessOf(s.fullPath) == accessRemove
}

// findHook returns a file that git would run or read in a subdirectory of a git directory. It
// returns "" and true if the subdirectory cannot be read as such, for example because it is a link.
func findHook(dir int, below string) (name string, found bool) {
	fd, err := unix.Openat(dir, below, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err != unix.ENOENT
	}
	f := os.NewFile(uintptr(fd), below)
	defer f.Close()
	for {
		names, err := f.Readdirnames(100)
		for _, n := range names {
			if !strings.HasSuffix(strings.ToLower(n), ".sample") {
				return n, true
			}
		}
		if err != nil {
			return "", err != io.EOF
		}
	}
}

// gitOwnerOf returns the owner of a settings file with this name in a git directory.
func (g *writeGuard) gitOwnerOf(git, name string, own bool) gitconfig.RepoOwner {
	common := git
	if isWorkTree(git) {
		common = path.Dir(path.Dir(git))
	}
	added := name == "config.worktree" && g.accessOf(common+"/config") == accessNone
	return gitconfig.RepoOwner{IsOwn: own, IsAddedTree: added, IsWorkTreeOf: func(tree string) bool {
		if !path.IsAbs(tree) {
			tree = path.Join(git, tree)
		}
		g.protectMu.RLock()
		defer g.protectMu.RUnlock()
		isInGitDir := strings.Contains(foldPath(tree+"/"), "/.git/")
		return !isInGitDir && g.workDirOf(tree) != "" && plan.GitDirOf(tree+"/.git") == git // the work tree must name this repository in turn
	}}
}

// replaceSettings replaces the settings of a repository, as git does by a rename, if they differ
// only in what a session may set. It writes a copy, because the program may still have its own file
// open. done is false for all other renames.
func (g *writeGuard) replaceSettings(from nameInDir, file string, flags uint) (done bool, err error) {
	dir, name := path.Split(file)
	if !settingsNames[name] || flags != 0 {
		return false, nil
	}
	to, err := g.view.openNameInDir(dir, name)
	if err != nil {
		return false, err
	}
	defer to.close()
	if !g.isSettingsTarget(to) {
		return false, nil
	}
	if from.isSame(to) { // the kernel does nothing in this case
		return true, nil
	}
	text, mode, err := readSettings(from.dir, from.name)
	if err != nil {
		return false, err
	}
	if err := g.checkAndPutSettings(to, text, mode); err != nil {
		return false, err
	}
	return true, unix.Unlinkat(from.dir, from.name, 0)
}

// settingsNames are the names of the settings files of a repository.
var settingsNames = map[string]bool{"config": true, "config.worktree": true}

// isSettingsTarget reports whether a name is a settings file whose new content must be checked.
func (g *writeGuard) isSettingsTarget(to nameInDir) bool {
	if !settingsNames[to.name] {
		return false
	}
	switch g.accessOf(to.fullPath) {
	case accessRemove:
		return true
	case accessNone:
		return !g.isGitTarget(to.fullPath) && to.fileType() != 0 && plan.IsGitDir(path.Dir(to.fullPath))
	}
	return false
}

// checkAndPutSettings checks new settings, and replaces the old ones by a copy of them.
func (g *writeGuard) checkAndPutSettings(to nameInDir, text []byte, mode uint32) error {
	oldText, oldMode, err := readSettings(to.dir, to.name)
	switch {
	case err == nil:
		mode = oldMode
	case err != unix.ENOENT:
		return protectedNameError{path: to.fullPath}
	}
	if setting, refused := gitconfig.RefusedSetting(oldText, text, g.gitOwnerOf(path.Dir(to.fullPath), to.name, g.accessOf(to.fullPath) != accessNone)); refused {
		return protectedNameError{to.fullPath, setting}
	}
	return putSettings(to.dir, to.name, text, mode)
}

// checkedSettingsPrefix is the prefix of the temporary name of checked settings. No program of the
// session may write such a file.
const checkedSettingsPrefix = "config.checked-by-turnstone"

// putSettings replaces a settings file.
func putSettings(dir int, name string, text []byte, mode uint32) error {
	checked := checkedSettingsPrefix + "-" + rand.Text() // other sessions may write there as well
	fd, err := unix.Openat(dir, checked, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err = unix.Fchmod(fd, mode); err == nil {
		var n int
		if n, err = unix.Write(fd, text); err == nil && n < len(text) {
			err = unix.ENOSPC
		}
	}
	if err == nil {
		err = unix.Renameat(dir, checked, dir, name)
	}
	if err != nil {
		_ = unix.Unlinkat(dir, checked, 0)
	}
	return err
}

// readSettings reads a settings file and its mode.
func readSettings(dir int, name string) (text []byte, mode uint32, err error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, 0, err
	}
	defer unix.Close(fd)
	return settingsIn(fd)
}

// settingsIn reads an open settings file and its mode.
func settingsIn(fd int) (text []byte, mode uint32, err error) {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size > plan.MaxSettingsBytes {
		return nil, 0, unix.EINVAL
	}
	text = make([]byte, st.Size)
	n, err := unix.Pread(fd, text, 0)
	if err != nil || n < len(text) {
		return nil, 0, unix.EIO
	}
	return text, st.Mode & 0o777, nil
}
