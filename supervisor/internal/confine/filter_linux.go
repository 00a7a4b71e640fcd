package confine

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// An architecture has the facts that a filter needs.
type architecture struct {
	audit uint32 // the kernel's number for it
	calls map[string]uint32
}

var (
	// forbidden are calls that could change what a session sees, or reach parts of the kernel
	// that it does not need.
	forbidden = []string{
		"mount", "umount2", "pivot_root", "chroot", "setns", "open_tree", "open_tree_attr", "move_mount", "fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr",
		"bpf", "perf_event_open", "userfaultfd", "kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module",
		"swapon", "swapoff", "reboot", "acct", "quotactl", "quotactl_fd", "settimeofday", "clock_settime", "clock_adjtime", "adjtimex",
		"syslog", "open_by_handle_at", "fanotify_init", "vhangup", "iopl", "ioperm", "lookup_dcookie", "nfsservctl", "lsm_set_self_attr",
	}
	// absent are calls that programs can do without. clone3, openat2 and the calls for attributes by a
	// directory have arguments in memory, which a filter cannot read; requests of io_setup count against a
	// number that all programs of the machine share. Libraries fall back to clone, openat and others.
	absent = []string{
		"add_key", "keyctl", "request_key", "io_uring_setup", "io_uring_enter", "io_uring_register", "clone3", "openat2",
		"fchmodat2", "setxattrat", "removexattrat", "file_setattr", "io_setup",
	}
)

// shared are the calls for what all programs of a machine share by number or name. A session in
// namespaces has its own.
var shared = []string{
	"shmget", "shmat", "shmctl", "shmdt", "semget", "semop", "semctl", "semtimedop", "msgget", "msgsnd", "msgrcv", "msgctl", "mq_open", "mq_unlink",
}

// ofOthers are the calls that change how another process of the user runs, with the argument that
// names it: 0 is the process itself.
var ofOthers = map[string]uint32{
	"prlimit64": 0, "setpriority": 1, "ioprio_set": 1, "sched_setaffinity": 0, "sched_setscheduler": 0, "sched_setparam": 0, "sched_setattr": 0,
}

// sends are the calls that send, with the argument that has their flags.
var sends = map[string]uint32{"sendto": 3, "sendmsg": 2, "sendmmsg": 3}

// reported are the calls that the kernel reports to the stage, beside opening to write.
var reported = []string{
	"connect", "creat", "mkdir", "mkdirat", "mknod", "mknodat", "unlink", "unlinkat", "rmdir",
	"rename", "renameat", "renameat2", "link", "linkat", "symlink", "symlinkat", "truncate", "bind",
	"chmod", "fchmod", "fchmodat", "setxattr", "lsetxattr", "fsetxattr", "removexattr", "lremovexattr", "fremovexattr",
}

const (
	namespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP
	writes     = unix.O_WRONLY | unix.O_RDWR | unix.O_CREAT | unix.O_TRUNC
	newTime    = 0x80 // CLONE_NEWTIME, for unshare; in clone it is part of a signal's number
	foreign    = 1 << 30
)

// supportedFilter says why this architecture has no filter, or nil.
func supportedFilter() error {
	if _, ok := architectures[runtime.GOARCH]; !ok {
		return fmt.Errorf("a sandbox: %w on %s", errors.ErrUnsupported, runtime.GOARCH)
	}
	return nil
}

// A program is one of the kernel's packet filters, over struct seccomp_data.
type program []unix.SockFilter

const (
	load   = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	and    = unix.BPF_ALU | unix.BPF_AND | unix.BPF_K
	equal  = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	atOver = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
	anyBit = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
	answer = unix.BPF_RET | unix.BPF_K

	number = 0 // the offset of the call's number in struct seccomp_data
	audit  = 4
)

// argument returns the offset of an argument's low half, on little-endian machines.
func argument(i uint32) uint32 { return 16 + 8*i }

func errno(e unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(e) }

func (p *program) add(code uint16, k uint32, yes, no uint8) {
	*p = append(*p, unix.SockFilter{Code: code, Jt: yes, Jf: no, K: k})
}

