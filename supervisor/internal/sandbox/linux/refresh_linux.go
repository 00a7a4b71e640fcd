package linux

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/plan"
)

// Refresh applies what programs outside have changed. It protects the paths that git settings lead
// to now, mounts the new files, and removes mounts whose files are gone. It returns when that is
// done. The notices are for the user of the session.
func (sb *ActiveSandbox) Refresh(changed *plan.MountGrant) (notices []string) {
	sb.guardMore(nil, changed.GitTargets)
	sb.hideMore(changed.Unreadable)
	if len(changed.Mounts)+len(changed.Removed) == 0 {
		return nil
	}
	done := make(chan struct{})
	go func() {
		runtime.LockOSThread() // never unlocked, as for a grant
		defer close(done)
		sb.grantMu.Lock()
		defer sb.grantMu.Unlock()
		notices = sb.refreshMounts(changed)
	}()
	<-done
	return notices
}

// refreshMounts clones what the mounts show now, in mounts that only this thread sees, and then
// replaces the mounts of the worker.
func (sb *ActiveSandbox) refreshMounts(changed *plan.MountGrant) (notices []string) {
	r := &mountRefresh{sandbox: sb, ActiveSandbox: &ActiveSandbox{plan: sb.plan, store: sb.store}}
	r.checkStep("mounts", "", unix.Unshare(unix.CLONE_FS|unix.CLONE_NEWNS))
	r.runSteps(r.mountStore)
	for _, m := range changed.Mounts {
		r.runSteps(func() { r.cloneMount(m) })
	}
	r.runSteps(func() { r.checkStep("mounts", "", unix.Setns(sb.mountNS, unix.CLONE_NEWNS)) })
	for _, path := range changed.Removed {
		r.runSteps(func() { r.removeMount(string(path)) })
	}
	for _, c := range r.detached {
		r.runSteps(func() { r.replaceMount(c) })
		if c.fd >= 0 {
			unix.Close(c.fd)
		}
	}
	return r.notices
}

// A mountRefresh is a refresh that is being applied. The embedded ActiveSandbox collects its
// steps and notices.
type mountRefresh struct {
	*ActiveSandbox
	sandbox *ActiveSandbox
}

// mountStore mounts the size-limited filesystem of a session at the path of its overlays.
func (r *mountRefresh) mountStore() {
	if r.sandbox.storeMount < 0 {
		return
	}
	own, err := unix.Open("/proc/thread-self/ns/mnt", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	r.checkStep("mounts", "", err)
	if err != nil {
		return
	}
	defer unix.Close(own)
	r.checkStep("mounts", "", unix.Setns(r.sandbox.mountNS, unix.CLONE_NEWNS))
	store, err := unix.OpenTree(r.sandbox.storeMount, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	r.checkStep("clone", r.store, err)
	r.runSteps(func() { r.checkStep("clone", r.store, makeWritable(store)) })
	r.checkStep("mounts", "", unix.Setns(own, unix.CLONE_NEWNS))
	r.runSteps(func() { r.checkStep("mount", r.store, moveMount(store, r.store)) })
	if err == nil {
		unix.Close(store)
	}
}

// cloneMount clones what a mount shows now. If the file disappears in the meantime, the old mount
// stays.
func (r *mountRefresh) cloneMount(m plan.Mount) {
	path := string(m.Path)
	fd, err := -1, error(nil)
	switch m.Kind {
	case plan.SymbolicLink:
	case plan.OverlayMount:
		if fd, err = r.layerOf(m); err != nil {
			r.notices = append(r.notices, fmt.Sprintf("%s was replaced by a program outside the sandbox; until a reset, this session only reads the new one, because its filesystem does not allow overlays (%v)", path, err))
			m.Kind = plan.GrantableBind
			fd, err = clonePlanPath(path)
		}
	case plan.ReadOnlyParent:
		fd, err = newFilesystem("tmpfs", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV, [2]string{"mode", "0755"}, [2]string{"size", maxParentDirSize})
	default:
		from := path
		switch m.Kind {
		case plan.ReplacedFile:
			from = string(m.Source)
		case plan.WritableParent:
			from = r.makeStateDir(r.store, plan.BoundedName("built", path), 0o700)
		case plan.MaskedPath:
			from = r.maskFor(path)
		}
		fd, err = clonePlanPath(from)
	}
	if err == nil && fd >= 0 {
		if err = setAttributes(fd, "", mountAttributes(m.Kind, true)); err != nil {
			unix.Close(fd)
		}
	}
	if err == nil {
		r.detached = append(r.detached, detachedMount{m, fd})
	}
}

// layerOf makes an overlay over one directory. Files that the session has written there are kept.
func (r *mountRefresh) layerOf(m plan.Mount) (int, error) {
	below, err := filepath.Rel(string(m.Source), string(m.Path))
	if err != nil {
		return -1, err
	}
	name := plan.BoundedName("layer", string(m.Source))
	work := filepath.Join(r.store, name, "again", strconv.FormatUint(r.sandbox.layerCount.Add(1), 10))
	upper := filepath.Join(r.store, name, "upper", below)
	for _, dir := range []string{work, upper} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return -1, err
		}
	}
	return newOverlay(string(m.Path), upper, work)
}

