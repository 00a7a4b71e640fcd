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
func (b *Sandbox) Grant(g *Grant, answer func(error)) {
	go func() {
		runtime.LockOSThread() // and never unlocked, so that nobody else gets the thread
		b.grantMu.Lock()
		defer b.grantMu.Unlock()
		answer(b.applyGrant(g))
	}()
}

// applyGrant builds the directory with all that must not change in it where only this thread sees it,
// and then puts it into the worker's mounts in one step.
func (b *Sandbox) applyGrant(g *Grant) error {
	t := &grantTransaction{Sandbox: &Sandbox{plan: b.plan}, Grant: g, isConfirmed: func(id string) error { return b.isConfirmed(g, id) }, target: string(g.Path), buildDir: filepath.Join(string(b.plan.State), "grant")}
	t.checkStep("mounts", "", unix.Unshare(unix.CLONE_FS|unix.CLONE_NEWNS))
	home := t.openForMount("/proc/thread-self/ns/mnt")
	defer unix.Close(home)
	t.enterMounts(b.mountNS)
	own := t.cloneOwn()
	t.enterMounts(home)
	whole := t.buildTree(own)
	defer unix.Close(whole)
	t.enterMounts(b.mountNS)
	t.runSteps(func() {
		if g.ParentDir != "" {
			t.checkStep("place", t.target, g.makeMountPoint(whole))
		}
	})
	if t.firstError == nil {
		kind := grantableBind
		if !g.ReadOnly {
			kind = writableBind
			b.guardMore([]Path{g.Path}, g.GitTargets)
		}
		b.addProtected(g.Absent, append(g.Mounts, Mount{Path: g.Path, Kind: kind}))
		t.checkStep("place", t.target, mountAtPlanPath(whole, t.target))
	}
	if t.firstError != nil {
		return t.firstError
	}
	return nil
}

// makeMountPoint makes a mount point for a grant in a directory of the session's own, where the session may
// have something of that name. It follows no link.
func (g *Grant) makeMountPoint(whole int) error {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS}
	seen, err := unix.Openat2(unix.AT_FDCWD, string(g.ParentDir), &how)
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
	names := strings.FieldsFunc(strings.TrimPrefix(string(g.Path), string(g.ParentDir)), func(r rune) bool { return r == '/' })
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

// A grantTransaction is a grant under way.
type grantTransaction struct {
	*Sandbox
	*Grant
	isConfirmed func(identity string) error

	target   string // the file or directory
	buildDir string // where it is built
}

func (t *grantTransaction) openForMount(path string) int {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	t.checkStep("mounts", path, err)
	return fd
}

func (t *grantTransaction) enterMounts(mounts int) {
	t.runSteps(func() { t.checkStep("mounts", "", unix.Setns(mounts, unix.CLONE_NEWNS)) })
}

// isSessionOnly reports whether a place shows something that only the session has.
func (k MountKind) isSessionOnly() bool {
	return k == overlayMount || k == replacedFile || k.isEmptyDir()
}

// cloneOwn clones, in the worker's mounts, the places that show something of the session. In a directory
// that it only reads, these are all.
func (t *grantTransaction) cloneOwn() []detachedMount {
	var own []detachedMount
	for _, place := range t.Mounts {
		if (t.ReadOnly || place.Kind.isSessionOnly()) && !isCovered(own, place.Path) && t.firstError == nil {
			fd, err := clonePlanPath(string(place.Path))
			if t.ReadOnly && errors.Is(err, unix.ENOENT) {
				continue // it has no mount
			}
			t.checkStep("clone", string(place.Path), err)
			own = append(own, detachedMount{place, fd})
		}
	}
	return own
}

// isCovered reports whether a path is in one of the clones, which have all mounts below them.
func isCovered(clones []detachedMount, path Path) bool {
	for _, c := range clones {
		if inside(string(path), string(c.Path)) {
			return true
		}
	}
	return false
}

// buildTree returns a clone of the file or directory with all places in it.
func (t *grantTransaction) buildTree(own []detachedMount) (whole int) {
	whole = -1
	set := uint64(unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV)
	if t.ReadOnly {
		set |= unix.MOUNT_ATTR_RDONLY
	}
	if len(t.Mounts) == 0 {
		t.runSteps(func() {
			var err error
			whole, err = t.cloneTarget()
			t.checkStep("clone", t.target, err)
		})
		t.runSteps(func() { t.checkStep("place", t.target, setAttributes(whole, "", set)) })
		return whole
	}
	t.runSteps(func() {
		t.checkStep("state", t.buildDir, makeDir(t.buildDir))
		fd, err := t.cloneTarget()
		t.checkStep("clone", t.target, err)
		t.attachAt(fd, t.target, set)
	})
	for _, place := range t.Mounts {
		if !t.ReadOnly && !place.Kind.isSessionOnly() && !isCovered(own, place.Path) {
			t.runSteps(func() { t.addMount(place) })
		}
	}
	for _, c := range own {
		t.runSteps(func() { t.attachAt(c.fd, string(c.Path), 0) })
		unix.Close(c.fd)
	}
	t.runSteps(func() {
		var err error
		whole, err = clonePlanPath(t.buildDir)
		t.checkStep("clone", t.target, err)
	})
	return whole
}

// cloneTarget clones the file or directory, if it is the one that was asked for.
func (t *grantTransaction) cloneTarget() (fd int, err error) {
	if fd, err = clonePlanPath(t.target); err != nil {
		return -1, err
	}
	if err = t.isConfirmed(openFileIdentity(fd, t.target)); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// addMount makes a place in the directory that is built.
func (t *grantTransaction) addMount(place Mount) {
	from, set := t.buildPath(string(place.Path)), uint64(unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	switch place.Kind {
	case guardedFile:
		return
	case readOnlyBind, grantableBind:
		set |= unix.MOUNT_ATTR_RDONLY
	case maskedPath:
		set |= unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOEXEC
		from = t.maskFor(from)
	}
	fd, err := clonePlanPath(from)
	if errors.Is(err, unix.ENOENT) {
		return // it went since the grant was planned
	}
	t.checkStep("clone", from, err)
	t.attachAt(fd, string(place.Path), set)
}

// attachAt puts a clone where the directory is built, and closes it.
func (t *grantTransaction) attachAt(fd int, path string, set uint64) {
	t.runSteps(func() {
		if set != 0 {
			t.checkStep("place", path, setAttributes(fd, "", set))
		}
		t.checkStep("place", path, mountAtPlanPath(fd, t.buildPath(path)))
	})
	unix.Close(fd)
}

// buildPath returns where a path of the directory is while it is built.
func (t *grantTransaction) buildPath(path string) string {
	return t.buildDir + strings.TrimPrefix(path, t.target)
}

func makeDir(path string) error {
	if err := unix.Mkdir(path, 0o700); err != nil && err != unix.EEXIST {
		return err
	}
	return nil
}

// isConfirmed returns an error unless a file or directory is the one that was looked at when the grant was planned
// and when its question was asked.
func (b *Sandbox) isConfirmed(g *Grant, id string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if g.Identity != "" && g.Identity != id {
		return ErrReplaced
	}
	for d, q := range b.openQuestions {
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
