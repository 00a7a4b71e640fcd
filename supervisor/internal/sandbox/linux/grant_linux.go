package linux

import (
	"errors"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/internal/paths"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/filestate"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/mountlist"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/plan"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/workerview"
)

// Grant gives the session access to a file or directory. It calls answer when the session has
// access, or with the error, a *plan.StepError. Each grant runs on a separate thread, which ends with
// it, because the thread enters other mount namespaces.
func (sb *ActiveSandbox) Grant(g *plan.MountGrant, answer func(error)) {
	go func() {
		runtime.LockOSThread() // never unlocked, so that the thread is not reused
		sb.grantMu.Lock()
		defer sb.grantMu.Unlock()
		answer(sb.applyGrant(g))
	}()
}

// applyGrant builds the directory, with all its protected paths, where only this thread sees it.
// Then it attaches it to the worker's mounts in one step.
func (sb *ActiveSandbox) applyGrant(g *plan.MountGrant) error {
	t := &grantTransaction{ActiveSandbox: &ActiveSandbox{plan: sb.plan}, MountGrant: g, isConfirmed: func(id string) error { return sb.CheckConfirmed(g, id) }, target: string(g.Path), buildDir: filepath.Join(string(sb.plan.State), "grant")}
	t.checkStep("mounts", "", unix.Unshare(unix.CLONE_FS|unix.CLONE_NEWNS))
	home := t.openForMount("/proc/thread-self/ns/mnt")
	defer unix.Close(home)
	t.enterMounts(sb.MountNS)
	own := t.cloneOwn()
	t.enterMounts(home)
	whole := t.buildTree(own)
	defer unix.Close(whole)
	t.enterMounts(sb.MountNS)
	t.runSteps(func() {
		if g.ParentDir != "" {
			t.checkStep("mount", t.target, makeGrantMountPoint(g, whole))
		}
	})
	if t.firstError == nil {
		kind := mountlist.GrantableBind
		if !g.ReadOnly {
			kind = mountlist.WritableBind
			sb.GuardMore([]mountlist.Path{g.Path}, g.GitTargets)
		}
		sb.AddProtected(g.Absent, append(g.Mounts, mountlist.Mount{Path: g.Path, Kind: kind}))
		t.checkStep("mount", t.target, mountAtPlanPath(whole, t.target))
	}
	if t.firstError != nil {
		return t.firstError
	}
	return nil
}

// makeGrantMountPoint creates a mount point for a grant in a directory of the session, which may
// already contain a file of that name. It follows no links.
func makeGrantMountPoint(g *plan.MountGrant, whole int) error {
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
		return err // a ReadOnlyParent is read-only where the session sees it
	}
	names := strings.FieldsFunc(strings.TrimPrefix(string(g.Path), string(g.ParentDir)), func(r rune) bool { return r == '/' })
	for i, name := range names {
		if i == len(names)-1 && !workerview.IsDirectory(whole) {
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

// A grantTransaction is a grant that is being applied.
type grantTransaction struct {
	*ActiveSandbox
	*plan.MountGrant
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

// cloneOwn clones, in the worker's mount namespace, the mounts that show content of the session. In
// a directory that it only reads, these are all mounts.
func (t *grantTransaction) cloneOwn() []detachedMount {
	var own []detachedMount
	for _, m := range t.Mounts {
		if (t.ReadOnly || m.Kind.IsSessionOnly()) && !isCovered(own, m.Path) && t.firstError == nil {
			fd, err := clonePlanPath(string(m.Path))
			if t.ReadOnly && errors.Is(err, unix.ENOENT) {
				continue // it has no mount
			}
			t.checkStep("clone", string(m.Path), err)
			own = append(own, detachedMount{m, fd})
		}
	}
	return own
}

// isCovered reports whether a path is in one of the clones, which include all mounts below them.
func isCovered(clones []detachedMount, path mountlist.Path) bool {
	for _, c := range clones {
		if paths.Contains(string(c.Path), string(path)) {
			return true
		}
	}
	return false
}

// buildTree returns a clone of the file or directory with all its mounts.
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
		t.runSteps(func() { t.checkStep("mount", t.target, setAttributes(whole, "", set)) })
		return whole
	}
	t.runSteps(func() {
		t.checkStep("state", t.buildDir, makeDir(t.buildDir))
		fd, err := t.cloneTarget()
		t.checkStep("clone", t.target, err)
		t.attachAt(fd, t.target, set)
	})
	for _, m := range t.Mounts {
		if !t.ReadOnly && !m.Kind.IsSessionOnly() && !isCovered(own, m.Path) {
			t.runSteps(func() { t.addMount(m) })
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

// cloneTarget clones the file or directory, if it is still the requested one.
func (t *grantTransaction) cloneTarget() (fd int, err error) {
	if fd, err = clonePlanPath(t.target); err != nil {
		return -1, err
	}
	if err = t.isConfirmed(filestate.OpenIdentity(fd, t.target)); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// addMount attaches a mount in the directory that is being built.
func (t *grantTransaction) addMount(m mountlist.Mount) {
	from, set := t.buildPath(string(m.Path)), uint64(unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	switch m.Kind {
	case mountlist.GuardedFile:
		return
	case mountlist.ReadOnlyBind, mountlist.GrantableBind:
		set |= unix.MOUNT_ATTR_RDONLY
	case mountlist.MaskedPath:
		set |= unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOEXEC
		from = t.maskFor(from)
	}
	fd, err := clonePlanPath(from)
	if errors.Is(err, unix.ENOENT) {
		return // it was removed since the grant was planned
	}
	t.checkStep("clone", from, err)
	t.attachAt(fd, string(m.Path), set)
}

// attachAt attaches a clone in the directory that is being built, and closes it.
func (t *grantTransaction) attachAt(fd int, path string, set uint64) {
	t.runSteps(func() {
		if set != 0 {
			t.checkStep("mount", path, setAttributes(fd, "", set))
		}
		t.checkStep("mount", path, mountAtPlanPath(fd, t.buildPath(path)))
	})
	unix.Close(fd)
}

// buildPath returns the path of a file of the directory while it is being built.
func (t *grantTransaction) buildPath(path string) string {
	return t.buildDir + strings.TrimPrefix(path, t.target)
}

func makeDir(path string) error {
	if err := unix.Mkdir(path, 0o700); err != nil && err != unix.EEXIST {
		return err
	}
	return nil
}
