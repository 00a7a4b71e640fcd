package nameguard

import (
	"crypto/rand"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/filestate"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/foldedname"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/gitconfig"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/gitdir"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/linkpath"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/workerview"
)

// Git runs the hooks of each repository that it visits, and programs that its settings name. A
// directory becomes a repository with its last part, by whichever program the other parts were
// made. When that happens, its content is checked as if it were made now: it must have no hooks,
// and no settings that name programs.

// CommondirText is the content of commondir in the git directory of a linked work tree, which leads
// to the repository.
const CommondirText = "../.."

// isWorkTree reports whether a git directory is among the work trees of a repository.
func isWorkTree(git string) bool { return path.Base(path.Dir(git)) == "worktrees" }

// hasWorkTree reports whether a directory may be the git directory of a linked work tree, or
// contain some. Elsewhere they would belong to another repository.
func hasWorkTree(full string) bool {
	mayBeLinked := func(dir string) bool { return gitdir.LinkedTreePresence(dir) != filestate.Missing }
	if foldedname.FoldPath(path.Base(full)) != "worktrees" {
		return mayBeLinked(full)
	}
	entries, err := os.ReadDir(full)
	return filestate.PresenceOfError(err) == filestate.Unknown || slices.ContainsFunc(entries, func(e os.DirEntry) bool { return mayBeLinked(full + "/" + e.Name()) })
}

// CheckCreated checks what a call has made. It is also called for unprotected names, because a
// repository may have been made around the name at the same time.
func (g *Guard) CheckCreated(s workerview.NameInDir, moved bool) error {
	return g.withStablePath(s, func(s workerview.NameInDir) error { return g.checkCreatedPath(s, moved) })
}

