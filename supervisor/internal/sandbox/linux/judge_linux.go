package linux

import "golang.org/x/sys/unix"

// maxPathMoves bounds how often a check is repeated because a program outside moves the path.
const maxPathMoves = 16

// withStablePath decides about a name by its path. The decision asks the filesystem about that
// path. A program outside may move the directory in the meantime, so that the path no longer leads
// to the open directory. withStablePath decides again while the path changes, and gives up with
// EBUSY.
func (sb *ActiveSandbox) withStablePath(s nameInDir, decide func(nameInDir) error) error {
	for range maxPathMoves {
		err := decide(s)
		current, e := sb.fullPathOf(s.dir, s.name)
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
func (sb *ActiveSandbox) withStableFilePath(fd int, decide func(full string) error) error {
	full, err := sb.realPath(fd)
	for range maxPathMoves {
		if err != nil {
			return err
		}
		verdict := decide(full)
		var current string
		if current, err = sb.realPath(fd); err == nil && current == full {
			return verdict
		}
		full = current
	}
	return unix.EBUSY
}

// checkCreate returns an error if a name must not be made, which is a protectedNameError if it is
// protected.
func (sb *ActiveSandbox) checkCreate(s nameInDir, moving bool) error {
	return sb.withStablePath(s, func(s nameInDir) error { return sb.checkCreatePath(s, moving) })
}

// checkMove returns an error if a name must not be moved. On EXDEV, mv copies the files and leaves
// the originals that it may not remove.
func (sb *ActiveSandbox) checkMove(s nameInDir) error { return sb.withStablePath(s, sb.checkMovePath) }

// checkRemove returns an error if a name must not be removed.
func (sb *ActiveSandbox) checkRemove(s nameInDir) error {
	return sb.withStablePath(s, func(s nameInDir) error {
		if sb.isProtected(s.fullPath) || sb.isRepositoryPart(s.fullPath) {
			return protectedNameError{path: s.fullPath}
		}
		return nil
	})
}

// checkLink returns an error if a file must not get a second name, through which it could be
// written.
func (sb *ActiveSandbox) checkLink(s nameInDir) error {
	return sb.withStablePath(s, func(s nameInDir) error {
		if sb.isRestricted(s.fullPath) {
			return protectedNameError{path: s.fullPath}
		}
		return nil
	})
}

// checkWrite returns an error if an open file must not be written.
func (sb *ActiveSandbox) checkWrite(fd int) error {
	return sb.withStableFilePath(fd, func(full string) error {
		if sb.isRestricted(full) {
			return protectedNameError{path: full}
		}
		return nil
	})
}
