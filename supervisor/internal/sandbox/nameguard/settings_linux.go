package nameguard

import (
	"crypto/rand"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/foldedname"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/gitconfig"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/gitdir"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/linkpath"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/workerview"
)

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

// isWorkTree reports whether a git directory is among the work trees of a repository.
func isWorkTree(git string) bool { return path.Base(path.Dir(git)) == "worktrees" }

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

// ReadSettings reads a settings file in an open directory, and its permission bits. It follows no
// link, and otherwise works like SettingsIn.
func ReadSettings(dir int, name string) (text []byte, mode uint32, err error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, 0, err
	}
	defer unix.Close(fd)
	return SettingsIn(fd)
}

// SettingsIn reads an open settings file and its permission bits. Only a regular file of at most
// linkpath.MaxSettingsBytes is read; any other file fails with EINVAL, because a session may have
// created it.
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
