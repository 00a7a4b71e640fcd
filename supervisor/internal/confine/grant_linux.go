package confine

import (
	"errors"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// Grant gives the session a file or directory. It calls answer when the session has it, or with the
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
	t := &giving{Box: &Box{plan: b.plan}, Grant: g, isConfirmed: func(id string) error { return b.isConfirmed(g, id) }, dir: string(g.Path), at: filepath.Join(string(b.plan.State), "grant")}
	t.step("mounts", "", unix.Unshare(unix.CLONE_FS|unix.CLONE_NEWNS))
	home := t.open("/proc/thread-self/ns/mnt")
	defer unix.Close(home)
	t.enter(b.mounts)
	own := t.takeOwn()
	t.enter(home)
	whole := t.build(own)
	defer unix.Close(whole)
	t.enter(b.mounts)
	t.do(func() {
		if g.In != "" {
			t.step("place", t.dir, g.makePoint(whole))
		}
	})
	if t.failed == nil {
		kind := readable
		if !g.Read {
			kind = writable
			b.guardMore([]Path{g.Path}, g.Reach)
		}
		b.keep(g.Absent, append(g.Places, Place{Path: g.Path, Kind: kind}))
		t.step("place", t.dir, moveToPlace(whole, t.dir))
	}
	if t.failed != nil {
		return t.failed
	}
	return nil
}

// makePoint makes a mount point for a grant in a directory of the session's own, where the session may
// have something of that name. It follows no link.
func (g *Grant) makePoint(whole int) error {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS}
	seen, err := unix.Openat2(unix.AT_FDCWD, string(g.In), &how)
	if err != nil {
		return err
	}
	at, err := unix.OpenTree(seen, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	unix.Close(seen)
	if err != nil {
		return err
	}
	defer func() { unix.Close(at) }()
	if err := unix.MountSetattr(at, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return err // a covered directory is read-only where the session sees it
	}
	names := strings.FieldsFunc(strings.TrimPrefix(string(g.Path), string(g.In)), func(r rune) bool { return r == '/' })
	for i, name := range names {
		if i == len(names)-1 && !isDirectory(whole) {
			err = unix.Mknodat(at, name, unix.S_IFREG|0o600, 0)
		} else {
			err = unix.Mkdirat(at, name, 0o755)
		}
		if err != nil && err != unix.EEXIST {
			return err
		}
		if i == len(names)-1 {
			break
		}
		below, err := unix.Openat2(at, name, &how)
		if err != nil {
			return err
		}
		unix.Close(at)
		at = below
	}
	return nil
}

// A giving is a grant under way.
type giving struct {
	*Box
	*Grant
	isConfirmed func(identity string) error

	dir string // the file or directory
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
func (k Kind) ofSession() bool { return k == layer || k == replaced || k.isEmpty() }

// takeOwn clones, in the worker's mounts, the places that show something of the session. In a directory
// that it only reads, these are all.
func (t *giving) takeOwn() []clone {
	var own []clone
	for _, place := range t.Places {
		if (t.Read || place.Kind.ofSession()) && !coveredBy(own, place.Path) && t.failed == nil {
			fd, err := cloneOfPlace(string(place.Path))
			if t.Read && errors.Is(err, unix.ENOENT) {
				continue // it has no mount
			}
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

// build returns a clone of the file or directory with all places in it.
func (t *giving) build(own []clone) (whole int) {
	whole = -1
	set := uint64(unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV)
	if t.Read {
		set |= unix.MOUNT_ATTR_RDONLY
	}
	if len(t.Places) == 0 {
		t.do(func() {
			var err error
			whole, err = t.cloneWhole()
			t.step("clone", t.dir, err)
		})
		t.do(func() { t.step("place", t.dir, setAttributes(whole, "", set)) })
		return whole
	}
	t.do(func() {
		t.step("state", t.at, makeDir(t.at))
		fd, err := t.cloneWhole()
		t.step("clone", t.dir, err)
		t.mount(fd, t.dir, set)
	})
	for _, place := range t.Places {
		if !t.Read && !place.Kind.ofSession() && !coveredBy(own, place.Path) {
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

// cloneWhole clones the file or directory, if it is the one that was asked for.
func (t *giving) cloneWhole() (fd int, err error) {
	if fd, err = cloneOfPlace(t.dir); err != nil {
		return -1, err
	}
	if err = t.isConfirmed(identityOf(fd, t.dir)); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
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

// isConfirmed returns an error unless a file or directory is the one that was looked at when the grant was planned
// and when its question was asked.
func (b *Box) isConfirmed(g *Grant, id string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if g.Identity != "" && g.Identity != id {
		return ErrReplaced
	}
	for d, q := range b.open {
		asked := ""
		switch string(g.Path) {
		case d.Path:
			asked = q.file
		case filepath.Dir(d.Path):
			asked = q.dir
		}
		if asked != "" && asked != id {
			return ErrReplaced
		}
	}
	return nil
}