// checkCreatedPath is CheckCreated for one path. It inspects the open directory, because another
// one may have its path for a moment.
func (g *Guard) checkCreatedPath(s workerview.NameInDir, moved bool) error {
	name, above := foldedname.FoldPath(s.Name), workerview.SelfFDPath(s.Dir)
	if !moved && !GitDirParts[name] {
		g.RecordCreated(s.FullPath)
	}
	if g.IsRestricted(s.FullPath) || moved && g.isHooks(s.FullPath) || g.IsGitLink(s, s.FullPath) {
		return ProtectedNameError{Path: s.FullPath}
	}
	switch {
	case GitDirParts[name] && canBeGitDir(above) && (name != "worktrees" || gitdir.HeadPresence(above) != filestate.Present): // otherwise it was a repository before
		if err := g.checkGitDir(s.Dir, path.Dir(s.FullPath)); err != nil {
			return err
		}
		g.RecordCreated(s.FullPath)
	case moved && name == ".git" && s.FileType() == unix.S_IFDIR:
		git, err := unix.Openat(s.Dir, s.Name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(git)
		return g.checkGitDir(git, s.FullPath)
	}
	return nil
}

// IsGitLink reports whether a name is a link called .git. A user's git init would complete the
// directory that it leads to, and a session could fill that at any time.
func (g *Guard) IsGitLink(s workerview.NameInDir, full string) bool {
	return foldedname.FoldPath(path.Base(full)) == ".git" && s.FileType() == unix.S_IFLNK && g.isWritablePath(full)
}

// checkGitDir returns an error if a directory must not become a git directory. It replaces the
// settings by a copy, because a program may still have them open.
func (g *Guard) checkGitDir(dir int, git string) error {
	if !g.isWritablePath(git) {
		return nil
	}
	for _, name := range append([]string{"hooks"}, oldRemotes...) {
		if hook, found := findHook(dir, name); found {
			return ProtectedNameError{Path: path.Join(git, name, hook)}
		}
	}
	for _, name := range []string{"config", "config.worktree", "commondir"} {
		text, mode, err := ReadSettings(dir, name)
		if err == unix.ENOENT {
			continue
		}
		k := ProtectedNameError{Path: git + "/" + name}
		if err != nil {
			return k
		}
		refused := false
		if name == "commondir" {
			refused = strings.TrimSpace(string(text)) != CommondirText || !isWorkTree(git)
		} else {
			k.Setting, refused = gitconfig.RefusedSetting(nil, text, g.gitOwnerOf(git, name, true))
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

// IsCommondir reports whether a name is that file, of a work tree that the session added.
func (g *Guard) IsCommondir(s workerview.NameInDir) bool {
	return s.Name == "commondir" && isWorkTree(path.Dir(s.FullPath)) && g.AccessOf(s.FullPath) == AccessRemove
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
func (g *Guard) gitOwnerOf(git, name string, own bool) gitconfig.RepoOwner {
	common := git
	if isWorkTree(git) {
		common = path.Dir(path.Dir(git))
	}
	added := name == "config.worktree" && g.AccessOf(common+"/config") == AccessNone
	return gitconfig.RepoOwner{IsOwn: own, IsAddedTree: added, IsWorkTreeOf: func(tree string) bool {
		if !path.IsAbs(tree) {
			tree = path.Join(git, tree)
		}
		g.protectMu.RLock()
		defer g.protectMu.RUnlock()
		isInGitDir := strings.Contains(foldedname.FoldPath(tree+"/"), "/.git/")
		return !isInGitDir && g.workDirOf(tree) != "" && gitdir.GitDirOf(tree+"/.git") == git // the work tree must name this repository in turn
	}}
}

// ReplaceSettings replaces the settings of a repository, as git does by a rename, if they differ
// only in what a session may set. It writes a copy, because the program may still have its own file
// open. done is false for all other renames.
func (g *Guard) ReplaceSettings(from workerview.NameInDir, file string, flags uint) (done bool, err error) {
	dir, name := path.Split(file)
	if !settingsNames[name] || flags != 0 {
		return false, nil
	}
	to, err := g.view.OpenNameInDir(dir, name)
	if err != nil {
		return false, err
	}
	defer to.Close()
	if !g.IsSettingsTarget(to) {
		return false, nil
	}
	if from.IsSame(to) { // the kernel does nothing in this case
		return true, nil
	}
	text, mode, err := ReadSettings(from.Dir, from.Name)
	if err != nil {
		return false, err
	}
	if err := g.CheckAndPutSettings(to, text, mode); err != nil {
		return false, err
	}
	return true, unix.Unlinkat(from.Dir, from.Name, 0)
}

// settingsNames are the names of the settings files of a repository.
var settingsNames = map[string]bool{"config": true, "config.worktree": true}

// IsSettingsTarget reports whether a name is a settings file whose new content must be checked.
func (g *Guard) IsSettingsTarget(to workerview.NameInDir) bool {
	if !settingsNames[to.Name] {
		return false
	}
	switch g.AccessOf(to.FullPath) {
	case AccessRemove:
		return true
	case AccessNone:
		return !g.isGitTarget(to.FullPath) && to.FileType() != 0 && gitdir.IsGitDir(path.Dir(to.FullPath))
	}
	return false
}

// CheckAndPutSettings checks new settings, and replaces the old ones by a copy of them.
func (g *Guard) CheckAndPutSettings(to workerview.NameInDir, text []byte, mode uint32) error {
	oldText, oldMode, err := ReadSettings(to.Dir, to.Name)
	switch {
	case err == nil:
		mode = oldMode
	case err != unix.ENOENT:
		return ProtectedNameError{Path: to.FullPath}
	}
	if setting, refused := gitconfig.RefusedSetting(oldText, text, g.gitOwnerOf(path.Dir(to.FullPath), to.Name, g.AccessOf(to.FullPath) != AccessNone)); refused {
		return ProtectedNameError{to.FullPath, setting}
	}
	return putSettings(to.Dir, to.Name, text, mode)
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

// ReadSettings reads a settings file and its mode.
func ReadSettings(dir int, name string) (text []byte, mode uint32, err error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, 0, err
	}
	defer unix.Close(fd)
	return SettingsIn(fd)
}

// SettingsIn reads an open settings file and its mode.
func SettingsIn(fd int) (text []byte, mode uint32, err error) {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size > linkpath.MaxSettingsBytes {
		return nil, 0, unix.EINVAL
	}
	text = make([]byte, st.Size)
	n, err := unix.Pread(fd, text, 0)
	if err != nil || n < len(text) {
		return nil, 0, unix.EIO
	}
	return text, st.Mode & 0o777, nil
}
