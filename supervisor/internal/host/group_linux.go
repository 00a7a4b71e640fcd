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

// A group is a control group, of version 2, for a worker and all processes that it starts. In it the kernel
// counts memory that no look at processes finds, such as data that waits in sockets. The stage stays outside,
// so that a full group neither ends nor blocks it. A nil group stands for no group.
type group struct {
	dir  string // of the worker
	home string // of its stage
	disk bool   // files of the session are in memory, which is not part of its limit
}

const (
	// leafName is where this program goes in a group that was given to it: the kernel divides no
	// group that has processes of its own. systemd's DelegateSubgroup may name it, too.
	leafName = "supervisor"

	busctl       = "/usr/bin/busctl" // not by PATH, where code may have put another program
	managerLimit = 3 * time.Second   // each start waits so long for one that hangs
	maxMoves     = 100               // of processes that others start meanwhile
)

var (
	errNoManager = errors.New("no manager of the user's services answers")
	errNotGiven  = errors.New("this program does not have a control group to itself")
)

// newGroup makes the group of a worker whose stage waits for its plan, if a limit needs one. The
// error says why there is none.
func newGroup(ctx context.Context, stage int, tag string, l Limits, services string) (*group, error) {
	if l.Memory == 0 && l.Processes == 0 {
		return nil, nil
	}
	own, err := groupDir("self")
	if err != nil {
		return nil, err
	}
	above, home, err := givenGroup(own)
	if err != nil {
		if above, home, err = scope(ctx, stage, "turnstone-"+tag+".scope", services); err != nil {
			return nil, err
		}
	}
	g := &group{dir: filepath.Join(above, "worker-"+tag), home: home, disk: l.Disk > 0}
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		return nil, err
	}
	if err := g.bound(l); err != nil {
		g.remove()
		return nil, err
	}
	return g, nil
}

// bound sets the limits. That of memory is where programs are ended: the runtime is refused memory
// before, so that its language raises an error.
func (g *group) bound(l Limits) error {
	var err error
	if l.Memory > 0 {
		err = g.set("memory.max", FarBeyond(l.Memory)+2*l.Disk)
		if none := g.set("memory.swap.max", 0); !errors.Is(none, os.ErrNotExist) { // not every kernel counts it
			err = errors.Join(err, none)
		}
	}
	if l.Processes > 0 {
		err = errors.Join(err, g.set("pids.max", int64(l.Processes)))
	}
	return err
}

func (g *group) set(name string, n int64) error {
	return setFile(filepath.Join(g.dir, name), strconv.FormatInt(n, 10))
}

// setFile writes to a file of the kernel, in one call.
func setFile(name, text string) error {
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

// remove removes the group when nothing is left in it. Its scope ends with the stage.
func (g *group) remove() {
	if g != nil {
		_ = unix.Rmdir(g.dir)
	}
}

// memory is what the group uses in bytes: what no file on a disk has, the kernel's own of it included.
func (g *group) memory() (n int64, ok bool) {
	if g == nil || g.disk {
		return 0, false
	}
	for line := range strings.Lines(readFile(filepath.Join(g.dir, "memory.stat"))) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch name {
		case "anon", "shmem", "sock", "kernel_stack", "pagetables", "slab_unreclaimable":
			part, err := strconv.ParseInt(value, 10, 64)
			n, ok = n+part, err == nil
		}
	}
	return n, ok
}

// killed is how many processes of the group the kernel has ended for a lack of memory.
func (g *group) killed() int {
	if g == nil {
		return 0
	}
	n, _ := oomKills(eventsOf(g.dir))
	return n
}

func eventsOf(dir string) string { return filepath.Join(dir, "memory.events") }

// givenGroup divides the group of this program, if a manager or a container has given it to it and
// nothing else is in it. It returns where groups can be made, and where this program and its stages are.
// Several may do it at the same time: each step may be done again.
func givenGroup(dir string) (above, home string, err error) {
	if above = filepath.Dir(dir); filepath.Base(dir) == leafName && enable(above) == nil {
		return above, dir, nil
	}
	if !isGiven(dir) {
		return "", "", errNotGiven
	}
	home = filepath.Join(dir, leafName)
	if err := os.Mkdir(home, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return "", "", err
	}
	if err := moveAll(dir, home); err != nil {
		_ = unix.Rmdir(home)
		return "", "", err
	}
	return dir, home, enable(dir)
}

// isGiven reports whether a group is this program's to divide. systemd marks those that it gives away,
// and the topmost that a container sees is the container's.
func isGiven(dir string) bool {
	var mark [1]byte
	n, err := unix.Getxattr(dir, "user.delegate", mark[:])
	given := err == nil && n == 1 && mark[0] == '1' || groupOf(readFile("/proc/self/cgroup"), "") == "/"
	there := strings.Fields(readFile(filepath.Join(dir, "cgroup.controllers")))
	return given && slices.Contains(there, "memory") && slices.Contains(there, "pids")
}

