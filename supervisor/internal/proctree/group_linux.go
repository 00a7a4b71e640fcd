package proctree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/turnstone-repl/turnstone/supervisor/internal/procinfo"
	"golang.org/x/sys/unix"
)

// A Cgroup is a control group (version 2) for a worker and all processes that it starts. The kernel
// counts memory in it that is not visible in any process, such as data buffered in sockets. The
// monitor stays outside, so that a full group neither kills nor blocks it. A nil *Cgroup means no group.
type Cgroup struct {
	workerDir      string // of the worker
	monitorDir     string // of its monitor
	hasMemoryFiles bool   // files of the session are in memory that its limit does not count
}

const (
	// leafGroupName names the group that this program moves to within a group delegated to it. The
	// move is needed because the kernel does not divide a group that has processes. systemd's
	// DelegateSubgroup may name it, too.
	leafGroupName = "supervisor"

	busctlPath     = "/usr/bin/busctl" // not from PATH, where code may have put another program
	managerTimeout = 3 * time.Second   // each start waits this long for a manager that hangs
	maxMoveRounds  = 100               // while processes keep starting others
)

var (
	errNoManager    = errors.New("the user's service manager does not answer")
	errNotDelegated = errors.New("this program has no control group of its own")
)

// NewCgroup creates the group of a worker whose monitor waits for its command, if a limit needs one. The
// error says why there is no group.
func NewCgroup(ctx context.Context, monitor int, tag string, l ProcessLimits, services string) (*Cgroup, error) {
	if l.Memory == 0 && l.Processes == 0 {
		return nil, nil
	}
	own, err := cgroupDir("self")
	if err != nil {
		return nil, err
	}
	above, home, err := delegatedGroup(own)
	if err != nil {
		if above, home, err = startScope(ctx, monitor, "turnstone-"+tag+".scope", services); err != nil {
			return nil, err
		}
	}
	g := &Cgroup{workerDir: filepath.Join(above, "worker-"+tag), monitorDir: home, hasMemoryFiles: l.Disk > 0}
	if err := os.Mkdir(g.workerDir, 0o755); err != nil {
		return nil, err
	}
	if err := g.setLimits(l); err != nil {
		g.RemoveDir()
		return nil, err
	}
	return g, nil
}

// setLimits sets the group's limits. At the memory limit, programs are killed. The runtime is
// refused memory before that, so that its language raises an error.
func (c *Cgroup) setLimits(l ProcessLimits) error {
	var err error
	if l.Memory > 0 {
		err = c.writeLimit("memory.max", HardMemoryLimit(l.Memory)+2*l.Disk)
		if swapErr := c.writeLimit("memory.swap.max", 0); !errors.Is(swapErr, os.ErrNotExist) { // not every kernel counts swap
			err = errors.Join(err, swapErr)
		}
	}
	if l.Processes > 0 {
		err = errors.Join(err, c.writeLimit("pids.max", int64(l.Processes)))
	}
	return err
}

func (c *Cgroup) writeLimit(name string, n int64) error {
	return writeKernelFile(filepath.Join(c.workerDir, name), strconv.FormatInt(n, 10))
}

// writeKernelFile writes to a kernel file in one call.
func writeKernelFile(name, text string) error {
	fd, err := unix.Open(name, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err == nil {
		defer unix.Close(fd)
		_, err = unix.Write(fd, []byte(text))
	}
	if err != nil {
		return &os.PathError{Op: "write", Path: name, Err: err}
	}
	return nil
}

// RemoveDir removes the group if it is empty. Its scope ends with the monitor.
func (c *Cgroup) RemoveDir() {
	if c != nil {
		_ = unix.Rmdir(c.workerDir)
	}
}

// MemoryBytes returns the bytes of memory that the group uses, the kernel's included, without those backed
// by a file on a disk.
func (c *Cgroup) MemoryBytes() (n int64, ok bool) {
	if c == nil || c.hasMemoryFiles {
		return 0, false
	}
	for line := range strings.Lines(procinfo.ReadFile(filepath.Join(c.workerDir, "memory.stat"))) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch name {
		case "anon", "shmem", "sock", "kernel_stack", "pagetables", "slab_unreclaimable":
			part, err := strconv.ParseInt(value, 10, 64)
			n, ok = n+part, err == nil
		}
	}
	return n, ok
}

