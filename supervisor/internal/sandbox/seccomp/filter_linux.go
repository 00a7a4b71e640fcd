package seccomp

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

var (
	// forbiddenCalls are calls that could change what a session sees, or reach parts of the kernel
	// that it does not need.
	forbiddenCalls = []string{
		"mount", "umount2", "pivot_root", "chroot", "setns", "open_tree", "open_tree_attr", "move_mount", "fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr",
		"bpf", "perf_event_open", "userfaultfd", "kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module",
		"swapon", "swapoff", "reboot", "acct", "quotactl", "quotactl_fd", "settimeofday", "clock_settime", "clock_adjtime", "adjtimex",
		"syslog", "open_by_handle_at", "fanotify_init", "vhangup", "iopl", "ioperm", "lookup_dcookie", "nfsservctl", "lsm_set_self_attr",
	}
	// unsupportedCalls are calls that programs can do without, because libraries fall back to
	// clone, openat and others. clone3, openat2 and the calls for attributes relative to a
	// directory have arguments in memory, which a filter cannot read. Requests of io_setup count
	// against a limit that all programs of the machine share.
	unsupportedCalls = []string{
		"add_key", "keyctl", "request_key", "io_uring_setup", "io_uring_enter", "io_uring_register", "clone3", "openat2",
		"fchmodat2", "setxattrat", "removexattrat", "file_setattr", "io_setup",
	}
)

// sharedObjectCalls are the calls for objects that all programs of a machine share by number or
// name. A session in namespaces has its own.
var sharedObjectCalls = []string{
	"shmget", "shmat", "shmctl", "shmdt", "semget", "semop", "semctl", "semtimedop", "msgget", "msgsnd", "msgrcv", "msgctl", "mq_open", "mq_unlink",
}

// otherProcessCalls are the calls that change how another process of the user runs, with the index
// of the argument that names the process. The value 0 of that argument is the process itself.
var otherProcessCalls = map[string]uint32{
	"prlimit64": 0, "setpriority": 1, "ioprio_set": 1, "sched_setaffinity": 0, "sched_setscheduler": 0, "sched_setparam": 0, "sched_setattr": 0,
}

// sendCalls are the calls that send data, with the index of their flags argument.
var sendCalls = map[string]uint32{"sendto": 3, "sendmsg": 2, "sendmmsg": 3}

// notifiedCalls are the calls that the kernel reports to the monitor, besides opening to write. To
// add a call, put its numbers into calls_linux.go, and list and emulate it in package broker.
var notifiedCalls = []string{
	"connect", "creat", "mkdir", "mkdirat", "mknod", "mknodat", "unlink", "unlinkat", "rmdir",
	"rename", "renameat", "renameat2", "link", "linkat", "symlink", "symlinkat", "truncate", "bind",
	"chmod", "fchmod", "fchmodat", "setxattr", "lsetxattr", "fsetxattr", "removexattr", "lremovexattr", "fremovexattr",
}

const (
	namespaceFlags = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP
	// WriteFlags are the flags with which an open may change something.
	WriteFlags   = unix.O_WRONLY | unix.O_RDWR | unix.O_CREAT | unix.O_TRUNC
	cloneNewTime = 0x80 // CLONE_NEWTIME, for unshare; in clone it is part of a signal's number
	x32CallBit   = 1 << 30
)

// CheckArchitecture returns an error if there is no filter for this architecture.
func CheckArchitecture() error {
	if _, ok := Architectures[runtime.GOARCH]; !ok {
		return fmt.Errorf("a sandbox: %w on %s", errors.ErrUnsupported, runtime.GOARCH)
	}
	return nil
}

// A bpfProgram is a seccomp filter: classic BPF instructions over struct seccomp_data.
type bpfProgram []unix.SockFilter

