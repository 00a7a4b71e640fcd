package linux

import (
	"path"

	"golang.org/x/sys/unix"
)

// maxPathMoves bounds how often a check is repeated because a program outside moves the path.
const maxPathMoves = 16

// withStablePath decides about a name by its path. The decision asks the filesystem about that
// path. A program outside may move the directory in the meantime, so that the path no longer leads
// to the open directory. withStablePath decides again while the path changes, and gives up with
// EBUSY.
func (g *writeGuard) withStablePath(s nameInDir, decide func(nameInDir) error) error {
	for range maxPathMoves {
		err := decide(s)
		current, e := g.view.fullPathOf(s.dir, s.name)
		switch {
		case e != nil:
			return e
		case current == s.fullPath:
			return err
		}
		s.fullPath = current
	}
	return unix.EBUSY
}

// withStableFilePath is withStablePath for an open file.
func (g *writeGuard) withStableFilePath(fd int, decide func(full string) error) error {
	full, err := g.view.realPath(fd)
	for range maxPathMoves {
		if err != nil {
			return err
		}
		verdict := decide(full)
		var current string
		if current, err = g.view.realPath(fd); err == nil && current == full {
			return verdict
		}
		full = current
	}
	return unix.EBUSY
}

// checkCreate returns an error if a name must not be made, which is a protectedNameError if it is
// protected.
func (g *writeGuard) checkCreate(s nameInDir, moving bool) error {
	return g.withStablePath(s, func(s nameInDir) error { return g.checkCreatePath(s, moving) })
}

// checkMove returns an error if a name must not be moved. On EXDEV, mv copies the files and leaves
// the originals that it may not remove.
func (g *writeGuard) checkMove(s nameInDir) error { return g.withStablePath(s, g.checkMovePath) }

// checkRemove returns an error if a name must not be removed.
func (g *writeGuard) checkRemove(s nameInDir) error {
	return g.withStablePath(s, func(s nameInDir) error {
		if g.isProtected(s.fullPath) || g.isRepositoryPart(s.fullPath) {
			return protectedNameError{path: s.fullPath}
		}
		return nil
	})
}

// checkLink returns an error if a file must not get a second name, through which it could be
// written.
func (g *writeGuard) checkLink(s nameInDir) error {
	return g.withStablePath(s, func(s nameInDir) error {
		if g.isRestricted(s.fullPath) {
			return protectedNameError{path: s.fullPath}
		}
		return nil
	})
}

// checkWrite returns an error if an open file must not be written.
func (g *writeGuard) checkWrite(fd int) error {
	return g.withStableFilePath(fd, func(full string) error {
		if g.isRestricted(full) {
			return protectedNameError{path: full}
		}
		return nil
	})
}

// A protectedNameError reports that a name must not be made or changed.
type protectedNameError struct {
	path    string
	setting string // the git setting, if the path is a git config file
}

func (e protectedNameError) Error() string { return e.path + " must not be made or changed" }

// checkCreatePath returns a protectedNameError if a name must not be made. A directory that would
// hold a protected name may be made, but not moved there with content.
func (g *writeGuard) checkCreatePath(s nameInDir, moving bool) error {
	if g.isRestricted(s.fullPath) || g.mustBeEmpty(s.fullPath, moving) {
		return protectedNameError{path: s.fullPath}
	}
	g.protectMu.RLock()
	defer g.protectMu.RUnlock()
	if !moving && !g.protectedLastNames[foldPath(s.name)] {
		return nil
	}
	if folded := foldPath(s.fullPath); g.protectedPaths[folded] || moving && g.protectedParents[folded] {
		return protectedNameError{path: s.fullPath}
	}
	return nil
}

// isModeFixed reports whether the mode of a path must not change. This holds for protected paths,
// hooks and the parts that make a repository. It also holds for a directory of hooks, because git
// skips hooks that it cannot read.
func (g *writeGuard) isModeFixed(full string) bool {
	return g.isProtected(full) || g.isRestricted(full) && !gitDirNames[foldPath(path.Base(full))] || g.isRepositoryPart(full) || foldPath(path.Base(full)) == "hooks" && g.isProtected(full+"/any")
}

// checkMovePath returns an error if a name must not be moved.
func (g *writeGuard) checkMovePath(s nameInDir) error {
	kind := s.fileType()
	if kind == 0 {
		return unix.ENOENT // a name that is being made at this moment is not moved
	}
	if g.isProtected(s.fullPath) || g.isRepositoryPart(s.fullPath) {
		return protectedNameError{path: s.fullPath}
	}
	if kind != unix.S_IFDIR {
		return nil
	}
	if g.isInForeignGit(s.fullPath) || g.isAboveMount(s.fullPath) || g.isWritablePath(s.fullPath) && hasWorkTree(s.fullPath) {
		return protectedNameError{path: s.fullPath}
	}
	if g.hasForeignRepo(s.fullPath, maxWalkedNames) {
		return unix.EXDEV
	}
	return nil
}
