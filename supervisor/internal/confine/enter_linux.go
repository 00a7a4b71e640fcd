package confine

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
)

// Attributes make a new process the first one of a pid namespace. It also gets a user
// namespace, in which it has these rights and keeps its user's number.
func Attributes(a *syscall.SysProcAttr) {
	a.Cloneflags |= unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS
	a.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
	a.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
	a.AmbientCaps = []uintptr{
		unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SETPCAP,
		unix.CAP_SYS_CHROOT,                                    // Grant enters the worker's mounts
		unix.CAP_SYS_RESOURCE,                                  // it bounds what the kernel counts for a user namespace
		unix.CAP_SYS_PTRACE,                                    // Serve takes sockets from programs that may not be traced
		unix.CAP_NET_BIND_SERVICE,                              // it answers at the ports of other machines
		unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_CHOWN, // overlays need them for their own directories
	}
}

// A Box is a sandbox that a thread has entered.
type Box struct {
	plan      *Plan
	store     string // the directory for temporary files and layers
	notices   []string
	root      int        // the root directory of the worker
	proc      int        // the /proc of the worker
	files     int        // the open files of the stage, by number: a name in it is read faster than by its path
	sockets   int        // asks the kernel about the sockets of the session's network
	asking    sync.Mutex // guards sockets
	calls     int        // where the filter reports the calls that we make for the worker
	mounts    int        // the mount namespace of the worker
	ipc       int        // the namespace of what its session shares by number
	bounded   int        // the directory store, if it is a filesystem of its own
	names     int        // where the session asks about names, if it has a way out
	out       *wayOut
	clones    []clone
	refreshed atomic.Uint64 // layers that were made for a running worker
	failed    *StepError    // the first step that failed

	service
}

// A clone is a mount that has no place yet.
type clone struct {
	Place
	fd int
}

// Notices are facts that a user of the session should know.
func (b *Box) Notices() []string { return b.notices }

// Enter confines the calling thread and all processes that it starts. The thread must stay
// locked to its goroutine. The order matters. First Enter clones what stays writable, while
// the machine still is. Then it makes the machine read-only in one call. Last, it mounts the
// clones in their places.
func Enter(p *Plan) (*Box, error) {
	b := &Box{plan: p, store: string(p.State), root: -1, proc: -1, files: -1, sockets: -1, calls: -1, mounts: -1, ipc: -1, bounded: -1}
	b.step("dumpable", "", unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)) // the worker must not look into the stage
	b.openOwn()                                                          // on a mount that is not made read-only
	b.step("namespaces", "", b.unshare())
	b.do(b.boundDisk)
	b.do(b.makeClones)
	b.step("read-only", "/", setAttributes(unix.AT_FDCWD, "/", unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV))
	b.do(b.takePlaces)
	b.do(b.devices)
	b.do(b.processes)
	b.do(b.network)
	b.step("rights", "", dropRights())
	if b.failed == nil {
		var err error
		b.calls, err = installFilter(p)
		b.step("filter", "", err)
	}
	if b.failed != nil {
		return nil, b.failed
	}
	return b, nil
}

// step notes a failed step. Only the first failure counts.
func (b *Box) step(name, path string, err error) {
	if err != nil && b.failed == nil {
		b.failed = &StepError{Step: name, Path: path, Err: err}
	}
}

// do takes several steps, unless one before has failed.
func (b *Box) do(steps func()) {
	if b.failed == nil {
		steps()
	}
}