// when returns result if the test of the loaded value holds.
func (p *program) when(test uint16, k, result uint32) {
	p.add(test, k, 0, 1)
	p.add(answer, result, 0, 0)
}

// unless returns result if the loaded value is none of these.
func (p *program) unless(result uint32, values ...uint32) {
	for i, v := range values {
		p.add(equal, v, uint8(len(values)-i), 0)
	}
	p.add(answer, result, 0, 0)
}

// only adds the instructions of body for this loaded value.
func (p *program) only(value uint32, body func(*program)) {
	var inner program
	body(&inner)
	p.add(equal, value, 0, uint8(len(inner)))
	*p = append(*p, inner...)
}

// call adds the instructions of body for one system call, if the architecture has it.
func (p *program) call(a architecture, name string, body func(*program)) {
	if nr, ok := a.calls[name]; ok {
		p.only(nr, func(p *program) {
			body(p)
			p.add(load, number, 0, 0)
		})
	}
}

// filterFor returns the filter of an architecture, below mounts and namespaces. It allows all
// calls that it does not name, because mounts and rights protect files.
func filterFor(a architecture, plan *Plan) program {
	p := begin(a)
	for name, flags := range map[string]uint32{"open": 1, "openat": 2} { // first: opening to read costs nothing
		p.call(a, name, func(p *program) {
			p.add(load, argument(flags), 0, 0)
			p.when(anyBit, writes, unix.SECCOMP_RET_USER_NOTIF)
			if len(plan.Closed) > 0 { // all but a path alone, which is opened by its name later
				p.add(anyBit, unix.O_PATH, 1, 0)
				p.add(answer, unix.SECCOMP_RET_USER_NOTIF, 0, 0)
			}
			p.add(answer, unix.SECCOMP_RET_ALLOW, 0, 0)
		})
	}
	p.common(a)
	p.call(a, "socket", sockets)
	for _, name := range reported {
		if nr, ok := a.calls[name]; ok {
			p.when(equal, nr, unix.SECCOMP_RET_USER_NOTIF)
		}
	}
	if plan.Objects > 0 {
		for name := range objectKinds {
			p.when(equal, a.calls[name], unix.SECCOMP_RET_USER_NOTIF)
		}
	}
	p.call(a, "prlimit64", func(p *program) { // of another process, which may be the stage
		p.add(load, argument(0), 0, 0)
		p.unless(unix.SECCOMP_RET_USER_NOTIF, 0)
	})
	p.add(answer, unix.SECCOMP_RET_ALLOW, 0, 0)
	return p
}

// lonelyFilterFor returns the filter for a session that shares the machine's namespaces, and
// so must not reach what is in them: by sockets, shared memory or queues.
func lonelyFilterFor(a architecture, plan *Plan) program {
	p := begin(a)
	p.common(a)
	p.call(a, "socket", func(p *program) { lonelySockets(p, plan) })
	if plan.Outlet {
		p.outletOnly(a)
	}
	for _, name := range shared {
		p.when(equal, a.calls[name], errno(unix.ENOSYS))
	}
	for name, who := range ofOthers {
		p.call(a, name, func(p *program) {
			p.add(load, argument(who), 0, 0)
			p.unless(errno(unix.EPERM), 0)
		})
	}
	for name, mode := range modes {
		p.call(a, name, func(p *program) { p.noOwnersRights(mode) })
	}
	for name, flags := range map[string]uint32{"open": 1, "openat": 2} {
		p.call(a, name, func(p *program) {
			p.add(load, argument(flags), 0, 0)
			p.add(anyBit, unix.O_CREAT|unix.O_TMPFILE&^unix.O_DIRECTORY, 0, 3) // else there is no mode
			p.noOwnersRights(flags + 1)
		})
	}
	p.add(answer, unix.SECCOMP_RET_ALLOW, 0, 0)
	return p
}

// modes are the calls that give a file a mode, with the argument that has it.
var modes = map[string]uint32{"chmod": 1, "fchmod": 1, "fchmodat": 2, "creat": 1, "mknod": 1, "mknodat": 2}

// noOwnersRights forbids programs that other users run with the rights of the session's user.
func (p *program) noOwnersRights(mode uint32) {
	p.add(load, argument(mode), 0, 0)
	p.when(anyBit, unix.S_ISUID, errno(unix.EPERM))
}