// removeMount removes a mount, and its name if the parent is a directory of the session.
func (r *mountRefresh) removeMount(path string) {
	dir, err := r.openMountParent(path)
	if err != nil {
		return
	}
	defer unix.Close(dir)
	if unix.Fchdir(dir) != nil {
		return
	}
	_ = unix.Unmount(filepath.Base(path), unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW) // a link is not a mount
	r.sandbox.forgetMount(path)
	if around := r.kindAbove(path); around.IsEmptyDir() {
		_ = withWritableDir(dir, around, func(at int) error { return removeEmpty(at, filepath.Base(path)) }) // files of the session stay
	}
}

// replaceMount mounts a clone in place of the former mount. Programs that have files of the old
// mount open keep them. If the session has made something else at the path, that stays until a
// reset.
func (r *mountRefresh) replaceMount(c detachedMount) {
	path := string(c.Path)
	dir, err := r.openMountParent(path)
	if err != nil {
		return
	}
	defer unix.Close(dir)
	name := filepath.Base(path)
	if unix.Fchdir(dir) != nil {
		return
	}
	own := c.Kind == plan.ReadOnlyParent || c.Kind == plan.WritableParent
	if own && isMounted(dir, name) {
		return // the session's directory exists already, with its mounts
	}
	over := c.Kind != plan.MaskedPath && !own && // a masked file must not be visible even for a moment
		unix.Unmount(name, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW) == nil
	if makeMountPoint(dir, name, c, r.kindAbove(path), over) != nil {
		return
	}
	if c.fd < 0 || unix.MoveMount(c.fd, "", dir, name, unix.MOVE_MOUNT_F_EMPTY_PATH) == nil {
		r.sandbox.addProtected(nil, []plan.Mount{c.Mount})
	}
}

// isMounted reports whether a name is a mount point.
func isMounted(dir int, name string) bool {
	var st unix.Statx_t
	err := unix.Statx(dir, name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, 0, &st)
	return err == nil && st.Attributes_mask&st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}

// openMountParent opens the parent directory of a mount.
func (r *mountRefresh) openMountParent(path string) (int, error) {
	return openParentDir(path, r.kindAbove, false)
}

// kindAbove returns the kind of the nearest mount around a path in the session.
func (r *mountRefresh) kindAbove(path string) plan.MountKind {
	r.sandbox.protectMu.RLock()
	defer r.sandbox.protectMu.RUnlock()
	return nearestKind(r.sandbox.mountKinds, path)
}

// forgetMount forgets the kind of a removed mount.
func (sb *ActiveSandbox) forgetMount(path string) {
	sb.protectMu.Lock()
	defer sb.protectMu.Unlock()
	delete(sb.mountKinds, path)
}

func nearestKind(kinds map[string]plan.MountKind, path string) plan.MountKind {
	for d := filepath.Dir(path); d != "/" && d != "."; d = filepath.Dir(d) {
		if k, ok := kinds[d]; ok {
			return k
		}
	}
	return ""
}

