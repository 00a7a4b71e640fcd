package nameguard

import (
	"path"

	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/foldedname"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/workerview"
)

// CheckCreate returns an error if a name must not be created, which is a ProtectedNameError if it
// is protected. moving means that the name may be given to a directory with content.
func (g *Guard) CheckCreate(s workerview.NameInDir, moving bool) error {
	return g.withStablePath(s, func(s workerview.NameInDir) error { return g.checkCreatePath(s, moving) })
}

// CheckMove returns an error if a name must not be moved. On EXDEV, mv copies the files and leaves
// the originals that it may not remove.
func (g *Guard) CheckMove(s workerview.NameInDir) error {
	return g.withStablePath(s, g.checkMovePath)
}

// CheckRemove returns an error if a name must not be removed.
func (g *Guard) CheckRemove(s workerview.NameInDir) error {
	return g.withStablePath(s, func(s workerview.NameInDir) error {
		if g.isProtected(s.FullPath) || g.isRepositoryPart(s.FullPath) {
			return ProtectedNameError{Path: s.FullPath}
		}
		return nil
	})
}

// CheckLink returns an error if a file must not get a second name, through which it could be
// written.
func (g *Guard) CheckLink(s workerview.NameInDir) error {
	return g.withStablePath(s, func(s workerview.NameInDir) error {
		if g.IsRestricted(s.FullPath) {
			return ProtectedNameError{Path: s.FullPath}
		}
		return nil
	})
}

// CheckWrite returns an error if an open file must not be written.
func (g *Guard) CheckWrite(fd int) error {
	return g.WithStableFilePath(fd, func(full string) error {
		if g.IsRestricted(full) {
			return ProtectedNameError{Path: full}
		}
		return nil
	})
}

// checkCreatePath returns a ProtectedNameError if a name must not be created. A directory that
// would hold a protected name may be created, but not moved there with content.
func (g *Guard) checkCreatePath(s workerview.NameInDir, moving bool) error {
	if g.IsRestricted(s.FullPath) || g.mustBeEmpty(s.FullPath, moving) {
		return ProtectedNameError{Path: s.FullPath}
	}
	g.protectMu.RLock()
	defer g.protectMu.RUnlock()
	if !moving && !g.protectedLastNames[foldedname.FoldPath(s.Name)] {
		return nil
	}
	if folded := foldedname.FoldPath(s.FullPath); g.protectedPaths[folded] || moving && g.protectedParents[folded] {
		return ProtectedNameError{Path: s.FullPath}
	}
	return nil
}

// IsModeFixed reports whether the mode of a path must not change. This holds for protected paths,
// hooks and the parts that make a repository. It also holds for a directory of hooks, because git
// skips hooks that it cannot read.
func (g *Guard) IsModeFixed(full string) bool {
	return g.isProtected(full) || g.IsRestricted(full) && !gitDirNames[foldedname.FoldPath(path.Base(full))] || g.isRepositoryPart(full) || foldedname.FoldPath(path.Base(full)) == "hooks" && g.isProtected(full+"/any")
}

// checkMovePath returns an error if a name must not be moved.
func (g *Guard) checkMovePath(s workerview.NameInDir) error {
	kind := s.FileType()
	if kind == 0 {
		return unix.ENOENT // a name that is being created at this moment is not moved
	}
	if g.isProtected(s.FullPath) || g.isRepositoryPart(s.FullPath) {
		return ProtectedNameError{Path: s.FullPath}
	}
	if kind != unix.S_IFDIR {
		return nil
	}
	if g.isInForeignGit(s.FullPath) || g.isAboveMount(s.FullPath) || g.isWritablePath(s.FullPath) && hasWorkTree(s.FullPath) {
		return ProtectedNameError{Path: s.FullPath}
	}
	if g.hasForeignRepo(s.FullPath, maxWalkedNames) {
		return unix.EXDEV
	}
	return nil
}
