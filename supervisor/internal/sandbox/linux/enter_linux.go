package linux

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/internal/paths"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/broker"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/mountlist"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/nameguard"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/plan"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/seccomp"
)

// SetNamespaces makes a new process the first one of a pid namespace. It also gets a user
// namespace, in which it has the listed capabilities and keeps its user ID.
func SetNamespaces(a *syscall.SysProcAttr) {
	a.Cloneflags |= unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS
	a.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
	a.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
	a.AmbientCaps = []uintptr{
		unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SETPCAP,
		unix.CAP_SYS_CHROOT,                                    // Grant enters the worker's mounts
		unix.CAP_SYS_RESOURCE,                                  // Enter sets limits of a user namespace
		unix.CAP_SYS_PTRACE,                                    // Serve copies sockets of programs that may not be traced
		unix.CAP_NET_BIND_SERVICE,                              // Serve listens on the ports of remote hosts
		unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_CHOWN, // overlays need them for their own directories
	}
}

// An ActiveSandbox is the sandbox that a thread has entered, with everything that the monitor needs
// to serve its calls.
type ActiveSandbox struct {
	*broker.Broker
	plan       *plan.Plan
	store      string // the directory for temporary files and overlays
	notices    []string
	storeMount int // the directory store, if it is a separate filesystem
	detached   []detachedMount
	layerCount atomic.Uint64   // overlays made while the worker runs
	grantMu    sync.Mutex      // held while a grant or refresh is applied
	firstError *plan.StepError // the first step that failed
}

// A detachedMount is a mount of a plan that is not attached anywhere yet.
type detachedMount struct {
	mountlist.Mount
	fd int
}

// Notices returns facts that the user of the session should know.
func (sb *ActiveSandbox) Notices() []string { return sb.notices }

// Enter confines the calling thread and all processes that it starts. The thread must stay locked
// to its goroutine.
//
// The order matters. First, Enter clones the directories that stay writable, while the whole
// machine is still writable. Then it makes the machine read-only in one call. Last, it attaches the
// clones.
func Enter(p *plan.Plan) (*ActiveSandbox, error) {
	b := &ActiveSandbox{Broker: broker.New(p), plan: p, store: string(p.State), storeMount: -1}
	b.checkStep("dumpable", "", unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)) // the worker must not inspect the monitor
	b.LoadOwnRepos(string(p.State))                                           // while its file is still writable
	b.checkStep("namespaces", "", b.unshareNamespaces())
	b.runSteps(b.limitDisk)
	b.runSteps(b.cloneMounts)
	b.checkStep("read-only", "/", setAttributes(unix.AT_FDCWD, "/", unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV))
	b.runSteps(b.attachMounts)
	b.runSteps(b.mountDev)
	b.runSteps(b.mountProc)
	b.runSteps(b.setUpNetwork)
	b.checkStep("rights", "", dropRights())
	if b.firstError == nil {
		var err error
		b.NotifyFD, err = seccomp.InstallFilter(len(p.Unreadable) > 0, broker.ReportedObjectCalls(p))
		b.checkStep("filter", "", err)
	}
	if b.firstError != nil {
		return nil, b.firstError
	}
	return b, nil
}

// checkStep records a failed step. Only the first failure is kept.
func (sb *ActiveSandbox) checkStep(name, path string, err error) {
	if err != nil && sb.firstError == nil {
		sb.firstError = &plan.StepError{Step: name, Path: path, Err: err}
	}
}

// runSteps runs steps, unless an earlier step has failed.
func (sb *ActiveSandbox) runSteps(steps func()) {
	if sb.firstError == nil {
		steps()
	}
}

func (sb *ActiveSandbox) unshareNamespaces() error {
	flags := unix.CLONE_NEWNS | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
	if !sb.plan.Network {
		flags |= unix.CLONE_NEWNET
	}
	if err := unix.Unshare(flags); err != nil {
		return err
	}
	return unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
}