// moveAll moves this program and what it has started from one group into another. Others stay where
// they are, and then nothing is moved.
func moveAll(from, to string) error {
	for range maxMoves {
		pids := strings.Fields(readFile(filepath.Join(from, "cgroup.procs")))
		if len(pids) == 0 {
			return nil
		}
		if slices.ContainsFunc(pids, func(pid string) bool { return !isOurs(atoi(pid)) }) {
			return errNotGiven
		}
		for _, pid := range pids {
			if err := setFile(filepath.Join(to, "cgroup.procs"), pid); err != nil && !errors.Is(err, unix.ESRCH) {
				return err
			}
		}
	}
	return errNotGiven
}

// isOurs reports whether a process is this one, or was started by it.
func isOurs(pid int) bool {
	for ; pid > 1; pid = parentOf(pid) {
		if pid == os.Getpid() {
			return true
		}
	}
	return pid == os.Getpid()
}

// enable lets the groups in a directory have limits of memory and processes.
func enable(dir string) error {
	return setFile(filepath.Join(dir, "cgroup.subtree_control"), "+memory +pids")
}

// groupDir returns the directory of the group that a process is in.
func groupDir(pid string) (string, error) {
	groups, _ := os.ReadFile("/proc/" + pid + "/cgroup")
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	for _, file := range oomFiles(string(groups), string(mounts)) {
		if filepath.Base(file) == eventsOf("") {
			return filepath.Dir(file), nil
		}
	}
	return "", errors.New("this system has no control groups of version 2")
}

// scope has the manager of the user's services put a stage into a scope, which it gives away: only
// the manager may move a process that a login has started. It returns what givenGroup does.
func scope(ctx context.Context, stage int, unit, services string) (above, home string, err error) {
	if _, err := os.Stat(filepath.Join(services, "bus")); err != nil || services == "" {
		return "", "", errNoManager
	}
	ctx, cancel := context.WithTimeout(ctx, managerLimit)
	defer cancel()
	pid := strconv.Itoa(stage)
	call := exec.CommandContext(ctx, busctl, "--user", "--quiet", "call", "org.freedesktop.systemd1", "/org/freedesktop/systemd1",
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
	if above, err = enters(ctx, pid, unit); err != nil {
		return "", "", err
	}
	home = filepath.Join(above, "stage")
	if err := os.Mkdir(home, 0o755); err != nil {
		return "", "", err
	}
	if err := setFile(filepath.Join(home, "cgroup.procs"), pid); err != nil {
		return "", "", err
	}
	return above, home, enable(above)
}

// enters waits until a process is in the group of a unit: the manager answers before it moves one, and
// the kernel tells nobody.
func enters(ctx context.Context, pid, unit string) (dir string, err error) {
	for {
		if dir, err = groupDir(pid); err != nil || filepath.Base(dir) == unit {
			return dir, err
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return "", errNoManager
		}
	}
}

// An entry is the way of a stage into the group of its worker, and back. Its files are opened before
// the stage is confined. The zero entry leads nowhere.
type entry struct{ in, out int }

func (p *plan) entry() (e entry, err error) {
	e = entry{-1, -1}
	if len(p.Group) == 0 {
		return e, nil
	}
	if e.in, err = openMembers(p.Group); err == nil {
		e.out, err = openMembers(p.Home)
	}
	return e, err
}

func openMembers(dir []byte) (int, error) {
	return unix.Open(filepath.Join(string(dir), "cgroup.procs"), unix.O_WRONLY|unix.O_CLOEXEC, 0)
}

// enter puts this process into the group, and so what it starts until it leaves.
func (e entry) enter() error { return move(e.in) }

// leave takes this process out again.
func (e entry) leave() error { return move(e.out) }

// move moves this process into a group by its open file.
func move(fd int) error {
	if fd < 0 {
		return nil
	}
	defer unix.Close(fd)
	_, err := unix.Write(fd, []byte("0"))
	return err
}

// paths are the directories of the worker and of its stage, for a plan.
func (g *group) paths() (worker, stage []byte) {
	if g == nil {
		return nil, nil
	}
	return []byte(g.dir), []byte(g.home)
}

// uncounted says what a limit of memory leaves out where there is no group.
func uncounted(c *Command, why error) string {
	if c.Limits.Memory == 0 {
		return ""
	}
	what := "data buffered in sockets and pipes"
	if c.Sandbox == nil { // one counts these, or has none
		what += ", and shared memory of System V that no process has attached"
	}
	return fmt.Sprintf("the limit of memory does not count %s: there is no control group (%v)", what, why)
}