// openParentDir opens the directory of a path without following links. In a directory of the
// session it makes missing parts. isStart is set when a worker starts: then files of an earlier
// worker that are in the way are removed.
func openParentDir(path string, around func(string) plan.MountKind, isStart bool) (int, error) {
	dir := filepath.Dir(path)
	open := func() (int, error) {
		return unix.Openat2(unix.AT_FDCWD, dir, &unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	}
	fd, err := open()
	if err == nil || !around(dir).IsEmptyDir() {
		return fd, err
	}
	above, err := openParentDir(dir, around, isStart)
	if err != nil {
		return -1, err
	}
	defer unix.Close(above)
	name := filepath.Base(dir)
	if err := withWritableDir(above, around(dir), func(at int) error {
		if isStart {
			_ = unix.Unlinkat(at, name, 0)
		}
		return unix.Mkdirat(at, name, 0o755)
	}); err != nil {
		return -1, err
	}
	return open()
}

// makeMountPoint makes the mount point for a clone, or the symbolic link, in a directory of the
// session. If over is set, the clone may be mounted over an existing file.
func makeMountPoint(dir int, name string, c detachedMount, around plan.MountKind, over bool) error {
	kind := uint32(unix.S_IFLNK)
	if c.fd >= 0 {
		var clone unix.Statx_t // not Stat, which would query network filesystems
		if err := unix.Statx(c.fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE, &clone); err != nil {
			return err
		}
		if kind = unix.S_IFREG; clone.Mode&unix.S_IFMT == unix.S_IFDIR {
			kind = unix.S_IFDIR
		}
	}
	var st unix.Stat_t
	err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case err != nil && err != unix.ENOENT, err != nil && !around.IsEmptyDir():
		return err
	case err == nil && kind != unix.S_IFLNK && st.Mode&unix.S_IFMT == kind && (over || !around.IsEmptyDir()):
		return nil
	case err == nil && !around.IsEmptyDir():
		return unix.EEXIST
	}
	return withWritableDir(dir, around, func(at int) error {
		if err == nil {
			if err := removeEmpty(at, name); err != nil {
				return err
			}
		}
		switch kind {
		case unix.S_IFLNK:
			return unix.Symlinkat(string(c.Source), at, name)
		case unix.S_IFDIR:
			return unix.Mkdirat(at, name, 0o755)
		}
		fd, err := unix.Openat(at, name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
		if err == nil {
			unix.Close(fd)
		}
		return err
	})
}

// removeEmpty removes an empty mount point, or a link. Files and directories with content belong to
// the session.
func removeEmpty(dir int, name string) error {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	switch mode := st.Mode & unix.S_IFMT; {
	case mode == unix.S_IFDIR:
		return unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
	case mode != unix.S_IFLNK && st.Size > 0:
		return unix.EEXIST
	}
	return unix.Unlinkat(dir, name, 0)
}

// withWritableDir calls do in a directory of the session. A ReadOnlyParent is read-only where the
// session sees it, but not in a clone of its mount. It is a tmpfs, which distinguishes it from any
// directory of the machine.
func withWritableDir(dir int, around plan.MountKind, do func(at int) error) error {
	err := do(dir)
	if err != unix.EROFS || around != plan.ReadOnlyParent {
		return err
	}
	var fs unix.Statfs_t
	if e := unix.Fstatfs(dir, &fs); e != nil || fs.Type != unix.TMPFS_MAGIC {
		return err
	}
	own, e := unix.OpenTree(dir, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	if e != nil {
		return e
	}
	defer unix.Close(own)
	if e := makeWritable(own); e != nil {
		return e
	}
	return do(own)
}

// makeWritable makes a clone of a read-only mount writable.
func makeWritable(fd int) error {
	return unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY})
}

// mountAttributes returns the attributes of a mount. When a worker starts, a ReadOnlyParent becomes
// read-only only after it was filled.
func mountAttributes(k plan.MountKind, filled bool) uint64 {
	set := uint64(unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV)
	switch {
	case k == plan.ReadOnlyBind, k == plan.GuardedFile, k == plan.ReplacedFile, k == plan.GrantableBind, k == plan.ReadOnlyParent && filled:
		set |= unix.MOUNT_ATTR_RDONLY
	case k == plan.MaskedPath:
		set |= unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOEXEC
	}
	return set
}
