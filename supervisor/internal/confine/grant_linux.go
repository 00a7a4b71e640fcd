package confine

import (
	"errors"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Grant gives the session a directory. It calls answer when the session has it, or with the
// error, a *StepError. A grant has a thread of its own, which ends with it: the thread enters
// other mounts.
func (b *Box) Grant(g *Grant, answer func(error)) {
	go func() {
		runtime.LockOSThread() // and never unlocked, so that nobody else gets the thread
		b.giving.Lock()
		defer b.giving.Unlock()
		answer(b.give(g))
	}()
}

// give builds the directory with all that must not change in it where only this thread sees it,
// and then puts it into the worker's mounts in one step.
func (b *Box) give(g *Grant) error {
	t := &giving{Box: &Box{plan: b.plan}, isConfirmed: func(id string) error { return b.isConfirmed(g, id) }, dir: string(g.Dir), at: filepath.Join(string(b.plan.State), "grant")}
	t.step("mounts", "", unix.Unshare(unix.CLONE_FS|unix.CLONE_NEWNS))
	home := t.open("/proc/thread-self/ns/mnt")
	defer unix.Close(home)
	t.enter(b.mounts)
	own := t.takeOwn(g.Places)
	t.enter(home)
	whole := t.build(g.Places, own)
	defer unix.Close(whole)
	t.enter(b.mounts)
	if t.failed == nil {
		b.keep(g.Absent, g.Places)
		b.guardMore([]Path{g.Dir}, g.Reach)
		t.step("place", t.dir, moveToPlace(whole, t.dir))
	}
	if t.failed != nil {
		return t.failed
	}
	return nil
}

// A giving is a grant under way.
type giving struct {
	*Box
	isConfirmed func(identity string) error

	dir string // the directory
	at  string // where it is built
}

func (t *giving) open(path string) int {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	t.step("mounts", path, err)
	return fd
}

func (t *giving) enter(mounts int) {
	t.do(func() { t.step("mounts", "", unix.Setns(mounts, unix.CLONE_NEWNS)) })
}

// ofSession reports whether a place shows something that only the session has.
func (k Kind) ofSession() bool { return k == layer || k.isEmpty() }

// takeOwn clones, in the worker's mounts, the places that show something of the session.
func (t *giving) takeOwn(places []Place) []clone {
	var own []clone
	for _, place := range places {
		if place.Kind.ofSession() && !coveredBy(own, place.Path) && t.failed == nil {
			fd, err := cloneOfPlace(string(place.Path))
			t.step("clone", string(place.Path), err)
			own = append(own, clone{place, fd})
		}
	}
	return own
}

// coveredBy reports whether a path is in one of the clones, which have all mounts below them.
func coveredBy(clones []clone, path Path) bool {
	for _, c := range clones {
		if inside(string(path), string(c.Path)) {
			return true
		}
	}
	return false
}

// build returns a clone of the directory with all places in it.
func (t *giving) build(places []Place, own []clone) (whole int) {
	whole = -1
	t.do(func() {
		t.step("state", t.at, makeDir(t.at))
		fd, err := cloneOfPlace(t.dir)
		t.step("clone", t.dir, err)
		t.do(func() { t.step("clone", t.dir, t.isConfirmed(identityOf(fd, t.dir))) })
		t.mount(fd, t.dir, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	})
	for _, place := range places {
		if !place.Kind.ofSession() && !coveredBy(own, place.Path) {
			t.do(func() { t.keep(place) })
		}
	}
	for _, c := range own {
		t.do(func() { t.mount(c.fd, string(c.Path), 0) })
		unix.Close(c.fd)
	}
	t.do(func() {
		var err error
		whole, err = cloneOfPlace(t.at)
		t.step("clone", t.dir, err)
	})
	return whole
}

// keep makes a place in the directory that is built.
func (t *giving) keep(place Place) {
	from, set := t.built(string(place.Path)), uint64(unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	switch place.Kind {
	case guarded:
		return
	case protected, readable:
		set |= unix.MOUNT_ATTR_RDONLY
	case hidden:
		set |= unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOEXEC
		from = t.nothingAt(from)
	}
	fd, err := cloneOfPlace(from)
	if errors.Is(err, unix.ENOENT) {
		return // it went since the grant was planned
	}
	t.step("clone", from, err)
	t.mount(fd, string(place.Path), set)
}

// mount puts a clone where the directory is built, and closes it.
func (t *giving) mount(fd int, path string, set uint64) {
	t.do(func() {
		if set != 0 {
			t.step("place", path, setAttributes(fd, "", set))
		}
		t.step("place", path, moveToPlace(fd, t.built(path)))
	})
	unix.Close(fd)
}

// built returns where a path of the directory is while it is built.
func (t *giving) built(path string) string { return t.at + strings.TrimPrefix(path, t.dir) }

func makeDir(path string) error {
	if err := unix.Mkdir(path, 0o700); err != nil && err != unix.EEXIST {
		return err
	}
	return nil
}

// errReplaced says that a directory has the path of the one that a person meant, and is another.
var errReplaced = errors.New("it is not the directory any more that was asked for: it was replaced meanwhile")

// isConfirmed returns an error unless a directory is the one that was looked at when the grant was planned
// and when its question was asked.
func (b *Box) isConfirmed(g *Grant, id string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if g.Identity != "" && g.Identity != id {
		return errReplaced
	}
	for d, q := range b.open {
		if filepath.Dir(d.Path) == string(g.Dir) && q.dir != "" && q.dir != id {
			return errReplaced
		}
	}
	return nil
}
