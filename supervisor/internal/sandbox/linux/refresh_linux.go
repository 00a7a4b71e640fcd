package linux

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/mountlist"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/plan"
)

// Refresh applies what programs outside have changed. It protects the paths that git settings lead
// to now, mounts the new files, and removes mounts whose files are gone. It returns when that is
// done. The notices are for the user of the session.
func (sb *ActiveSandbox) Refresh(changed *plan.MountGrant) (notices []string) {
	sb.GuardMore(nil, changed.GitTargets)
	sb.HideMore(changed.Unreadable)
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
	r.runSteps(func() { r.checkStep("mounts", "", unix.Setns(sb.MountNS, unix.CLONE_NEWNS)) })
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
	r.checkStep("mounts", "", unix.Setns(r.sandbox.MountNS, unix.CLONE_NEWNS))
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
func (r *mountRefresh) cloneMount(m mountlist.Mount) {
	path := string(m.Path)
	fd, err := -1, error(nil)
	switch m.Kind {
	case mountlist.SymbolicLink:
	case mountlist.OverlayMount:
		if fd, err = r.layerOf(m); err != nil {
			r.notices = append(r.notices, fmt.Sprintf("%s was replaced by a program outside the sandbox; until a reset, this session only reads the new one, because its filesystem does not allow overlays (%v)", path, err))
			m.Kind = mountlist.GrantableBind
			fd, err = clonePlanPath(path)
		}
	case mountlist.ReadOnlyParent:
		fd, err = newFilesystem("tmpfs", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV, [2]string{"mode", "0755"}, [2]string{"size", maxParentDirSize})
	default:
		from := path
		switch m.Kind {
		case mountlist.ReplacedFile:
			from = string(m.Source)
		case mountlist.WritableParent:
			from = r.makeStateDir(r.store, mountlist.BoundedName("built", path), 0o700)
		case mountlist.MaskedPath:
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

// layerOf creates an overlay over one directory. Files that the session has written there are kept.
func (r *mountRefresh) layerOf(m mountlist.Mount) (int, error) {
	below, err := filepath.Rel(string(m.Source), string(m.Path))
	if err != nil {
		return -1, err
	}
	name := mountlist.BoundedName("layer", string(m.Source))
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
	r.sandbox.ForgetMount(path)
	if around := r.sandbox.KindAbove(path); around.IsEmptyDir() {
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
	own := c.Kind == mountlist.ReadOnlyParent || c.Kind == mountlist.WritableParent
	if own && isMounted(dir, name) {
		return // the session's directory exists already, with its mounts
	}
	over := c.Kind != mountlist.MaskedPath && !own && // a masked file must not be visible even for a moment
		unix.Unmount(name, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW) == nil
	if makeMountPoint(dir, name, c, r.sandbox.KindAbove(path), over) != nil {
		return
	}
	if c.fd < 0 || unix.MoveMount(c.fd, "", dir, name, unix.MOVE_MOUNT_F_EMPTY_PATH) == nil {
		r.sandbox.AddProtected(nil, []mountlist.Mount{c.Mount})
	}
}

// openMountParent opens the parent directory of a mount.
func (r *mountRefresh) openMountParent(path string) (int, error) {
	return openParentDir(path, r.sandbox.KindAbove, false)
}