// begin returns what the filters begin with: they forbid foreign programs.
func begin(a architecture) program {
	var p program
	p.add(load, audit, 0, 0)
	p.add(equal, a.audit, 1, 0)
	p.add(answer, errno(unix.ENOSYS), 0, 0) // 32-bit programs
	p.add(load, number, 0, 0)
	p.when(atOver, foreign, errno(unix.ENOSYS)) // x32
	return p
}

// common forbids the calls that no session has.
func (p *program) common(a architecture) {
	for _, name := range forbidden {
		if nr, ok := a.calls[name]; ok {
			p.when(equal, nr, errno(unix.EPERM))
		}
	}
	for _, name := range absent {
		p.when(equal, a.calls[name], errno(unix.ENOSYS))
	}
	p.call(a, "unshare", func(p *program) {
		p.add(load, argument(0), 0, 0)
		p.when(anyBit, namespaces|newTime, errno(unix.EPERM))
	})
	p.call(a, "clone", func(p *program) {
		p.add(load, argument(0), 0, 0)
		p.when(anyBit, namespaces, errno(unix.EPERM))
	})
	p.call(a, "ioctl", func(p *program) { // they would type into a terminal
		p.add(load, argument(1), 0, 0)
		p.when(equal, unix.TIOCSTI, errno(unix.EPERM))
		p.when(equal, tiocLinux, errno(unix.EPERM))
		p.when(equal, unix.TIOCSETD, errno(unix.EPERM)) // loads modules
		for _, request := range makeNames {
			p.when(equal, request, errno(unix.EPERM))
		}
		p.add(and, 0xff00, 0, 0)
		p.when(equal, bcachefs, errno(unix.EPERM))
	})
	p.call(a, "fcntl", func(p *program) { // programs outside would wait until it is given up
		p.add(load, argument(1), 0, 0)
		p.when(equal, unix.F_SETLEASE, errno(unix.EPERM))
	})
	p.call(a, "socketpair", func(p *program) {
		p.add(load, argument(1), 0, 0)
		p.add(and, 0xf, 0, 0)
		p.unless(errno(unix.EPERM), unix.SOCK_STREAM, unix.SOCK_SEQPACKET)
	})
}

const tiocLinux = 0x541c

// makeNames are requests by which btrfs makes and removes names without a call that is reported: a copy of a
// directory, filled, gets any name. bcachefs has such ones, too.
var makeNames = []uint32{
	0x5000940e, 0x50009418, // BTRFS_IOC_SUBVOL_CREATE
	0x50009401, 0x50009417, // BTRFS_IOC_SNAP_CREATE
	0x5000940f, 0x5000943f, // BTRFS_IOC_SNAP_DESTROY
}

const bcachefs = 0xbc00 // the kind of all its requests

// sockets allows the socket families of the session's own machine and network. It forbids unix
// datagram sockets, even in pairs: each message can name its target in memory, where neither a
// filter nor a mount can check it. The kernel makes one from SOCK_RAW, too:
// https://github.com/torvalds/linux/blob/v6.18/net/unix/af_unix.c (unix_create)
func sockets(p *program) {
	p.add(load, argument(0), 0, 0)
	p.unless(errno(unix.EAFNOSUPPORT), unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK)
	p.only(unix.AF_UNIX, func(p *program) {
		p.add(load, argument(1), 0, 0)
		p.add(and, 0xf, 0, 0)
		p.unless(errno(unix.EPERM), unix.SOCK_STREAM, unix.SOCK_SEQPACKET)
		p.add(load, argument(0), 0, 0)
	})
	p.only(unix.AF_NETLINK, func(p *program) {
		p.add(load, argument(2), 0, 0)
		p.unless(errno(unix.EPROTONOSUPPORT), unix.NETLINK_ROUTE)
	})
}