const (
	opLoad        = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	opAnd         = unix.BPF_ALU | unix.BPF_AND | unix.BPF_K
	opJumpEqual   = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	opJumpAtLeast = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
	opJumpAnyBit  = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
	opReturn      = unix.BPF_RET | unix.BPF_K

	offsetNumber = 0 // the offset of the call's number in struct seccomp_data
	offsetArch   = 4
)

// argumentOffset returns the offset of an argument's low half, on little-endian machines.
func argumentOffset(i uint32) uint32 { return 16 + 8*i }

func errnoResult(e unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(e) }

func (p *bpfProgram) add(code uint16, k uint32, yes, no uint8) {
	*p = append(*p, unix.SockFilter{Code: code, Jt: yes, Jf: no, K: k})
}

// returnIf returns result if the test of the loaded value holds.
func (p *bpfProgram) returnIf(test uint16, k, result uint32) {
	p.add(test, k, 0, 1)
	p.add(opReturn, result, 0, 0)
}

// returnUnless returns result if the loaded value is not one of values.
func (p *bpfProgram) returnUnless(result uint32, values ...uint32) {
	for i, v := range values {
		p.add(opJumpEqual, v, uint8(len(values)-i), 0)
	}
	p.add(opReturn, result, 0, 0)
}

// onValue runs the instructions of body if the loaded value is value.
func (p *bpfProgram) onValue(value uint32, body func(*bpfProgram)) {
	var inner bpfProgram
	body(&inner)
	p.add(opJumpEqual, value, 0, uint8(len(inner)))
	*p = append(*p, inner...)
}

// onCall runs the instructions of body for one system call, if the architecture has it.
func (p *bpfProgram) onCall(a architecture, name string, body func(*bpfProgram)) {
	if nr, ok := a.Calls[name]; ok {
		p.onValue(nr, func(p *bpfProgram) {
			body(p)
			p.add(opLoad, offsetNumber, 0, 0)
		})
	}
}

// filterFor returns the filter of an architecture for a session with mounts and namespaces. It
// allows all calls that it does not name, because mounts and capabilities protect files. It reports
// opens to read if reads is true, and the calls that objects names.
func filterFor(a architecture, reads bool, objects []string) bpfProgram {
	p := newFilter(a)
	for name, flags := range map[string]uint32{"open": 1, "openat": 2} { // first, so that opening to read stays cheap
		p.onCall(a, name, func(p *bpfProgram) {
			p.add(opLoad, argumentOffset(flags), 0, 0)
			p.returnIf(opJumpAnyBit, WriteFlags, unix.SECCOMP_RET_USER_NOTIF)
			if reads { // all opens but those with O_PATH, whose descriptor is opened by name later
				p.add(opJumpAnyBit, unix.O_PATH, 1, 0)
				p.add(opReturn, unix.SECCOMP_RET_USER_NOTIF, 0, 0)
			}
			p.add(opReturn, unix.SECCOMP_RET_ALLOW, 0, 0)
		})
	}
	p.forbidCommonCalls(a)
	p.onCall(a, "socket", allowSockets)
	for _, name := range notifiedCalls {
		if nr, ok := a.Calls[name]; ok {
			p.returnIf(opJumpEqual, nr, unix.SECCOMP_RET_USER_NOTIF)
		}
	}
	for _, name := range objects {
		p.returnIf(opJumpEqual, a.Calls[name], unix.SECCOMP_RET_USER_NOTIF)
	}
	p.onCall(a, "prlimit64", func(p *bpfProgram) { // for another process, which may be the monitor
		p.add(opLoad, argumentOffset(0), 0, 0)
		p.returnUnless(unix.SECCOMP_RET_USER_NOTIF, 0)
	})
	p.add(opReturn, unix.SECCOMP_RET_ALLOW, 0, 0)
	return p
}

