package linux

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/broker"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/egressclient"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/mountlist"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/plan"
	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/seccomp"
)

// minLandlockABI is the first ABI that restricts signals, that of Linux 6.12.
const minLandlockABI = 6

const (
	readRights = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	fileRights = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	allRights  = unix.LANDLOCK_ACCESS_FS_IOCTL_DEV<<1 - 1
	noDevices  = unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK | unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
)

// landlockABI asks the kernel for its Landlock ABI.
func landlockABI() (int, error) {
	abi, _, no := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	switch {
	case no == unix.ENOSYS, no == unix.EOPNOTSUPP:
		return 0, fmt.Errorf("this kernel has no Landlock, or it is disabled (%w)", no)
	case no != 0:
		return 0, no
	}
	return int(abi), nil
}

// Restrict confines the calling thread, and all processes that it starts, by the rules of a plan
// and a seccomp filter. The thread must stay locked to its goroutine. The returned sandbox serves
// the connects of a session with egress; it is nil for other sessions.
func Restrict(p *plan.Plan) (*ActiveSandbox, error) {
	failed := func(step, path string, err error) (*ActiveSandbox, error) {
		return nil, &plan.StepError{Step: step, Path: path, Err: err}
	}
	abi, err := landlockABI()
	if err == nil && abi < minLandlockABI {
		err = fmt.Errorf("this kernel has Landlock ABI %d, which lets a session signal your other programs; ABI %d needs Linux 6.12: %w", abi, minLandlockABI, errors.ErrUnsupported)
	}
	if err != nil {
		return failed("landlock", "", err)
	}
	// The worker could trace the monitor through this thread.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return failed("dumpable", "", err)
	}
	b, err := newConnector(p)
	if err != nil {
		return failed("egress", "", err)
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
		if err != nil && (rule.Write || !gone) { // paths that are gone or another user's need no read rule
			return failed("rule", path, err)
		}
	}
	if err := dropRights(); err != nil && (!errors.Is(err, unix.EPERM) || os.Geteuid() == 0) {
		return failed("rights", "", err) // an unprivileged thread may not drop capabilities, and has none to drop
	}
	if _, _, no := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(set), 0, 0); no != 0 {
		return failed("landlock", "", no)
	}
	calls, err := seccomp.InstallNoNamespaceFilter(p.Network, p.Egress)
	if err != nil {
		return failed("filter", "", err)
	}
	if b != nil {
		b.NotifyFD = calls
	}
	return b, nil
}

// newConnector returns an ActiveSandbox that only connects, for a plan with egress. The session
// shares the machine's network, so there is no network namespace to enter.
func newConnector(p *plan.Plan) (*ActiveSandbox, error) {
	if !p.Egress {
		return nil, nil
	}
	proc, err := unix.Open("/proc", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	b := broker.New(p)
	b.ProcFD, b.Egress = proc, egressclient.New(-1, netip.AddrFrom4([4]byte{127, 0, 0, 1}), -1, b.IsPending)
	return &ActiveSandbox{Broker: b, plan: p}, nil
}

// CheckConnect reports whether a monitor without namespaces can connect sockets on behalf of its
// worker. It must copy the sockets of its children, which containers and administrators can forbid.
func CheckConnect() error {
	hint := "choose the network none or full"
	if scope, _ := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope"); len(scope) > 0 && scope[0] > '1' {
		return fmt.Errorf("host names need kernel.yama.ptrace_scope 0 or 1, and it is %c; %s", scope[0], hint)
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
		return fmt.Errorf("host names need the system call pidfd_getfd, which this container or system forbids (%w); %s", err, hint)
	}
	return nil
}

// newRuleset creates a ruleset that handles all accesses to files, signals and abstract sockets. It
// allows TCP only to a session with the whole network, because the monitor makes the connects of
// the others.
func newRuleset(p *plan.Plan) (int, error) {
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
	beneath := struct { // the kernel reads the first 12 bytes
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

// withDevices adds the devices that a session writes: those without data of other users, and its
// terminal.
func withDevices(rules []plan.Rule) []plan.Rule {
	for _, name := range deviceNames {
		rules = append(rules, plan.Rule{Path: mountlist.Path("/dev/" + name), Write: true})
	}
	if name, err := os.Readlink("/proc/self/fd/0"); err == nil && strings.HasPrefix(name, "/dev/pts/") {
		rules = append(rules, plan.Rule{Path: mountlist.Path(name), Write: true})
	}
	return rules
}