// lonelySockets allows no sockets of this machine, whose names a filter cannot read, and those of
// the network only to a session that has all of it. One with an outlet has those of TCP, which the
// stage connects. IPv6 would bring headers that lead a packet elsewhere, and is not needed for that.
func lonelySockets(p *program, plan *Plan) {
	p.add(load, argument(0), 0, 0)
	families := []uint32{unix.AF_NETLINK}
	switch {
	case plan.Network:
		families = append(families, unix.AF_INET, unix.AF_INET6)
	case plan.Outlet:
		families = append(families, unix.AF_INET)
	}
	p.unless(errno(unix.EACCES), families...)
	if plan.Outlet {
		p.only(unix.AF_INET, func(p *program) {
			p.add(load, argument(1), 0, 0)
			p.add(and, 0xf, 0, 0)
			p.unless(errno(unix.EACCES), unix.SOCK_STREAM)
			p.add(load, argument(2), 0, 0)
			p.unless(errno(unix.EACCES), 0, unix.IPPROTO_TCP)
			p.add(load, argument(0), 0, 0)
		})
	}
	p.only(unix.AF_NETLINK, func(p *program) {
		p.add(load, argument(2), 0, 0)
		p.unless(errno(unix.EPROTONOSUPPORT), unix.NETLINK_ROUTE)
	})
}

// outletOnly has the stage make each connect, and forbids the other ways in which a TCP socket
// gets a peer: by listening, and by sending with "fast open". No option may lead what the stage has
// connected elsewhere: a device, or a route that the sender chooses.
func (p *program) outletOnly(a architecture) {
	p.when(equal, a.calls["connect"], unix.SECCOMP_RET_USER_NOTIF)
	p.when(equal, a.calls["listen"], errno(unix.EACCES))
	for name, flags := range sends {
		p.call(a, name, func(p *program) {
			p.add(load, argument(flags), 0, 0)
			p.when(anyBit, unix.MSG_FASTOPEN, errno(unix.EOPNOTSUPP))
		})
	}
	p.call(a, "setsockopt", func(p *program) {
		none := errno(unix.ENOPROTOOPT)
		p.add(load, argument(1), 0, 0)
		p.unless(none, unix.SOL_SOCKET, unix.IPPROTO_TCP, unix.IPPROTO_IP, unix.SOL_NETLINK)
		p.option(unix.SOL_SOCKET, func(p *program) {
			p.when(equal, unix.SO_BINDTODEVICE, none)
			p.when(equal, unix.SO_BINDTOIFINDEX, none)
		})
		p.option(unix.IPPROTO_TCP, func(p *program) {
			p.when(equal, unix.TCP_FASTOPEN_CONNECT, none)
			p.when(equal, unix.TCP_FASTOPEN_NO_COOKIE, none)
		})
		p.option(unix.IPPROTO_IP, func(p *program) {
			p.unless(none, unix.IP_TOS, unix.IP_TTL, unix.IP_MTU_DISCOVER, unix.IP_RECVERR, unix.IP_BIND_ADDRESS_NO_PORT)
		})
	})
}

// option adds the instructions of body for the options of one level, which is loaded.
func (p *program) option(level uint32, body func(*program)) {
	p.only(level, func(p *program) {
		p.add(load, argument(2), 0, 0)
		body(p)
		p.add(load, argument(1), 0, 0)
	})
}

// installLonely puts that filter on the calling thread. It returns the descriptor on which the
// kernel reports connects; -1 if the plan has no outlet.
func installLonely(plan *Plan) (int, error) {
	if err := supportedFilter(); err != nil {
		return -1, err
	}
	p, flags := lonelyFilterFor(architectures[runtime.GOARCH], plan), uintptr(0)
	if plan.Outlet {
		flags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER
	}
	fd, err := install(p, flags)
	if err != nil || !plan.Outlet {
		return -1, err
	}
	return fd, nil
}

// installFilter puts the filter on the calling thread. It returns the descriptor on which the
// kernel reports calls that wait for an answer.
func installFilter(plan *Plan) (int, error) {
	if err := supportedFilter(); err != nil {
		return -1, err
	}
	return install(filterFor(architectures[runtime.GOARCH], plan), unix.SECCOMP_FILTER_FLAG_NEW_LISTENER)
}

func install(p program, flags uintptr) (int, error) {
	prog := unix.SockFprog{Len: uint16(len(p)), Filter: &p[0]}
	fd, _, no := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(p)
	if no != 0 {
		return -1, no
	}
	return int(fd), nil
}
