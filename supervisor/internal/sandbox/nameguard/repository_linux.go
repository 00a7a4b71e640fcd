package nameguard

import (
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
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/workerview"
)

// Git runs the hooks of each repository that it visits, and programs that its settings name. A
// directory becomes a repository with its last part, regardless of which program created the other
// parts. When that happens, its content is checked as if it were created now: it must have no
// hooks, and no settings that name programs.

// CommondirText is the content of commondir in the git directory of a linked work tree, which leads
// to the repository.
const CommondirText = "../.."

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

// IsCommondir reports whether a name is the file commondir of a work tree that the session added.
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