// CountOOMKills returns how many processes of the group the kernel has killed for lack of memory.
func (c *Cgroup) CountOOMKills() int {
	if c == nil {
		return 0
	}
	n, _ := readOOMKills(memoryEventsFile(c.workerDir))
	return n
}

func memoryEventsFile(dir string) string { return filepath.Join(dir, "memory.events") }

// delegatedGroup divides the group of this program, if a manager or a container has delegated it and
// nothing else is in it. It returns the group where new ones can be created, and the group of this
// program and its monitors. Several programs may do this at the same time: each step may be repeated.
func delegatedGroup(dir string) (above, home string, err error) {
	if above = filepath.Dir(dir); filepath.Base(dir) == leafGroupName && enableControllers(above) == nil {
		return above, dir, nil
	}
	if !isDelegated(dir) {
		return "", "", errNotDelegated
	}
	home = filepath.Join(dir, leafGroupName)
	if err := os.Mkdir(home, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return "", "", err
	}
	if err := moveProcesses(dir, home); err != nil {
		_ = unix.Rmdir(home)
		return "", "", err
	}
	return dir, home, enableControllers(dir)
}

// isDelegated reports whether this program may divide a group. systemd marks those that it delegates,
// and the topmost one that a container sees is the container's.
func isDelegated(dir string) bool {
	var mark [1]byte
	n, err := unix.Getxattr(dir, "user.delegate", mark[:])
	delegated := err == nil && n == 1 && mark[0] == '1' || controllerPath(procinfo.ReadFile("/proc/self/cgroup"), "") == "/"
	controllers := strings.Fields(procinfo.ReadFile(filepath.Join(dir, "cgroup.controllers")))
	return delegated && slices.Contains(controllers, "memory") && slices.Contains(controllers, "pids")
}

// moveProcesses moves this program and what it has started from one group to another. If the group has
// other processes, nothing is moved.
func moveProcesses(from, to string) error {
	for range maxMoveRounds {
		pids := strings.Fields(procinfo.ReadFile(filepath.Join(from, "cgroup.procs")))
		if len(pids) == 0 {
			return nil
		}
		if slices.ContainsFunc(pids, func(pid string) bool { return !isOwnProcess(procinfo.ParseInt(pid)) }) {
			return errNotDelegated
		}
		for _, pid := range pids {
			if err := writeKernelFile(filepath.Join(to, "cgroup.procs"), pid); err != nil && !errors.Is(err, unix.ESRCH) {
				return err
			}
		}
	}
	return errNotDelegated
}

// isOwnProcess reports whether a process is this one or a descendant of it.
func isOwnProcess(pid int) bool {
	for ; pid > 1; pid = procinfo.ParentPID(pid) {
		if pid == os.Getpid() {
			return true
		}
	}
	return pid == os.Getpid()
}

// enableControllers lets the groups in a directory have limits on memory and processes.
func enableControllers(dir string) error {
	return writeKernelFile(filepath.Join(dir, "cgroup.subtree_control"), "+memory +pids")
}

// cgroupDir returns the directory of the group that a process is in.
func cgroupDir(pid string) (string, error) {
	groups, _ := os.ReadFile("/proc/" + pid + "/cgroup")
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	for _, file := range oomCounterFiles(string(groups), string(mounts)) {
		if filepath.Base(file) == memoryEventsFile("") {
			return filepath.Dir(file), nil
		}
	}
	return "", errors.New("control groups (version 2) not found on this system")
}