func (b *Box) unshare() error {
	flags := unix.CLONE_NEWNS | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
	if !b.plan.Network {
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

func cloneOf(path string) (int, error) {
	return unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
}

func moveTo(fd int, path string) error {
	return unix.MoveMount(fd, "", unix.AT_FDCWD, path, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// as calls do with a path of a plan. The path has no symbolic links. Another session that
// writes the same workspace may have put one there since, which leads to something else.
func as(path string, do func(fd int) error) error {
	fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return do(fd)
}

// cloneOfPlace clones the mount at a path of a plan.
func cloneOfPlace(path string) (clone int, err error) {
	err = as(path, func(fd int) (err error) {
		clone, err = unix.OpenTree(fd, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE|unix.AT_EMPTY_PATH)
		return err
	})
	return clone, err
}

// moveToPlace mounts a clone at a path of a plan.
func moveToPlace(fd int, path string) error {
	return as(path, func(at int) error {
		return unix.MoveMount(fd, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
	})
}

// filesystem makes a filesystem that is not mounted yet.
func filesystem(kind string, attributes int, options ...[2]string) (int, error) {
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

// boundDisk puts what the session keeps into a filesystem of its own, if that is bounded. No other
// filesystem can be made without rights.
func (b *Box) boundDisk() {
	if b.plan.Disk == 0 {
		return
	}
	b.store = filepath.Join(string(b.plan.State), "bounded")
	b.step("disk", b.store, os.MkdirAll(b.store, 0o700))
	fd, err := filesystem("tmpfs", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV, [2]string{"mode", "0700"}, [2]string{"size", strconv.FormatInt(b.plan.Disk, 10)})
	b.step("disk", b.store, err)
	if err == nil {
		b.step("disk", b.store, moveTo(fd, b.store))
		unix.Close(fd)
		b.bounded, err = unix.Open(b.store, unix.O_PATH|unix.O_CLOEXEC, 0) // later something is mounted above it
		b.step("disk", b.store, err)
	}
}

// copyDirectories makes the directories that one has in another.
func copyDirectories(from, to string) error {
	entries, err := os.ReadDir(from)
	for _, e := range entries {
		if e.IsDir() {
			err = errors.Join(err, os.MkdirAll(filepath.Join(to, e.Name()), 0o700))
		}
	}
	return err
}

// makeClones clones the mounts for all places.
func (b *Box) makeClones() {
	state := func(name string, mode fs.FileMode) string { return b.stateDir(b.store, name, mode) }
	b.stateDir(string(b.plan.State), "hidden", 0) // nothingAt names them
	mask := filepath.Join(string(b.plan.State), "hidden-file")
	if f, err := os.OpenFile(mask, os.O_CREATE|os.O_RDONLY, 0); err == nil {
		f.Close()
	} else if !errors.Is(err, fs.ErrPermission) { // it exists, and nobody may open it
		b.step("state", mask, err)
	}
	overlays := b.overlays(state)
	computing := slices.ContainsFunc(devicesOf("/dev"), looksAtOpener) // the guard does not hold alone then, see computes
	for _, place := range b.plan.Places {
		if b.failed != nil {
			return
		}
		path, from := string(place.Path), string(place.Path)
		switch place.Kind {
		case guarded:
			if !computing {
				continue
			}
		case hidden:
			from = b.nothingAt(path)
		case writable:
			if b.plan.Disk > 0 && inside(path, string(b.plan.State)) {
				from = state("own", 0o700)
				b.step("state", path, copyDirectories(path, from))
			}
		case private:
			from = state(nameOf("tmp", path), 0o777)
		case built:
			from = state(nameOf("built", path), 0o700)
		case linked:
			b.clones = append(b.clones, clone{place, -1})
			continue
		case covered: // hundreds of names are made there, in memory in microseconds
			fd, err := filesystem("tmpfs", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV, [2]string{"mode", "0755"}, [2]string{"size", coveredSize})
			b.step("clone", path, err)
			b.clones = append(b.clones, clone{place, fd})
			continue
		case replaced:
			from = string(place.From)
		case layer:
			above, ok := overlays[string(place.From)]
			if below, err := filepath.Rel(string(place.From), path); ok && err == nil {
				from = filepath.Join(above, below)
			} else { // a notice says so
				place.Kind = readable
			}
		}
		fd, err := cloneOfPlace(from)
		if place.mayGo() && (errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ELOOP)) {
			continue // somebody has removed it since the plan was made, or put a link in its place
		}
		b.step("clone", path, err)
		b.clones = append(b.clones, clone{place, fd})
	}
	for _, above := range overlays {
		b.step("overlay", above, unix.Unmount(above, unix.MNT_DETACH))
	}
}

// nothingAt returns what is mounted over a path that is hidden.
func (b *Box) nothingAt(path string) string {
	name := "hidden-file"
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		name = "hidden"
	}
	return filepath.Join(string(b.plan.State), name)
}

// stateDir makes a directory of the sandbox's own in another.
func (b *Box) stateDir(in, name string, mode fs.FileMode) string {
	dir := filepath.Join(in, name)
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = os.Chmod(dir, mode|fs.ModeSticky*fs.FileMode(b2i(mode == 0o777)))
	}
	b.step("state", dir, err)
	return dir
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// overlays mounts one overlay for each directory that layers cover, until the layers are
// cloned. It returns the overlays' paths. If a filesystem cannot have an overlay, its layers
// stay read-only.
func (b *Box) overlays(state func(string, fs.FileMode) string) map[string]string {
	mounted := map[string]string{}
	refused := map[string]bool{}
	for _, place := range b.plan.Places {
		from := string(place.From)
		if place.Kind != layer || mounted[from] != "" || refused[from] || b.failed != nil {
			continue
		}
		name := nameOf("layer", from)
		upper, work, at := state(name+"/upper", 0o700), state(name+"/work", 0o700), state(name+"/all", 0o700)
		fd, err := overlay(from, upper, work)
		if err == nil {
			err = moveTo(fd, at)
			unix.Close(fd)
		}
		if err != nil {
			refused[from] = true
			b.notices = append(b.notices, fmt.Sprintf("caches and libraries in %s are read-only for this session: its filesystem does not allow overlays (%v)", from, err))
			continue
		}
		mounted[from] = at
	}
	return mounted
}

// overlay makes an overlay that is not mounted yet.
func overlay(lower, upper, work string) (int, error) {
	return filesystem("overlay", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV,
		[2]string{"lowerdir", overlayName(lower)}, [2]string{"upperdir", overlayName(upper)}, [2]string{"workdir", overlayName(work)}, [2]string{"userxattr", ""})
}

// overlayName escapes a path for the options of an overlay.
func overlayName(path string) string {
	var b []byte
	for i := range len(path) {
		if path[i] == ':' || path[i] == '\\' || path[i] == ',' {
			b = append(b, '\\')
		}
		b = append(b, path[i])
	}
	return string(b)
}

// takePlaces mounts the clones. When a new directory covers one of the machine's, it first
// makes the places below.
func (b *Box) takePlaces() {
	kinds := map[string]Kind{}
	for _, place := range b.plan.Places {
		kinds[string(place.Path)] = place.Kind
	}
	around := func(path string) Kind { return kindAround(kinds, path) }
	for _, c := range b.clones {
		if b.failed != nil {
			return
		}
		b.takePlace(c, around)
		if c.fd >= 0 {
			unix.Close(c.fd)
		}
	}
	for _, c := range b.clones {
		if c.Kind == covered && b.failed == nil {
			// Mounts below it keep their flags.
			b.step("place", string(c.Path), unix.MountSetattr(unix.AT_FDCWD, string(c.Path), 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}))
		}
	}
}

func (b *Box) takePlace(c clone, around func(string) Kind) {
	path := string(c.Path)
	if own := around(path); own.isEmpty() {
		dir, err := openAbove(path, around, true)
		if err == nil {
			err = makePoint(dir, filepath.Base(path), c, own, true)
			unix.Close(dir)
		}
		if err != nil && own == built {
			return // an earlier worker of the session has made something else there
		}
		b.step("place", path, err)
	} else if own == layer && c.Kind == replaced && !isFile(path) {
		return // an earlier worker of the session has made something else there
	} else {
		b.step("place", path, ensure(c.fd, path))
	}
	if c.fd >= 0 && b.failed == nil {
		b.step("place", path, setAttributes(c.fd, "", attributesOf(c.Kind, false)))
		err := moveToPlace(c.fd, path)
		if c.mayGo() && around(path).isEmpty() && errors.Is(err, unix.ENOENT) {
			return // somebody has removed it since it was cloned; the next look takes its name away
		}
		b.step("place", path, err)
	}
}

// isFile reports whether a path of a plan is one of a file, without links. It is not where a name in it is another
// thing, or gone; errors of another kind show when something is mounted there.
func isFile(path string) bool {
	isFile := true
	err := as(path, func(fd int) error {
		var st unix.Stat_t
		isFile = unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT == unix.S_IFREG
		return nil
	})
	return isFile && !errors.Is(err, unix.ELOOP) && !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, unix.ENOENT)
}

// mayGo reports whether a sandbox holds without a place, because that only shows what the machine has.
func (p Place) mayGo() bool { return p.Kind == readable || p.Kind == layer }

// coveredSize bounds a directory that has only places below it. The session writes nothing there.
const coveredSize = "4m"

// ensure makes a mount point for fd if there is none.
func ensure(fd int, path string) error {
	if _, err := os.Lstat(path); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return os.MkdirAll(path, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, nil, 0o600)
}

// dropRights removes all rights of the thread. Processes that it starts cannot get them back.
func dropRights() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	for c := uintptr(0); ; c++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if err == unix.EINVAL && c > unix.CAP_WAKE_ALARM { // the kernel knows no higher capability
			break
		}
		if err != nil {
			return err
		}
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	var none [2]unix.CapUserData
	return unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0])
}