func setAttributes(dir int, path string, set uint64) error {
	flags := uint(unix.AT_RECURSIVE)
	if path == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	return unix.MountSetattr(dir, path, flags, &unix.MountAttr{Attr_set: set})
}

func cloneTree(path string) (int, error) {
	return unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
}

func moveMount(fd int, path string) error {
	return unix.MoveMount(fd, "", unix.AT_FDCWD, path, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// withPlanPath calls do with a path of a plan, which has no symbolic links. Another session that
// writes the same workspace may have put one there since, which leads elsewhere.
func withPlanPath(path string, do func(fd int) error) error {
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return do(fd)
}

// clonePlanPath clones the mount at a path of a plan.
func clonePlanPath(path string) (clone int, err error) {
	err = withPlanPath(path, func(fd int) (err error) {
		clone, err = unix.OpenTree(fd, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE|unix.AT_EMPTY_PATH)
		return err
	})
	return clone, err
}

// mountAtPlanPath attaches a clone at a path of a plan.
func mountAtPlanPath(fd int, path string) error {
	return withPlanPath(path, func(at int) error {
		return unix.MoveMount(fd, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
	})
}

// newFilesystem creates a filesystem that is not mounted yet.
func newFilesystem(kind string, attributes int, options ...[2]string) (int, error) {
	fd, err := unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer unix.Close(fd)
	for _, o := range options {
		if o[1] == "" {
			err = unix.FsconfigSetFlag(fd, o[0])
		} else {
			err = unix.FsconfigSetString(fd, o[0], o[1])
		}
		if err != nil {
			return -1, err
		}
	}
	if err := unix.FsconfigCreate(fd); err != nil {
		return -1, err
	}
	return unix.Fsmount(fd, unix.FSMOUNT_CLOEXEC, attributes)
}

// limitDisk puts the session's files into a tmpfs of limited size, if the plan limits them. Other
// filesystems cannot be created without privileges.
//
// A tmpfs has a price: the session's files are in memory, in addition to its memory limit. Before
// Linux 6.6 a tmpfs cannot hold an overlay, so caches are read-only there. RLIMIT_FSIZE bounds each
// file that is elsewhere; it cannot bound many files together.
//
// A project quota was rejected, because it needs an administrator and a filesystem with quotas. An
// image in a file was rejected, because only root may mount it. Measuring the files again and again
// was rejected: with thousands of files it is slow, and it notices an excess too late.
func (sb *ActiveSandbox) limitDisk() {
	if sb.plan.Disk == 0 {
		return
	}
	sb.store = filepath.Join(string(sb.plan.State), "bounded")
	sb.checkStep("disk", sb.store, os.MkdirAll(sb.store, 0o700))
	fd, err := newFilesystem("tmpfs", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV, [2]string{"mode", "0700"}, [2]string{"size", strconv.FormatInt(sb.plan.Disk, 10)})
	sb.checkStep("disk", sb.store, err)
	if err == nil {
		sb.checkStep("disk", sb.store, moveMount(fd, sb.store))
		unix.Close(fd)
		sb.storeMount, err = unix.Open(sb.store, unix.O_PATH|unix.O_CLOEXEC, 0) // later another mount covers it
		sb.checkStep("disk", sb.store, err)
	}
}

// copyDirectories creates the directories of from in to.
func copyDirectories(from, to string) error {
	entries, err := os.ReadDir(from)
	for _, e := range entries {
		if e.IsDir() {
			err = errors.Join(err, os.MkdirAll(filepath.Join(to, e.Name()), 0o700))
		}
	}
	return err
}

// cloneMounts clones the source of each mount of the plan.
func (sb *ActiveSandbox) cloneMounts() {
	state := func(name string, mode fs.FileMode) string { return sb.makeStateDir(sb.store, name, mode) }
	sb.makeStateDir(string(sb.plan.State), "hidden", 0) // maskFor returns these paths
	mask := filepath.Join(string(sb.plan.State), "hidden-file")
	if f, err := os.OpenFile(mask, os.O_CREATE|os.O_RDONLY, 0); err == nil {
		f.Close()
	} else if !errors.Is(err, fs.ErrPermission) { // it exists and cannot be opened
		sb.checkStep("state", mask, err)
	}
	overlays := sb.mountOverlays(state)
	hasComputeDevice := slices.ContainsFunc(devicesOf("/dev"), broker.ChecksOpener) // a compute device can bypass the guard, see broker.ChecksOpener
	for _, m := range sb.plan.Mounts {
		if sb.firstError != nil {
			return
		}
		path, from := string(m.Path), string(m.Path)
		switch m.Kind {
		case mountlist.GuardedFile:
			if !hasComputeDevice {
				continue
			}
		case mountlist.MaskedPath:
			from = sb.maskFor(path)
		case mountlist.WritableBind:
			if sb.plan.Disk > 0 && paths.Contains(string(sb.plan.State), path) {
				from = state("own", 0o700)
				sb.checkStep("state", path, copyDirectories(path, from))
			}
		case mountlist.EmptyDir:
			from = state(mountlist.BoundedName("tmp", path), 0o777)
		case mountlist.WritableParent:
			from = state(mountlist.BoundedName("built", path), 0o700)
		case mountlist.SymbolicLink:
			sb.detached = append(sb.detached, detachedMount{m, -1})
			continue
		case mountlist.ReadOnlyParent: // hundreds of names are created there; in memory that takes microseconds
			fd, err := newFilesystem("tmpfs", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV, [2]string{"mode", "0755"}, [2]string{"size", maxParentDirSize})
			sb.checkStep("clone", path, err)
			sb.detached = append(sb.detached, detachedMount{m, fd})
			continue
		case mountlist.ReplacedFile:
			from = string(m.Source)
		case mountlist.OverlayMount:
			above, ok := overlays[string(m.Source)]
			if below, err := filepath.Rel(string(m.Source), path); ok && err == nil {
				from = filepath.Join(above, below)
			} else { // mountOverlays has added a notice
				m.Kind = mountlist.GrantableBind
			}
		}
		fd, err := clonePlanPath(from)
		if m.IsOptional() && (errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ELOOP)) {
			continue // it was removed or replaced by a link since the plan was created
		}
		sb.checkStep("clone", path, err)
		sb.detached = append(sb.detached, detachedMount{m, fd})
	}
	for _, above := range overlays {
		sb.checkStep("overlay", above, unix.Unmount(above, unix.MNT_DETACH))
	}
}

// maskFor returns the path that is mounted over a hidden path.
func (sb *ActiveSandbox) maskFor(path string) string {
	name := "hidden-file"
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		name = "hidden"
	}
	return filepath.Join(string(sb.plan.State), name)
}

// makeStateDir creates a directory for the sandbox's own use.
func (sb *ActiveSandbox) makeStateDir(in, name string, mode fs.FileMode) string {
	dir := filepath.Join(in, name)
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = os.Chmod(dir, mode|fs.ModeSticky*fs.FileMode(boolToInt(mode == 0o777)))
	}
	sb.checkStep("state", dir, err)
	return dir
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// mountOverlays mounts one overlay for each directory that overlays cover, until the mounts are
// cloned. It returns the paths of the overlays. If a filesystem does not support overlays, its
// directories stay read-only.
func (sb *ActiveSandbox) mountOverlays(state func(string, fs.FileMode) string) map[string]string {
	mounted := map[string]string{}
	refused := map[string]bool{}
	for _, m := range sb.plan.Mounts {
		from := string(m.Source)
		if m.Kind != mountlist.OverlayMount || mounted[from] != "" || refused[from] || sb.firstError != nil {
			continue
		}
		name := mountlist.BoundedName("layer", from)
		upper, work, at := state(name+"/upper", 0o700), state(name+"/work", 0o700), state(name+"/all", 0o700)
		fd, err := newOverlay(from, upper, work)
		if err == nil {
			err = moveMount(fd, at)
			unix.Close(fd)
		}
		if err != nil {
			refused[from] = true
			sb.notices = append(sb.notices, fmt.Sprintf("caches and libraries in %s are read-only for this session: its filesystem does not allow overlays (%v)", from, err))
			continue
		}
		mounted[from] = at
	}
	return mounted
}

// newOverlay creates an overlay that is not mounted yet.
func newOverlay(lower, upper, work string) (int, error) {
	return newFilesystem("overlay", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV,
		[2]string{"lowerdir", escapeOverlayPath(lower)}, [2]string{"upperdir", escapeOverlayPath(upper)}, [2]string{"workdir", escapeOverlayPath(work)}, [2]string{"userxattr", ""})
}

// escapeOverlayPath escapes a path for the options of an overlay.
func escapeOverlayPath(path string) string {
	var b []byte
	for i := range len(path) {
		if path[i] == ':' || path[i] == '\\' || path[i] == ',' {
			b = append(b, '\\')
		}
		b = append(b, path[i])
	}
	return string(b)
}

// attachMounts attaches the clones. In a new directory that covers one of the machine's, it first
// creates the mount points.
func (sb *ActiveSandbox) attachMounts() {
	kinds := map[string]mountlist.MountKind{}
	for _, m := range sb.plan.Mounts {
		kinds[string(m.Path)] = m.Kind
	}
	around := func(path string) mountlist.MountKind { return nameguard.NearestKind(kinds, path) }
	for _, c := range sb.detached {
		if sb.firstError != nil {
			return
		}
		sb.attachMount(c, around)
		if c.fd >= 0 {
			unix.Close(c.fd)
		}
	}
	for _, c := range sb.detached {
		if c.Kind == mountlist.ReadOnlyParent && sb.firstError == nil {
			// Mounts below it keep their flags.
			sb.checkStep("mount", string(c.Path), unix.MountSetattr(unix.AT_FDCWD, string(c.Path), 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}))
		}
	}
}

