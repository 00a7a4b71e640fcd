package linux

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A session gets these devices of the machine: those without data of other users, and compute
// devices such as GPUs.
var (
	deviceNames     = []string{"null", "zero", "full", "random", "urandom", "tty"}
	optionalDevices = []string{"dri", "kfd", "nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset", "nvidia-caps", "accel", "dxg"}
	devicePatterns  = []string{"nvidia[0-9]*"}
)

// devicesOf returns the names of the devices in a directory that a session gets.
func devicesOf(dir string) []string {
	names := slices.Clone(deviceNames)
	optional := slices.Clone(optionalDevices)
	for _, pattern := range devicePatterns {
		paths, _ := filepath.Glob(filepath.Join(dir, pattern))
		for _, p := range paths {
			optional = append(optional, filepath.Base(p))
		}
	}
	for _, n := range optional {
		if _, err := os.Stat(filepath.Join(dir, n)); err == nil {
			names = append(names, n)
		}
	}
	return names
}

// mountDev mounts a /dev for the session, with its own terminals and shared memory.
func (sb *ActiveSandbox) mountDev() {
	type device struct {
		name string
		fd   int
	}
	var found []device
	take := func(name, from string) {
		fd, err := cloneTree(from)
		sb.checkStep("device", from, err)
		if err == nil { // Enter has made all mounts nodev, this clone included
			sb.checkStep("device", from, unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_NODEV}))
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
		if sb.firstError != nil {
			return
		}
		fd, err := newFilesystem(kind, attributes, options...)
		sb.checkStep("device", at, err)
		if err == nil {
			sb.checkStep("device", at, moveMount(fd, at))
			unix.Close(fd)
		}
	}
	mount("tmpfs", "/dev", unix.MOUNT_ATTR_NOSUID, [2]string{"mode", "0755"}, [2]string{"size", "1m"})
	for _, d := range found {
		if sb.firstError == nil {
			at := "/dev/" + d.name
			sb.checkStep("device", at, ensureMountPoint(d.fd, at))
			sb.checkStep("device", at, moveMount(d.fd, at))
		}
		unix.Close(d.fd)
	}
	for name, to := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx"} {
		sb.checkStep("device", "/dev/"+name, os.Symlink(to, "/dev/"+name))
	}
	for _, dir := range []string{"/dev/pts", "/dev/shm"} {
		sb.checkStep("device", dir, os.Mkdir(dir, 0o755))
	}
	mount("devpts", "/dev/pts", unix.MOUNT_ATTR_NOSUID, [2]string{"newinstance", ""}, [2]string{"ptmxmode", "0666"}, [2]string{"mode", "620"}, [2]string{"max", maxTerminals})
	shared := [][2]string{{"mode", "1777"}}
	if sb.plan.Shared > 0 {
		shared = append(shared, [2]string{"size", strconv.FormatInt(sb.plan.Shared, 10)})
	}
	mount("tmpfs", "/dev/shm", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV, shared...)
	sb.checkStep("device", "/dev", unix.MountSetattr(unix.AT_FDCWD, "/dev", 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}))
	if terminal && sb.firstError == nil {
		sb.checkStep("device", "/dev/console", reopenTerminal())
	}
}

// reopenTerminal opens the terminal by its name in the sandbox. So the links of /proc and ttyname
// agree on a path that can be opened.
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

// mountProc mounts a /proc that shows only the session's processes. Its files about the kernel are
// read-only; otherwise root could write them even without capabilities.
func (sb *ActiveSandbox) mountProc() {
	sb.checkStep("proc", "/proc", unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""))
	sb.runSteps(limitInotify) // before /proc/sys becomes read-only
	for _, n := range []string{"sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi"} {
		path := "/proc/" + n
		if _, err := os.Lstat(path); err != nil || sb.firstError != nil {
			continue
		}
		fd, err := cloneTree(path)
		sb.checkStep("proc", path, err)
		if err == nil {
			sb.checkStep("proc", path, setAttributes(fd, "", unix.MOUNT_ATTR_RDONLY))
			sb.checkStep("proc", path, moveMount(fd, path))
			unix.Close(fd)
		}
	}
	for _, path := range []string{"/proc/keys", "/proc/key-users"} { // these list keys of all programs of the user
		if _, err := os.Lstat(path); err != nil || sb.firstError != nil {
			continue
		}
		fd, err := cloneTree("/dev/null")
		sb.checkStep("proc", path, err)
		if err == nil {
			sb.checkStep("proc", path, moveMount(fd, path))
			unix.Close(fd)
		}
	}
	var err error
	sb.SelfFilesFD, err = unix.Open("/proc/self/fd", unix.O_PATH|unix.O_CLOEXEC, 0)
	sb.checkStep("proc", "/proc", err)
	sb.ProcFD, err = unix.Open("/proc", unix.O_PATH|unix.O_CLOEXEC, 0)
	sb.checkStep("proc", "/proc", err)
	sb.MountNS, err = unix.Open("/proc/thread-self/ns/mnt", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	sb.checkStep("proc", "/proc", err)
	sb.IPCNS, err = unix.Open("/proc/thread-self/ns/ipc", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	sb.checkStep("proc", "/proc", err)
	sb.RootFD, err = unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
	sb.checkStep("proc", "/", err)
}
