package confine

import "golang.org/x/sys/unix"

// maxPathMoves bounds how often a call is judged again because somebody outside moves what it is about.
const maxPathMoves = 16

// withStablePath decides about a name by its path. The decision asks the filesystem about that path, and a program
// outside may move the directory in the meantime: the open directory would then be judged by a path that
// leads nowhere. So it is decided again if the path has changed. EBUSY if that does not end.
func (b *Sandbox) withStablePath(s nameInDir, decide func(nameInDir) error) error {
	for range maxPathMoves {
		err := decide(s)
		now, e := b.fullPathOf(s.dir, s.name)
		switch {
		case e != nil:
			return e
		case now == s.fullPath:
			return err
		}
		s.fullPath = now
	}
	return unix.EBUSY
}

// withStableFilePath is judged for an open file.
func (b *Sandbox) withStableFilePath(fd int, decide func(full string) error) error {
	full, err := b.realPath(fd)
	for range maxPathMoves {
		if err != nil {
			return err
		}
		verdict := decide(full)
		var now string
		if now, err = b.realPath(fd); err == nil && now == full {
			return verdict
		}
		full = now
	}
	return unix.EBUSY
}

// checkCreate returns why a name must not be made, a protectedNameError.
func (b *Sandbox) checkCreate(s nameInDir, moving bool) error {
	return b.withStablePath(s, func(s nameInDir) error { return b.checkCreatePath(s, moving) })
}

// checkMove returns why a name must stay where it is. mv copies on EXDEV, and leaves what it may not
// remove.
func (b *Sandbox) checkMove(s nameInDir) error { return b.withStablePath(s, b.checkMovePath) }

// checkRemove returns why a name must not be removed.
func (b *Sandbox) checkRemove(s nameInDir) error {
	return b.withStablePath(s, func(s nameInDir) error {
		if b.isProtected(s.fullPath) || b.isRepositoryPart(s.fullPath) {
			return protectedNameError{path: s.fullPath}
		}
		return nil
	})
}

// checkLink returns why a name must not get another one, which could be written.
func (b *Sandbox) checkLink(s nameInDir) error {
	return b.withStablePath(s, func(s nameInDir) error {
		if b.isRestricted(s.fullPath) {
			return protectedNameError{path: s.fullPath}
		}
		return nil
	})
}

// checkWrite returns why an open file must not be written.
func (b *Sandbox) checkWrite(fd int) error {
	return b.withStableFilePath(fd, func(full string) error {
		if b.isRestricted(full) {
			return protectedNameError{path: full}
		}
		return nil
	})
}