// noNamespaceFilterFor returns the filter for a session that shares the machine's namespaces. It
// must not reach what is in them by sockets, shared memory or message queues.
func noNamespaceFilterFor(a architecture, network, egress bool) bpfProgram {
	p := newFilter(a)
	p.forbidCommonCalls(a)
	p.onCall(a, "socket", func(p *bpfProgram) { allowSharedSockets(p, network, egress) })
	if egress {
		p.requireEgress(a)
	}
	for _, name := range sharedObjectCalls {
		p.returnIf(opJumpEqual, a.Calls[name], errnoResult(unix.ENOSYS))
	}
	for name, process := range otherProcessCalls {
		p.onCall(a, name, func(p *bpfProgram) {
			p.add(opLoad, argumentOffset(process), 0, 0)
			p.returnUnless(errnoResult(unix.EPERM), 0)
		})
	}
	for name, mode := range modeArguments {
		p.onCall(a, name, func(p *bpfProgram) { p.forbidSetuid(mode) })
	}
	for name, flags := range map[string]uint32{"open": 1, "openat": 2} {
		p.onCall(a, name, func(p *bpfProgram) {
			p.add(opLoad, argumentOffset(flags), 0, 0)
			p.add(opJumpAnyBit, unix.O_CREAT|unix.O_TMPFILE&^unix.O_DIRECTORY, 0, 3) // other opens have no mode
			p.forbidSetuid(flags + 1)
		})
	}
	p.add(opReturn, unix.SECCOMP_RET_ALLOW, 0, 0)
	return p
}

// modeArguments are the calls that set the mode of a file, with the index of the mode argument.
var modeArguments = map[string]uint32{"chmod": 1, "fchmod": 1, "fchmodat": 2, "creat": 1, "mknod": 1, "mknodat": 2}

// forbidSetuid forbids modes that let other users run a program with the rights of the session's
// user.
func (p *bpfProgram) forbidSetuid(mode uint32) {
	p.add(opLoad, argumentOffset(mode), 0, 0)
	p.returnIf(opJumpAnyBit, unix.S_ISUID, errnoResult(unix.EPERM))
}

// newFilter returns the start of a filter, which forbids programs of other architectures.
func newFilter(a architecture) bpfProgram {
	var p bpfProgram
	p.add(opLoad, offsetArch, 0, 0)
	p.add(opJumpEqual, a.auditArch, 1, 0)
	p.add(opReturn, errnoResult(unix.ENOSYS), 0, 0) // 32-bit programs
	p.add(opLoad, offsetNumber, 0, 0)
	p.returnIf(opJumpAtLeast, x32CallBit, errnoResult(unix.ENOSYS)) // x32
	return p
}

// forbidCommonCalls forbids the calls that no session may make.
func (p *bpfProgram) forbidCommonCalls(a architecture) {
	for _, name := range forbiddenCalls {
		if nr, ok := a.Calls[name]; ok {
			p.returnIf(opJumpEqual, nr, errnoResult(unix.EPERM))
		}
	}
	for _, name := range unsupportedCalls {
		p.returnIf(opJumpEqual, a.Calls[name], errnoResult(unix.ENOSYS))
	}
	p.onCall(a, "unshare", func(p *bpfProgram) {
		p.add(opLoad, argumentOffset(0), 0, 0)
		p.returnIf(opJumpAnyBit, namespaceFlags|cloneNewTime, errnoResult(unix.EPERM))
	})
	p.onCall(a, "clone", func(p *bpfProgram) {
		p.add(opLoad, argumentOffset(0), 0, 0)
		p.returnIf(opJumpAnyBit, namespaceFlags, errnoResult(unix.EPERM))
	})
	p.onCall(a, "ioctl", func(p *bpfProgram) { // these type into a terminal
		p.add(opLoad, argumentOffset(1), 0, 0)
		p.returnIf(opJumpEqual, unix.TIOCSTI, errnoResult(unix.EPERM))
		p.returnIf(opJumpEqual, tiocLinux, errnoResult(unix.EPERM))
		p.returnIf(opJumpEqual, unix.TIOCSETD, errnoResult(unix.EPERM)) // loads modules
		for _, request := range btrfsNameRequests {
			p.returnIf(opJumpEqual, request, errnoResult(unix.EPERM))
		}
		p.add(opAnd, 0xff00, 0, 0)
		p.returnIf(opJumpEqual, bcachefsRequests, errnoResult(unix.EPERM))
	})
	p.onCall(a, "fcntl", func(p *bpfProgram) { // a lease makes programs outside wait
		p.add(opLoad, argumentOffset(1), 0, 0)
		p.returnIf(opJumpEqual, unix.F_SETLEASE, errnoResult(unix.EPERM))
	})
	p.onCall(a, "socketpair", func(p *bpfProgram) {
		p.add(opLoad, argumentOffset(1), 0, 0)
		p.add(opAnd, 0xf, 0, 0)
		p.returnUnless(errnoResult(unix.EPERM), unix.SOCK_STREAM, unix.SOCK_SEQPACKET)
	})
}