func (sb *ActiveSandbox) attachMount(c detachedMount, around func(string) mountlist.MountKind) {
	path := string(c.Path)
	if own := around(path); own.IsEmptyDir() {
		dir, err := openParentDir(path, around, true)
		if err == nil {
			err = makeMountPoint(dir, filepath.Base(path), c, own, true)
			unix.Close(dir)
		}
		if err != nil && own == mountlist.WritableParent {
			return // an earlier worker of the session has made something else there
		}
		sb.checkStep("mount", path, err)
	} else if own == mountlist.OverlayMount && c.Kind == mountlist.ReplacedFile && !isFile(path) {
		return // an earlier worker of the session has made something else there
	} else {
		sb.checkStep("mount", path, ensureMountPoint(c.fd, path))
	}
	if c.fd >= 0 && sb.firstError == nil {
		sb.checkStep("mount", path, setAttributes(c.fd, "", mountAttributes(c.Kind, false)))
		err := mountAtPlanPath(c.fd, path)
		if c.IsOptional() && around(path).IsEmptyDir() && errors.Is(err, unix.ENOENT) {
			return // it was removed since it was cloned; the next refresh removes its name
		}
		sb.checkStep("mount", path, err)
	}
}

// isFile reports whether a path of a plan is a regular file and has no links. It reports false if a
// part of the path is missing or of another kind; other errors show up when the mount is attached.
func isFile(path string) bool {
	regular := true
	err := withPlanPath(path, func(fd int) error {
		var st unix.Stat_t
		regular = unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT == unix.S_IFREG
		return nil
	})
	return regular && !errors.Is(err, unix.ELOOP) && !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, unix.ENOENT)
}

// maxParentDirSize bounds a directory that contains only mount points. The session writes nothing
// there.
const maxParentDirSize = "4m"
