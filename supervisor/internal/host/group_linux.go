package host

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

	"golang.org/x/sys/unix"
)

// A cgroup is a control group, of version 2, for a worker and all processes that it starts. In it the kernel
// counts memory that no look at processes finds, such as data that waits in sockets. The stage stays outside,
// so that a full group neither ends nor blocks it. A nil group stands for no group.
type cgroup struct {
	workerDir      string // of the worker
	monitorDir     string // of its stage
	hasMemoryFiles bool   // files of the session are in memory, which is not part of its limit
}

const (
	// leafGroupName is where this program goes in a group that was given to it: the kernel divides no
	// group that has processes of its own. systemd's DelegateSubgroup may name it, too.
	leafGroupName = "supervisor"

	busctlPath     = "/usr/bin/busctl" // not by PATH, where code may have put another program
	managerTimeout = 3 * time.Second   // each start waits so long for one that hangs
	maxMoveRounds  = 100               // of processes that others start meanwhile
)

var (
	errNoManager    = errors.New("no manager of the user's services answers")
	errNotDelegated = errors.New("this program does not have a control group to itself")
)

// newCgroup makes the group of a worker whose stage waits for its plan, if a limit needs one. The
// error says why there is none.
func newCgroup(ctx context.Context, stage int, tag string, l Limits, services string) (*cgroup, error) {
	if l.Memory == 0 && l.Processes == 0 {
		return nil, nil
	}
	own, err := cgroupDir("self")
	if err != nil {
		return nil, err
	}
	above, home, err := delegatedGroup(own)
	if err != nil {
		if above, home, err = startScope(ctx, stage, "turnstone-"+tag+".scope", services); err != nil {
			return nil, err
		}
	}
	g := &cgroup{workerDir: filepath.Join(above, "worker-"+tag), monitorDir: home, hasMemoryFiles: l.Disk > 0}
	if err := os.Mkdir(g.workerDir, 0o755); err != nil {
		return nil, err
	}
	if err := g.setLimits(l); err != nil {
		g.removeDir()
		return nil, err
	}
	return g, nil
}

// setLimits sets the limits. That of memory is where programs are ended: the runtime is refused memory
// before, so that its language raises an error.
func (g *cgroup) setLimits(l Limits) error {
	var err error
	if l.Memory > 0 {
		err = g.writeLimit("memory.max", HardMemoryLimit(l.Memory)+2*l.Disk)
		if none := g.writeLimit("memory.swap.max", 0); !errors.Is(none, os.ErrNotExist) { // not every kernel counts it
			err = errors.Join(err, none)
		}
	}
	if l.Processes > 0 {
		err = errors.Join(err, g.writeLimit("pids.max", int64(l.Processes)))
	}
	return err
}

func (g *cgroup) writeLimit(name string, n int64) error {
	return writeKernelFile(filepath.Join(g.workerDir, name), strconv.FormatInt(n, 10))
}

// writeKernelFile writes to a file of the kernel, in one call.
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

// removeDir removes the group when nothing is left in it. Its scope ends with the stage.
func (g *cgroup) removeDir() {
	if g != nil {
		_ = unix.Rmdir(g.workerDir)
	}
}

// memoryBytes is what the group uses in bytes: what no file on a disk has, the kernel's own of it included.
func (g *cgroup) memoryBytes() (n int64, ok bool) {
	if g == nil || g.hasMemoryFiles {
		return 0, false
	}
	for line := range strings.Lines(readFile(filepath.Join(g.workerDir, "memory.stat"))) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch name {
		case "anon", "shmem", "sock", "kernel_stack", "pagetables", "slab_unreclaimable":
			part, err := strconv.ParseInt(value, 10, 64)
			n, ok = n+part, err == nil
		}
	}
	return n, ok
}

// countOOMKills is how many processes of the group the kernel has ended for a lack of memory.
func (g *cgroup) countOOMKills() int {
	if g == nil {
		return 0
	}
	n, _ := readOOMKills(memoryEventsFile(g.workerDir))
	return n
}

func memoryEventsFile(dir string) string { return filepath.Join(dir, "memory.events") }

// delegatedGroup divides the group of this program, if a manager or a container has given it to it and
// nothing else is in it. It returns where groups can be made, and where this program and its stages are.
// Several may do it at the same time: each step may be done again.
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

