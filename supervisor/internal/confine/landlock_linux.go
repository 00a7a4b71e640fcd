package confine

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// leastLandlock is the ABI that holds signals: that of Linux 6.12.
const leastLandlock = 6

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
// plan and a filter. The thread must stay locked to its goroutine.
func Restrict(p *Plan) error {
	failed := func(step, path string, err error) error { return &StepError{Step: step, Path: path, Err: err} }
	abi, err := landlockABI()
	if err == nil && abi < leastLandlock {
		err = fmt.Errorf("this kernel has version %d of it, which lets a session signal your other programs; version %d is that of Linux 6.12: %w", abi, leastLandlock, errors.ErrUnsupported)
	}
	if err != nil {
		return failed("landlock", "", err)
	}
	// This thread may be the one by which the worker would trace the stage.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return failed("dumpable", "", err)
	}
	set, err := newRuleset()
	if err != nil {
		return failed("landlock", "", err)
	}
	defer unix.Close(set)
	for _, rule := range withDevices(p.Rules) {
		path := string(rule.Path)
		err := as(path, func(fd int) error { return allow(set, fd, rule.Write) })
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
	if err := installLonely(p.Network); err != nil {
		return failed("filter", "", err)
	}
	return nil
}

// newRuleset makes a set that handles all of files, signals and abstract sockets.
func newRuleset() (int, error) {
	attributes := struct{ files, network, scoped uint64 }{
		files: allRights, scoped: unix.LANDLOCK_SCOPE_SIGNAL | unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET,
	}
	set, _, no := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attributes)), unsafe.Sizeof(attributes), 0)
	if no != 0 {
		return -1, no
	}
	return int(set), nil
}

// allow adds a rule for a file or directory.
func allow(set, fd int, write bool) error {
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
