package confine

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// minLandlockABI is the ABI that holds signals: that of Linux 6.12.
const minLandlockABI = 6

const (
	readRights = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	fileRights = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	allRights  = unix.LANDLOCK_ACCESS_FS_IOCTL_DEV<<1 - 1
	noDevices  = unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK | unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
)

// landlockABI asks the kernel which Landlock it has.
func landlockABI() (int, error) {
	abi, _, no := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	switch {
	case no == unix.ENOSYS, no == unix.EOPNOTSUPP:
		return 0, fmt.Errorf("this kernel has no Landlock, or it is switched off (%w)", no)
	case no != 0:
		return 0, no
	}
	return int(abi), nil
}

// Restrict confines the calling thread, and all processes that it starts, by the rules of a
// plan and a filter. The thread must stay locked to its goroutine. The box serves the connects of
// a session with an outlet; it is nil for others.
func Restrict(p *Plan) (*Sandbox, error) {
	failed := func(step, path string, err error) (*Sandbox, error) {
		return nil, &StepError{Step: step, Path: path, Err: err}
	}
	abi, err := landlockABI()
	if err == nil && abi < minLandlockABI {
		err = fmt.Errorf("this kernel has version %d of it, which lets a session signal your other programs; version %d is that of Linux 6.12: %w", abi, minLandlockABI, errors.ErrUnsupported)
	}
	if err != nil {
		return failed("landlock", "", err)
	}
	// This thread may be the one by which the worker would trace the stage.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return failed("dumpable", "", err)
	}
	box, err := newConnector(p)
	if err != nil {
		return failed("outlet", "", err)
	}
	set, err := newRuleset(p)
	if err != nil {
		return failed("landlock", "", err)
	}
	defer unix.Close(set)
	for _, rule := range withDevices(p.Rules) {
		path := string(rule.Path)
		err := withPlanPath(path, func(fd int) error { return addLandlockRule(set, fd, rule.Write) })
		gone := errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.EACCES)
		if err != nil && (rule.Write || !gone) { // nobody has to read what is gone, or another user's
			return failed("rule", path, err)
		}
	}
	if err := dropRights(); err != nil && (!errors.Is(err, unix.EPERM) || os.Geteuid() == 0) {
		return failed("rights", "", err) // without rights nobody may bound them, and there is nothing to bound
	}
	if _, _, no := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(set), 0, 0); no != 0 {
		return failed("landlock", "", no)
	}
	calls, err := installNoNamespaceFilter(p)
	if err != nil {
		return failed("filter", "", err)
	}
	if box != nil {
		box.notifyFD = calls
	}
	return box, nil
}

// newConnector returns a box that only connects, for a plan with an outlet. The session shares the
// network of the machine, so the box has none to enter.
func newConnector(p *Plan) (*Sandbox, error) {
	if !p.Egress {
		return nil, nil
	}
	proc, err := unix.Open("/proc", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return &Sandbox{plan: p, rootFD: -1, procFD: proc, sockDiagFD: -1, mountNS: -1, dnsSocket: -1, egress: newEgressClient(-1, netip.AddrFrom4([4]byte{127, 0, 0, 1}))}, nil
}

// CheckConnect tries whether a stage without namespaces may connect in its worker's place, for which it
// needs copies of the sockets of its children. Containers and administrators can forbid that.
func CheckConnect() error {
	remedy := "choose the network none, or full"
	if scope, _ := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope"); len(scope) > 0 && scope[0] > '1' {
		return fmt.Errorf("hosts by name need kernel.yama.ptrace_scope 0 or 1, and it is %c here: %s", scope[0], remedy)
	}
	self, err := unix.PidfdOpen(os.Getpid(), 0)
	if err == nil {
		defer unix.Close(self)
		var copied int
		if copied, err = unix.PidfdGetfd(self, self, 0); err == nil {
			unix.Close(copied)
		}
	}
	if err != nil {
		return fmt.Errorf("hosts by name need the call pidfd_getfd, which this container or system forbids (%w): %s", err, remedy)
	}
	return nil
}

// newRuleset makes a set that handles all of files, signals and abstract sockets. Of the network it
// allows nothing to a session that does not have all of it: the stage connects.
func newRuleset(p *Plan) (int, error) {
	attributes := struct{ files, network, scoped uint64 }{
		files: allRights, scoped: unix.LANDLOCK_SCOPE_SIGNAL | unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET,
	}
	if !p.Network {
		attributes.network = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
	}
	set, _, no := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attributes)), unsafe.Sizeof(attributes), 0)
	if no != 0 {
		return -1, no
	}
	return int(set), nil
}

// addLandlockRule adds a rule for a file or directory.
func addLandlockRule(set, fd int, write bool) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	rights := uint64(readRights)
	if write {
		rights = allRights &^ noDevices
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
	case unix.S_IFCHR:
		rights &= fileRights | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
		if write {
			rights |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
		}
	default:
		rights &= fileRights
	}
	beneath := struct { // the kernel reads its first 12 bytes
		rights uint64
		fd     int32
	}{rights, int32(fd)}
	_, _, no := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(set), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&beneath)), 0, 0, 0)
	runtime.KeepAlive(&beneath)
	if no != 0 {
		return no
	}
	return nil
}

// withDevices adds the devices that a session writes: those without other users' data, and
// its terminal.
func withDevices(rules []Rule) []Rule {
	for _, name := range deviceNames {
		rules = append(rules, Rule{Path("/dev/" + name), true})
	}
	if name, err := os.Readlink("/proc/self/fd/0"); err == nil && strings.HasPrefix(name, "/dev/pts/") {
		rules = append(rules, Rule{Path(name), true})
	}
	return rules
}