const tiocLinux = 0x541c

// btrfsNameRequests are the ioctl requests by which btrfs makes and removes names without a
// reported call. With them, a copy of a filled directory could get any name. bcachefs has similar
// requests.
var btrfsNameRequests = []uint32{
	0x5000940e, 0x50009418, // BTRFS_IOC_SUBVOL_CREATE
	0x50009401, 0x50009417, // BTRFS_IOC_SNAP_CREATE
	0x5000940f, 0x5000943f, // BTRFS_IOC_SNAP_DESTROY
}

const bcachefsRequests = 0xbc00 // the type byte of all its requests

// allowSockets allows the socket families of the session's own machine and network. It forbids Unix
// datagram sockets, even in pairs. Each message can name its target in memory, where neither a
// filter nor a mount can check it. The kernel also makes such a socket from SOCK_RAW:
// https://github.com/torvalds/linux/blob/v6.18/net/unix/af_unix.c (unix_create)
func allowSockets(p *bpfProgram) {
	p.add(opLoad, argumentOffset(0), 0, 0)
	p.returnUnless(errnoResult(unix.EAFNOSUPPORT), unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK)
	p.onValue(unix.AF_UNIX, func(p *bpfProgram) {
		p.add(opLoad, argumentOffset(1), 0, 0)
		p.add(opAnd, 0xf, 0, 0)
		p.returnUnless(errnoResult(unix.EPERM), unix.SOCK_STREAM, unix.SOCK_SEQPACKET)
		p.add(opLoad, argumentOffset(0), 0, 0)
	})
	p.onValue(unix.AF_NETLINK, func(p *bpfProgram) {
		p.add(opLoad, argumentOffset(2), 0, 0)
		p.returnUnless(errnoResult(unix.EPROTONOSUPPORT), unix.NETLINK_ROUTE)
	})
}

// allowSharedSockets allows no Unix sockets, whose names a filter cannot read, and network sockets
// only to a session with the whole network. A session with egress has TCP sockets over IPv4, which
// the monitor connects. IPv6 is not needed for that, and its headers can send a packet elsewhere.
func allowSharedSockets(p *bpfProgram, network, egress bool) {
	p.add(opLoad, argumentOffset(0), 0, 0)
	families := []uint32{unix.AF_NETLINK}
	switch {
	case network:
		families = append(families, unix.AF_INET, unix.AF_INET6)
	case egress:
		families = append(families, unix.AF_INET)
	}
	p.returnUnless(errnoResult(unix.EACCES), families...)
	if egress {
		p.onValue(unix.AF_INET, func(p *bpfProgram) {
			p.add(opLoad, argumentOffset(1), 0, 0)
			p.add(opAnd, 0xf, 0, 0)
			p.returnUnless(errnoResult(unix.EACCES), unix.SOCK_STREAM)
			p.add(opLoad, argumentOffset(2), 0, 0)
			p.returnUnless(errnoResult(unix.EACCES), 0, unix.IPPROTO_TCP)
			p.add(opLoad, argumentOffset(0), 0, 0)
		})
	}
	p.onValue(unix.AF_NETLINK, func(p *bpfProgram) {
		p.add(opLoad, argumentOffset(2), 0, 0)
		p.returnUnless(errnoResult(unix.EPROTONOSUPPORT), unix.NETLINK_ROUTE)
	})
}

