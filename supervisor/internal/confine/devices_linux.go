package confine

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A session gets these devices of the machine: those without other users' data, and those that
// compute.
var (
	deviceNames    = []string{"null", "zero", "full", "random", "urandom", "tty"}
	deviceMayBe    = []string{"dri", "kfd", "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset", "nvidia-caps", "accel", "dxg"}
	devicePatterns = []string{"nvidia[0-9]*"}
)

// devicesOf returns the names of the devices in a directory that a session gets.
func devicesOf(dir string) []string {
	names := slices.Clone(deviceNames)
	may := slices.Clone(deviceMayBe)
	for _, pattern := range devicePatterns {
		paths, _ := filepath.Glob(filepath.Join(dir, pattern))
		for _, p := range paths {
			may = append(may, filepath.Base(p))
		}
	}
	for _, n := range may {
		if _, err := os.Stat(filepath.Join(dir, n)); err == nil {
			names = append(names, n)
		}
	}
	return names
}

// computes reports whether an open names a device that computes, and must be opened by its program.
func computes(n *notification, f *fileCall, file string) bool {
	if f.flags < 0 || n.Data.Args[f.flags]&unix.O_CREAT != 0 || f.opensToRead(n) {
		return false
	}
	name, in := strings.CutPrefix(file, "/dev/")
	if !in {
		return false
	}
	first, _, _ := strings.Cut(name, "/")
	return looksAtOpener(first) && exists("/dev/"+first) // else a second thread could put another path there
}

// looksAtOpener reports whether the driver of a device looks at the program that opens it.
func looksAtOpener(name string) bool {
	return name == "kfd" || name == "dxg" || strings.HasPrefix(name, "nvidia")
}

// devices mounts a /dev for the session, with terminals and shared memory of its own.
func (b *Box) devices() {
	type device struct {
		name string
		fd   int
	}
	var found []device
	take := func(name, from string) {
		fd, err := cloneOf(from)
		b.step("device", from, err)
		if err == nil { // Enter has made all of the machine nodev, also this clone
			b.step("device", from, unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_NODEV}))
		}
		found = append(found, device{name, fd})
	}
	for _, n := range devicesOf("/dev") {
		take(n, "/dev/"+n)
	}
	name, err := os.Readlink("/proc/self/fd/0")
	terminal := err == nil && strings.HasPrefix(name, "/dev/pts/")
	if terminal {
		take("console", name) // the session's terminal, under the name that ttyname looks for
	}
	mount := func(kind, at string, attributes int, options ...[2]string) {
		if b.failed != nil {
			return
		}
		fd, err := filesystem(kind, attributes, options...)
		b.step("device", at, err)
		if err == nil {
			b.step("device", at, moveTo(fd, at))
			unix.Close(fd)
		}
	}
	mount("tmpfs", "/dev", unix.MOUNT_ATTR_NOSUID, [2]string{"mode", "0755"}, [2]string{"size", "1m"})
	for _, d := range found {
		if b.failed == nil {
			at := "/dev/" + d.name
			b.step("device", at, ensure(d.fd, at))
			b.step("device", at, moveTo(d.fd, at))
		}
		unix.Close(d.fd)
	}
	for name, to := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx"} {
		b.step("device", "/dev/"+name, os.Symlink(to, "/dev/"+name))
	}
	for _, dir := range []string{"/dev/pts", "/dev/shm"} {
		b.step("device", dir, os.Mkdir(dir, 0o755))
	}
	mount("devpts", "/dev/pts", unix.MOUNT_ATTR_NOSUID, [2]string{"newinstance", ""}, [2]string{"ptmxmode", "0666"}, [2]string{"mode", "620"}, [2]string{"max", maxTerminals})
	shared := [][2]string{{"mode", "1777"}}
	if b.plan.Shared > 0 {
		shared = append(shared, [2]string{"size", strconv.FormatInt(b.plan.Shared, 10)})
	}
	mount("tmpfs", "/dev/shm", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV, shared...)
	b.step("device", "/dev", unix.MountSetattr(unix.AT_FDCWD, "/dev", 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}))
	if terminal && b.failed == nil {
		b.step("device", "/dev/console", reopenTerminal())
	}
}

// reopenTerminal opens the terminal by its name in the sandbox, so that the links of /proc and
// ttyname agree on a path that can be opened.
func reopenTerminal() error {
	fd, err := unix.Open("/dev/console", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for to := range 3 {
		if err := unix.Dup3(fd, to, 0); err != nil {
			return err
		}
	}
	return nil
}

// processes mounts a /proc with only the session's processes. Its files about the kernel are
// read-only. Otherwise root could write to them even without capabilities.
func (b *Box) processes() {
	b.step("proc", "/proc", unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""))
	b.do(boundWatches) // before the next lines make that read-only
	for _, n := range []string{"sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi"} {
		path := "/proc/" + n
		if _, err := os.Lstat(path); err != nil || b.failed != nil {
			continue
		}
		fd, err := cloneOf(path)
		b.step("proc", path, err)
		if err == nil {
			b.step("proc", path, setAttributes(fd, "", unix.MOUNT_ATTR_RDONLY))
			b.step("proc", path, moveTo(fd, path))
			unix.Close(fd)
		}
	}
	for _, path := range []string{"/proc/keys", "/proc/key-users"} { // of all programs of the user
		if _, err := os.Lstat(path); err != nil || b.failed != nil {
			continue
		}
		fd, err := cloneOf("/dev/null")
		b.step("proc", path, err)
		if err == nil {
			b.step("proc", path, moveTo(fd, path))
			unix.Close(fd)
		}
	}
	var err error
	b.files, err = unix.Open("/proc/self/fd", unix.O_PATH|unix.O_CLOEXEC, 0)
	b.step("proc", "/proc", err)
	b.proc, err = unix.Open("/proc", unix.O_PATH|unix.O_CLOEXEC, 0)
	b.step("proc", "/proc", err)
	b.mounts, err = unix.Open("/proc/thread-self/ns/mnt", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	b.step("proc", "/proc", err)
	b.ipc, err = unix.Open("/proc/thread-self/ns/ipc", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	b.step("proc", "/proc", err)
	b.root, err = unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
	b.step("proc", "/", err)
}