// startScope makes the user's service manager put a monitor into a scope that it delegates. Only
// the manager may move a process that a login has started. It returns what delegatedGroup returns.
func startScope(ctx context.Context, monitor int, unit, services string) (above, home string, err error) {
	if _, err := os.Stat(filepath.Join(services, "bus")); err != nil || services == "" {
		return "", "", errNoManager
	}
	ctx, cancel := context.WithTimeout(ctx, managerTimeout)
	defer cancel()
	pid := strconv.Itoa(monitor)
	call := exec.CommandContext(ctx, busctlPath, "--user", "--quiet", "call", "org.freedesktop.systemd1", "/org/freedesktop/systemd1",
		"org.freedesktop.systemd1.Manager", "StartTransientUnit", "ssa(sv)a(sa(sv))", unit, "fail",
		"4", "PIDs", "au", "1", pid, "Delegate", "b", "true", "CollectMode", "s", "inactive-or-failed", "Description", "s", "A session of Turnstone", "0")
	call.Env = []string{"XDG_RUNTIME_DIR=" + services}
	out, err := call.CombinedOutput()
	switch {
	case ctx.Err() != nil:
		return "", "", fmt.Errorf("%w: %w", errNoManager, ctx.Err())
	case errors.Is(err, os.ErrNotExist):
		return "", "", err
	case err != nil:
		return "", "", fmt.Errorf("%w: %s", errNoManager, strings.TrimSpace(string(out)))
	}
	if above, err = awaitCgroup(ctx, pid, unit); err != nil {
		return "", "", err
	}
	home = filepath.Join(above, "monitor")
	if err := os.Mkdir(home, 0o755); err != nil {
		return "", "", err
	}
	if err := writeKernelFile(filepath.Join(home, "cgroup.procs"), pid); err != nil {
		return "", "", err
	}
	return above, home, enableControllers(above)
}

// awaitCgroup waits until a process is in the group of a unit. The manager answers before it moves the
// process, and the kernel sends no event.
func awaitCgroup(ctx context.Context, pid, unit string) (dir string, err error) {
	for {
		if dir, err = cgroupDir(pid); err != nil || filepath.Base(dir) == unit {
			return dir, err
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return "", errNoManager
		}
	}
}

// A CgroupSwitch moves a monitor into the group of its worker, and back. Its files are opened before the
// monitor is confined. Descriptors of -1 mean that there is no group.
type CgroupSwitch struct{ workerFD, monitorFD int }

// OpenCgroupSwitch opens the files of both groups, where the worker's group is "" if there is none.
func OpenCgroupSwitch(worker, monitor string) (e CgroupSwitch, err error) {
	e = CgroupSwitch{-1, -1}
	if worker == "" {
		return e, nil
	}
	if e.workerFD, err = openProcsFile(worker); err == nil {
		e.monitorFD, err = openProcsFile(monitor)
	}
	return e, err
}

func openProcsFile(dir string) (int, error) {
	return unix.Open(filepath.Join(dir, "cgroup.procs"), unix.O_WRONLY|unix.O_CLOEXEC, 0)
}

// JoinWorkerGroup moves this process into the worker's group, so that its new children start there.
func (s CgroupSwitch) JoinWorkerGroup() error { return joinCgroup(s.workerFD) }

// RejoinMonitorGroup moves this process back to its own group.
func (s CgroupSwitch) RejoinMonitorGroup() error { return joinCgroup(s.monitorFD) }

// joinCgroup moves this process into the group whose cgroup.procs file is open as fd.
func joinCgroup(fd int) error {
	if fd < 0 {
		return nil
	}
	defer unix.Close(fd)
	_, err := unix.Write(fd, []byte("0"))
	return err
}

// GroupDirs returns the group directories of the worker and of its monitor, as the monitor gets them.
func (c *Cgroup) GroupDirs() (worker, monitor []byte) {
	if c == nil {
		return nil, nil
	}
	return []byte(c.workerDir), []byte(c.monitorDir)
}

// UncountedMemory returns a notice about memory that a limit does not count without a group; why
// explains the missing group.
func UncountedMemory(limit int64, sandboxed bool, why error) string {
	if limit == 0 {
		return ""
	}
	what := "data buffered in sockets and pipes"
	if !sandboxed { // a sandbox counts these, or has none
		what += ", and System V shared memory that no process has attached"
	}
	return fmt.Sprintf("the memory limit does not count %s: no control group is available (%v)", what, why)
}