// requireEgress makes the monitor connect each socket. It forbids the other ways in which a TCP
// socket gets a peer: listening, and sending with "fast open". It also forbids options that
// redirect a connected socket: a device, or a source route.
func (p *bpfProgram) requireEgress(a architecture) {
	p.returnIf(opJumpEqual, a.Calls["connect"], unix.SECCOMP_RET_USER_NOTIF)
	p.returnIf(opJumpEqual, a.Calls["listen"], errnoResult(unix.EACCES))
	for name, flags := range sendCalls {
		p.onCall(a, name, func(p *bpfProgram) {
			p.add(opLoad, argumentOffset(flags), 0, 0)
			p.returnIf(opJumpAnyBit, unix.MSG_FASTOPEN, errnoResult(unix.EOPNOTSUPP))
		})
	}
	p.onCall(a, "setsockopt", func(p *bpfProgram) {
		none := errnoResult(unix.ENOPROTOOPT)
		p.add(opLoad, argumentOffset(1), 0, 0)
		p.returnUnless(none, unix.SOL_SOCKET, unix.IPPROTO_TCP, unix.IPPROTO_IP, unix.SOL_NETLINK)
		p.onSocketOption(unix.SOL_SOCKET, func(p *bpfProgram) {
			p.returnIf(opJumpEqual, unix.SO_BINDTODEVICE, none)
			p.returnIf(opJumpEqual, unix.SO_BINDTOIFINDEX, none)
		})
		p.onSocketOption(unix.IPPROTO_TCP, func(p *bpfProgram) {
			p.returnIf(opJumpEqual, unix.TCP_FASTOPEN_CONNECT, none)
			p.returnIf(opJumpEqual, unix.TCP_FASTOPEN_NO_COOKIE, none)
		})
		p.onSocketOption(unix.IPPROTO_IP, func(p *bpfProgram) {
			p.returnUnless(none, unix.IP_TOS, unix.IP_TTL, unix.IP_MTU_DISCOVER, unix.IP_RECVERR, unix.IP_BIND_ADDRESS_NO_PORT)
		})
	})
}

// onSocketOption runs the instructions of body for the options of one level, which is loaded.
func (p *bpfProgram) onSocketOption(level uint32, body func(*bpfProgram)) {
	p.onValue(level, func(p *bpfProgram) {
		p.add(opLoad, argumentOffset(2), 0, 0)
		body(p)
		p.add(opLoad, argumentOffset(1), 0, 0)
	})
}

// InstallNoNamespaceFilter installs the filter of noNamespaceFilterFor on the calling thread. It
// returns the descriptor on which the kernel reports connects, or -1 if there is no egress.
func InstallNoNamespaceFilter(network, egress bool) (int, error) {
	if err := CheckArchitecture(); err != nil {
		return -1, err
	}
	p, flags := noNamespaceFilterFor(Architectures[runtime.GOARCH], network, egress), uintptr(0)
	if egress {
		flags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER
	}
	fd, err := loadFilter(p, flags)
	if err != nil || !egress {
		return -1, err
	}
	return fd, nil
}

// InstallFilter installs the filter of filterFor on the calling thread. It returns the descriptor on
// which the kernel reports calls that wait for an answer.
func InstallFilter(reads bool, objects []string) (int, error) {
	if err := CheckArchitecture(); err != nil {
		return -1, err
	}
	return loadFilter(filterFor(Architectures[runtime.GOARCH], reads, objects), unix.SECCOMP_FILTER_FLAG_NEW_LISTENER)
}

func loadFilter(p bpfProgram, flags uintptr) (int, error) {
	prog := unix.SockFprog{Len: uint16(len(p)), Filter: &p[0]}
	fd, _, no := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(p)
	if no != 0 {
		return -1, no
	}
	return int(fd), nil
}
