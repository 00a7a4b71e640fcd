package confine

import (
	"crypto/rand"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Git runs hooks, and what its settings name, of each repository that it is asked about. A directory becomes a repository's by its last part, whoever made the others. Then what is in it is judged
// as it would be if it were made now: no hooks, and no settings that name programs.

// commondirText is what the directory of a linked work tree says about where its repository is.
const commondirText = "../.."

// isWorkTree reports whether a directory has its place among the work trees of a repository.
func isWorkTree(git string) bool { return path.Base(path.Dir(git)) == "worktrees" }

// hasWorkTree reports whether a directory may be that of a linked work tree, or have some: elsewhere they
// would be another repository's.
func hasWorkTree(full string) bool {
	mayBeLinked := func(dir string) bool { return linkedTreePresence(dir) != missing }
	if foldPath(path.Base(full)) != "worktrees" {
		return mayBeLinked(full)
	}
	entries, err := os.ReadDir(full)
	return presenceOfError(err) == unknown || slices.ContainsFunc(entries, func(e os.DirEntry) bool { return mayBeLinked(full + "/" + e.Name()) })
}

// checkCreated judges what a call has made. It is asked also for names that are free: somebody else may have made a
// repository around one in this moment.
func (b *Sandbox) checkCreated(s nameInDir, moved bool) error {
	return b.withStablePath(s, func(s nameInDir) error { return b.checkCreatedPath(s, moved) })
}

// checkCreatedPath is admit for one path. It looks into the directory that is open: another may have its path for a
// moment.
func (b *Sandbox) checkCreatedPath(s nameInDir, moved bool) error {
	name, above := foldPath(s.name), selfFDPath(s.dir)
	if !moved && !gitDirParts[name] {
		b.recordCreated(s.fullPath)
	}
	if b.isRestricted(s.fullPath) || moved && b.isHooks(s.fullPath) || b.isGitLink(s, s.fullPath) {
		return protectedNameError{path: s.fullPath}
	}
	switch {
	case gitDirParts[name] && canBeGitDir(above) && (name != "worktrees" || headPresence(above) != present): // else it was one before
		if err := b.checkGitDir(s.dir, path.Dir(s.fullPath)); err != nil {
			return err
		}
		b.recordCreated(s.fullPath)
	case moved && name == ".git" && s.fileType() == unix.S_IFDIR:
		git, err := unix.Openat(s.dir, s.name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(git)
		return b.checkGitDir(git, s.fullPath)
	}
	return nil
}

// isGitLink reports whether a link gets the name .git. A person's git init completes the directory to which
// one leads, and a session can fill that at any time.
func (b *Sandbox) isGitLink(s nameInDir, full string) bool {
	return foldPath(path.Base(full)) == ".git" && s.fileType() == unix.S_IFLNK && b.isWritablePath(full)
}

// checkGitDir returns why a directory must not be that of a repository. The settings get a copy in their place:
// a program may still have them open.
func (b *Sandbox) checkGitDir(dir int, git string) error {
	if !b.isWritablePath(git) {
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
			k.setting, refused = refusedSetting(nil, text, b.gitOwnerOf(git, name, true))
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

// openCommondir opens the file in which git says where the repository of a linked work tree is. There is one right
// text, so that is written here, and the program gets a file without a name.
func (b *Sandbox) openCommondir(n *seccompNotif, s nameInDir) (int, error) {
	fd := -1
	err := b.withUmask(n, func() (err error) {
		fd, err = unix.Openat(s.dir, s.name, unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
		return err
	})
	if err == nil {
		_, err = unix.Write(fd, []byte(commondirText+"\n"))
		unix.Close(fd)
	}
	if err != nil && err != unix.EEXIST {
		return -1, err
	}
	b.recordCreated(s.fullPath)
	return unix.Openat(s.dir, ".", unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
}

// isCommondir reports whether a name is that file, of a work tree that the session added.
func (b *Sandbox) isCommondir(s nameInDir) bool {
	return s.name == "commondir" && isWorkTree(path.Dir(s.fullPath)) && b.accessOf(s.fullPath) == accessRemove
}

// findHook returns a file that git would run or read in a directory of a repository, or "" and true if that
// leads somewhere else.
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

// gitOwnerOf says whose the settings are that a repository, or a work tree of one, has by a name.
func (b *Sandbox) gitOwnerOf(git, name string, own bool) gitOwner {
	common := git
	if isWorkTree(git) {
		common = path.Dir(path.Dir(git))
	}
	added := name == "config.worktree" && b.accessOf(common+"/config") == accessNone
	return gitOwner{own, added, func(tree string) bool {
		if !path.IsAbs(tree) {
			tree = path.Join(git, tree)
		}
		b.protectMu.RLock()
		defer b.protectMu.RUnlock()
		isGits := strings.Contains(foldPath(tree+"/"), "/.git/")
		return !isGits && b.workDirOf(tree) != "" && gitDirOf(tree+"/.git") == git // which names it in turn
	}}
}

// replaceSettings puts new settings of a repository in the place of the old ones, as git does by a rename,
// if they differ in what a session may set. It takes a copy: the program may still have its own file open.
// done is false for all other renames.
func (b *Sandbox) replaceSettings(from nameInDir, file string, flags uint) (done bool, err error) {
	dir, name := path.Split(file)
	if !settingsNames[name] || flags != 0 {
		return false, nil
	}
	to, err := b.openNameInDir(dir, name)
	if err != nil {
		return false, err
	}
	defer to.close()
	if !b.isSettingsTarget(to) {
		return false, nil
	}
	if from.isSame(to) { // the kernel does nothing then
		return true, nil
	}
	now, mode, err := readSettings(from.dir, from.name)
	if err != nil {
		return false, err
	}
	if err := b.checkAndPutSettings(to, now, mode); err != nil {
		return false, err
	}
	return true, unix.Unlinkat(from.dir, from.name, 0)
}

// settingsNames are the names of the settings of a repository.
var settingsNames = map[string]bool{"config": true, "config.worktree": true}

// isSettingsTarget reports whether new settings are judged that get a name.
func (b *Sandbox) isSettingsTarget(to nameInDir) bool {
	if !settingsNames[to.name] {
		return false
	}
	switch b.accessOf(to.fullPath) {
	case accessRemove:
		return true
	case accessNone:
		return !b.isGitTarget(to.fullPath) && to.fileType() != 0 && isGitDir(path.Dir(to.fullPath))
	}
	return false
}

// checkAndPutSettings judges new settings, and puts a copy in the place of the old ones.
func (b *Sandbox) checkAndPutSettings(to nameInDir, now []byte, mode uint32) error {
	was, old, err := readSettings(to.dir, to.name)
	switch {
	case err == nil:
		mode = old
	case err != unix.ENOENT:
		return protectedNameError{path: to.fullPath}
	}
	if setting, refused := refusedSetting(was, now, b.gitOwnerOf(path.Dir(to.fullPath), to.name, b.accessOf(to.fullPath) != accessNone)); refused {
		return protectedNameError{to.fullPath, setting}
	}
	return putSettings(to.dir, to.name, now, mode)
}

// checkedSettingsPrefix is how the name of settings begins that were checked, until they have their place. No program
// of the session may write them.
const checkedSettingsPrefix = "config.checked-by-turnstone"

// putSettings puts a new file in the place of a settings file.
func putSettings(dir int, name string, text []byte, mode uint32) error {
	checked := checkedSettingsPrefix + "-" + rand.Text() // other sessions write there, too
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

// readSettings reads a settings file, and its mode.
func readSettings(dir int, name string) (text []byte, mode uint32, err error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, 0, err
	}
	defer unix.Close(fd)
	return settingsIn(fd)
}

// settingsIn reads an open settings file, and its mode.
func settingsIn(fd int) (text []byte, mode uint32, err error) {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size > maxSettingsBytes {
		return nil, 0, unix.EINVAL
	}
	text = make([]byte, st.Size)
	n, err := unix.Pread(fd, text, 0)
	if err != nil || n < len(text) {
		return nil, 0, unix.EIO
	}
	return text, st.Mode & 0o777, nil
}
