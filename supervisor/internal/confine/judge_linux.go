package confine

import "golang.org/x/sys/unix"

// mostMoves bounds how often a call is judged again because somebody outside moves what it is about.
const mostMoves = 16

// judged decides about a name by its path. The decision asks the filesystem about that path, and a program
// outside may move the directory in the meantime: the open directory would then be judged by a path that
// leads nowhere. So it is decided again if the path has changed. EBUSY if that does not end.
func (b *Box) judged(s spot, decide func(spot) error) error {
	for range mostMoves {
		err := decide(s)
		now, e := b.fullOf(s.dir, s.name)
		switch {
		case e != nil:
			return e
		case now == s.full:
			return err
		}
		s.full = now
	}
	return unix.EBUSY
}

// judgedFile is judged for an open file.
func (b *Box) judgedFile(fd int, decide func(full string) error) error {
	full, err := b.realPath(fd)
	for range mostMoves {
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

// mayMake returns why a name must not be made, a keptError.
func (b *Box) mayMake(s spot, moving bool) error {
	return b.judged(s, func(s spot) error { return b.judgeMake(s, moving) })
}

// mayMove returns why a name must stay where it is. mv copies on EXDEV, and leaves what it may not
// remove.
func (b *Box) mayMove(s spot) error { return b.judged(s, b.judgeMove) }

// mayRemove returns why a name must not be removed.
func (b *Box) mayRemove(s spot) error {
	return b.judged(s, func(s spot) error {
		if b.protects(s.full) || b.makesRepository(s.full) {
			return keptError{path: s.full}
		}
		return nil
	})
}

// mayLink returns why a name must not get another one, which could be written.
func (b *Box) mayLink(s spot) error {
	return b.judged(s, func(s spot) error {
		if b.isHeld(s.full) {
			return keptError{path: s.full}
		}
		return nil
	})
}

// mayWrite returns why an open file must not be written.
func (b *Box) mayWrite(fd int) error {
	return b.judgedFile(fd, func(full string) error {
		if b.isHeld(full) {
			return keptError{path: full}
		}
		return nil
	})
}
