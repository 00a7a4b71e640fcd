package nameguard

import (
	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/workerview"
)

// maxPathMoves bounds how often a check is repeated because a program outside moves the path.
const maxPathMoves = 16

// withStablePath decides about a name by its path. The decision asks the filesystem about that
// path. A program outside may move the directory in the meantime, so that the path no longer leads
// to the open directory. withStablePath decides again while the path changes, and gives up with
// EBUSY.
func (g *Guard) withStablePath(s workerview.NameInDir, decide func(workerview.NameInDir) error) error {
	for range maxPathMoves {
		err := decide(s)
		current, e := g.view.FullPathOf(s.Dir, s.Name)
		switch {
		case e != nil:
			return e
		case current == s.FullPath:
			return err
		}
		s.FullPath = current
	}
	return unix.EBUSY
}

// WithStableFilePath is withStablePath for an open file.
func (g *Guard) WithStableFilePath(fd int, decide func(full string) error) error {
	full, err := g.view.RealPath(fd)
	for range maxPathMoves {
		if err != nil {
			return err
		}
		verdict := decide(full)
		var current string
		if current, err = g.view.RealPath(fd); err == nil && current == full {
			return verdict
		}
		full = current
	}
	return unix.EBUSY
}