// isDelegated reports whether a group is this program's to divide. systemd marks those that it gives away,
// and the topmost that a container sees is the container's.
func isDelegated(dir string) bool {
	var mark [1]byte
	n, err := unix.Getxattr(dir, "user.delegate", mark[:])
	given := err == nil && n == 1 && mark[0] == '1' || controllerPath(readFile("/proc/self/cgroup"), "") == "/"
	there := strings.Fields(readFile(filepath.Join(dir, "cgroup.controllers")))
	return given && slices.Contains(there, "memory") && slices.Contains(there, "pids")
}

// moveProcesses moves this program and what it has started from one group into another. Others stay where
// they are, and then nothing is moved.
func moveProcesses(from, to string) error {
	for range maxMoveRounds {
		pids := strings.Fields(readFile(filepath.Join(from, "cgroup.procs")))
		if len(pids) == 0 {
			return nil
		}
		if slices.ContainsFunc(pids, func(pid string) bool { return !isOwnProcess(parseInt(pid)) }) {
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

// isOwnProcess reports whether a process is this one, or was started by it.
func isOwnProcess(pid int) bool {
	for ; pid > 1; pid = parentPID(pid) {
		if pid == os.Getpid() {
			return true
		}
	}
	return pid == os.Getpid()
}

// enableControllers lets the groups in a directory have limits of memory and processes.
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
	return "", errors.New("this system has no control groups of version 2")
}

// startScope has the manager of the user's services put a stage into a scope, which it gives away: only
// the manager may move a process that a login has started. It returns what delegatedGroup does.
func startScope(ctx context.Context, stage int, unit, services string) (above, home string, err error) {
	if _, err := os.Stat(filepath.Join(services, "bus")); err != nil || services == "" {
		return "", "", errNoManager
	}
	ctx, cancel := context.WithTimeout(ctx, managerTimeout)
	defer cancel()
	pid := strconv.Itoa(stage)
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
	home = filepath.Join(above, "stage")
	if err := os.Mkdir(home, 0o755); err != nil {
		return "", "", err
	}
	if err := writeKernelFile(filepath.Join(home, "cgroup.procs"), pid); err != nil {
		return "", "", err
	}
	return above, home, enableControllers(above)
}

// awaitCgroup waits until a process is in the group of a unit: the manager answers before it moves one, and
// the kernel tells nobody.
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

// A cgroupSwitch is the way of a stage into the group of its worker, and back. Its files are opened before
// the stage is confined. The zero entry leads nowhere.
type cgroupSwitch struct{ workerFD, monitorFD int }

func (p *workerCommand) openCgroupSwitch() (e cgroupSwitch, err error) {
	e = cgroupSwitch{-1, -1}
	if len(p.WorkerCgroup) == 0 {
		return e, nil
	}
	if e.workerFD, err = openProcsFile(p.WorkerCgroup); err == nil {
		e.monitorFD, err = openProcsFile(p.MonitorCgroup)
	}
	return e, err
}

func openProcsFile(dir []byte) (int, error) {
	return unix.Open(filepath.Join(string(dir), "cgroup.procs"), unix.O_WRONLY|unix.O_CLOEXEC, 0)
}

// joinWorkerGroup puts this process into the group, and so what it starts until it leaves.
func (e cgroupSwitch) joinWorkerGroup() error { return joinCgroup(e.workerFD) }

// rejoinMonitorGroup takes this process out again.
func (e cgroupSwitch) rejoinMonitorGroup() error { return joinCgroup(e.monitorFD) }

// joinCgroup moves this process into a group by its open file.
func joinCgroup(fd int) error {
	if fd < 0 {
		return nil
	}
	defer unix.Close(fd)
	_, err := unix.Write(fd, []byte("0"))
	return err
}

// groupDirs are the directories of the worker and of its stage, for a plan.
func (g *cgroup) groupDirs() (worker, stage []byte) {
	if g == nil {
		return nil, nil
	}
	return []byte(g.workerDir), []byte(g.monitorDir)
}

// uncountedMemory says what a limit of memory leaves out where there is no group.
func uncountedMemory(c *Command, why error) string {
	if c.Limits.Memory == 0 {
		return ""
	}
	what := "data buffered in sockets and pipes"
	if c.Sandbox == nil { // one counts these, or has none
		what += ", and shared memory of System V that no process has attached"
	}
	return fmt.Sprintf("the limit of memory does not count %s: there is no control group (%v)", what, why)
}
