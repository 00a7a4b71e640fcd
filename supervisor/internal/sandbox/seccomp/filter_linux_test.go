package seccomp

import (
	"encoding/binary"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// runVM runs a filter over one call, in the virtual machine of golang.org/x/net. It rejects
// programs that the kernel would reject, and reads numbers in network byte order.
func (p bpfProgram) runVM(t *testing.T, a architecture, nr uint32, args ...uint64) uint32 {
	t.Helper()
	call := make([]byte, argumentOffset(6)) // struct seccomp_data
	binary.BigEndian.PutUint32(call[offsetNumber:], nr)
	binary.BigEndian.PutUint32(call[offsetArch:], a.auditArch)
	for i, arg := range args {
		binary.BigEndian.PutUint32(call[argumentOffset(uint32(i)):], uint32(arg))
		binary.BigEndian.PutUint32(call[argumentOffset(uint32(i))+4:], uint32(arg>>32))
	}
	answer, err := p.newVM(t).Run(call)
	if err != nil {
		t.Fatal(err)
	}
	return uint32(answer)
}

// newVM loads a filter.
func (p bpfProgram) newVM(t *testing.T) *bpf.VM {
	t.Helper()
	var raw []bpf.RawInstruction
	for _, i := range p {
		raw = append(raw, bpf.RawInstruction{Op: i.Code, Jt: i.Jt, Jf: i.Jf, K: i.K})
	}
	instructions, known := bpf.Disassemble(raw)
	if !known {
		t.Fatal("an instruction of the filter is unknown")
	}
	vm, err := bpf.NewVM(instructions)
	if err != nil {
		t.Fatal(err)
	}
	return vm
}

// wantNumbers returns the system calls of an architecture, as golang.org/x/sys lists them.
func wantNumbers(t *testing.T, name string) map[string]uint32 {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "golang.org/x/sys").Output()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "unix", "zsysnum_linux_"+name+".go"))
	if err != nil {
		t.Fatal(err)
	}
	numbers := map[string]uint32{}
	for _, m := range regexp.MustCompile(`SYS_(\w+)\s*=\s*(\d+)`).FindAllStringSubmatch(string(text), -1) {
		n, _ := strconv.ParseUint(m[2], 10, 32)
		numbers[strings.ToLower(m[1])] = uint32(n)
	}
	return numbers
}

func eachArchitecture(t *testing.T, test func(t *testing.T, a architecture)) {
	for name, a := range Architectures {
		t.Run(name, func(t *testing.T) { test(t, a) })
	}
}

func TestFilter(t *testing.T) {
	t.Parallel()

	t.Run("uses the kernel's call numbers", func(t *testing.T) {
		t.Parallel()
		for name, a := range Architectures {
			numbers := wantNumbers(t, name)
			calls := slices.Concat([]string{"unshare", "clone", "ioctl", "socket", "socketpair", "open", "openat"}, forbiddenCalls, sharedObjectCalls, notifiedCalls, unsupportedCalls, slices.Collect(maps.Keys(otherProcessCalls)), []string{"listen", "setsockopt", "fcntl"}, slices.Collect(maps.Keys(sendCalls)), slices.Collect(maps.Keys(modeArguments)))
			for _, call := range calls {
				is, there := numbers[call]
				has, listed := a.Calls[call]
				if is != has || there != listed {
					t.Errorf("%s on %s: got %d (%t), want %d (%t)", call, name, has, listed, is, there)
				}
			}
		}
		if got, want := Architectures["amd64"].auditArch, uint32(unix.AUDIT_ARCH_X86_64); got != want {
			t.Errorf("got %#x for amd64, want %#x", got, want)
		}
		if got, want := Architectures["arm64"].auditArch, uint32(unix.AUDIT_ARCH_AARCH64); got != want {
			t.Errorf("got %#x for arm64, want %#x", got, want)
		}
	})

	t.Run("answers each call as listed", func(t *testing.T) {
		t.Parallel()
		eachArchitecture(t, func(t *testing.T, a architecture) {
			p := filterFor(a, false, nil)
			eperm, enosys := errnoResult(unix.EPERM), errnoResult(unix.ENOSYS)
			const allow, report = unix.SECCOMP_RET_ALLOW, unix.SECCOMP_RET_USER_NOTIF
			for _, row := range []struct {
				call string
				args []uint64
				want uint32
			}{
				{"mount", nil, eperm},
				{"setns", nil, eperm},
				{"lsm_set_self_attr", nil, eperm},
				{"clone3", nil, enosys},
				{"io_uring_setup", nil, enosys},
				{"clone", []uint64{uint64(unix.SIGCHLD)}, allow},
				{"clone", []uint64{unix.CLONE_VM | unix.CLONE_THREAD | unix.CLONE_SIGHAND}, allow},
				{"clone", []uint64{unix.CLONE_NEWUSER | uint64(unix.SIGCHLD)}, eperm},
				{"clone", []uint64{unix.CLONE_NEWNET}, eperm},
				{"unshare", []uint64{unix.CLONE_FILES}, allow},
				{"unshare", []uint64{cloneNewTime}, eperm},
				{"unshare", []uint64{unix.CLONE_NEWNS}, eperm},
				{"ioctl", []uint64{0, unix.TIOCSTI}, eperm},
				{"ioctl", []uint64{0, 1<<32 | unix.TIOCSTI}, eperm},
				{"ioctl", []uint64{0, unix.TIOCSETD}, eperm},
				{"ioctl", []uint64{0, 0x50009417}, eperm}, // a btrfs snapshot creates a name
				{"ioctl", []uint64{0, 0x4020bc10}, eperm}, // a bcachefs snapshot as well
				{"ioctl", []uint64{0, unix.TIOCGWINSZ}, allow},
				{"socket", []uint64{unix.AF_INET, unix.SOCK_STREAM}, allow},
				{"socket", []uint64{unix.AF_INET6, unix.SOCK_DGRAM}, allow},
				{"socket", []uint64{unix.AF_UNIX, unix.SOCK_STREAM | unix.SOCK_CLOEXEC}, allow},
				{"socket", []uint64{unix.AF_UNIX, unix.SOCK_SEQPACKET}, allow},
				{"socket", []uint64{unix.AF_UNIX, unix.SOCK_DGRAM | unix.SOCK_NONBLOCK}, eperm},
				{"socket", []uint64{unix.AF_UNIX, unix.SOCK_RAW}, eperm},
				{"socket", []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE}, allow},
				{"socket", []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_SOCK_DIAG}, errnoResult(unix.EPROTONOSUPPORT)},
				{"socket", []uint64{unix.AF_PACKET, unix.SOCK_RAW}, errnoResult(unix.EAFNOSUPPORT)},
				{"socket", []uint64{unix.AF_ALG, unix.SOCK_SEQPACKET}, errnoResult(unix.EAFNOSUPPORT)},
				{"socket", []uint64{unix.AF_VSOCK, unix.SOCK_STREAM}, errnoResult(unix.EAFNOSUPPORT)},
				{"socketpair", []uint64{unix.AF_UNIX, unix.SOCK_STREAM}, allow},
				{"socketpair", []uint64{unix.AF_UNIX, unix.SOCK_DGRAM | unix.SOCK_CLOEXEC}, eperm},
				{"socketpair", []uint64{unix.AF_UNIX, unix.SOCK_RAW}, eperm},
				{"connect", nil, report},
				{"openat2", nil, enosys},
				{"openat", []uint64{0, 0, unix.O_RDONLY | unix.O_CLOEXEC | unix.O_DIRECTORY}, allow},
				{"openat", []uint64{0, 0, unix.O_WRONLY}, report},
				{"openat", []uint64{0, 0, unix.O_RDWR | unix.O_TMPFILE}, report},
				{"openat", []uint64{0, 0, unix.O_RDONLY | unix.O_TRUNC}, report},
				{"openat", []uint64{0, 0, unix.O_RDONLY | unix.O_CREAT}, report},
				{"mkdirat", nil, report},
				{"mknodat", nil, report},
				{"unlinkat", nil, report},
				{"renameat2", nil, report},
				{"linkat", nil, report},
				{"symlinkat", nil, report},
				{"fchmod", nil, report},
				{"fsetxattr", nil, report},
				{"fchmodat2", nil, enosys},
				{"setxattrat", nil, enosys},
				{"io_setup", nil, enosys},
				{"fcntl", []uint64{0, unix.F_SETLEASE}, eperm},
				{"fcntl", []uint64{0, unix.F_SETFD}, allow},
				{"prlimit64", []uint64{0, unix.RLIMIT_NOFILE}, allow},
				{"prlimit64", []uint64{1, unix.RLIMIT_NOFILE}, report},
			} {
				nr, ok := a.Calls[row.call]
				if !ok {
					t.Fatalf("%s has no number", row.call)
				}
				if got := p.runVM(t, a, nr, row.args...); got != row.want {
					t.Errorf("%s%x: got %#x, want %#x", row.call, row.args, got, row.want)
				}
			}
		})
	})

	// Opens for reading are reported only if the session has hidden files next to visible ones.
	t.Run("reports opens to read only if something is hidden", func(t *testing.T) {
		t.Parallel()
		eachArchitecture(t, func(t *testing.T, a architecture) {
			p := filterFor(a, true, nil)
			for flags, want := range map[uint64]uint32{
				unix.O_RDONLY: unix.SECCOMP_RET_USER_NOTIF, unix.O_RDWR: unix.SECCOMP_RET_USER_NOTIF, unix.O_DIRECTORY: unix.SECCOMP_RET_USER_NOTIF,
				unix.O_PATH: unix.SECCOMP_RET_ALLOW,
			} {
				if got := p.runVM(t, a, a.Calls["openat"], 0, 0, flags); got != want {
					t.Errorf("flags %#x: got %#x, want %#x", flags, got, want)
				}
			}
		})
	})

	// A session that shares the machine's namespaces gets only socket pairs, and nothing that has a
	// name for all programs.
	t.Run("reaches nothing shared without namespaces", func(t *testing.T) {
		t.Parallel()
		eachArchitecture(t, func(t *testing.T, a architecture) {
			without, with := noNamespaceFilterFor(a, false, false), noNamespaceFilterFor(a, true, false)
			const allow = unix.SECCOMP_RET_ALLOW
			eperm, enosys, eacces := errnoResult(unix.EPERM), errnoResult(unix.ENOSYS), errnoResult(unix.EACCES)
			for _, row := range []struct {
				call          string
				args          []uint64
				without, with uint32
			}{
				{"socket", []uint64{unix.AF_UNIX, unix.SOCK_STREAM}, eacces, eacces},
				{"socket", []uint64{unix.AF_UNIX, unix.SOCK_DGRAM}, eacces, eacces},
				{"socket", []uint64{unix.AF_INET, unix.SOCK_STREAM}, eacces, allow},
				{"socket", []uint64{unix.AF_INET6, unix.SOCK_DGRAM}, eacces, allow},
				{"socket", []uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP}, eacces, allow},
				{"socket", []uint64{unix.AF_PACKET, unix.SOCK_RAW}, eacces, eacces},
				{"socket", []uint64{unix.AF_VSOCK, unix.SOCK_STREAM}, eacces, eacces},
				{"socket", []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE}, allow, allow},
				{"socket", []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_SOCK_DIAG}, errnoResult(unix.EPROTONOSUPPORT), errnoResult(unix.EPROTONOSUPPORT)},
				{"socketpair", []uint64{unix.AF_UNIX, unix.SOCK_STREAM}, allow, allow},
				{"socketpair", []uint64{unix.AF_UNIX, unix.SOCK_DGRAM}, eperm, eperm},
				{"shmat", nil, enosys, enosys},
				{"msgrcv", nil, enosys, enosys},
				{"mq_open", nil, enosys, enosys},
				{"prlimit64", []uint64{0, unix.RLIMIT_NOFILE}, allow, allow},
				{"prlimit64", []uint64{1234, unix.RLIMIT_NOFILE}, eperm, eperm},
				{"setpriority", []uint64{unix.PRIO_PROCESS, 1234}, eperm, eperm},
				{"clone", []uint64{unix.CLONE_NEWUSER}, eperm, eperm},
				{"mount", nil, eperm, eperm},
				{"io_uring_setup", nil, enosys, enosys},
				{"ioctl", []uint64{0, unix.TIOCSTI}, eperm, eperm},
				{"openat", []uint64{0, 0, unix.O_RDWR}, allow, allow}, // no monitor would answer a report
				{"renameat2", nil, allow, allow},
				{"fchmod", []uint64{0, 0o755}, allow, allow},
				{"fchmodat", []uint64{0, 0, 0o4755}, eperm, eperm},
				{"openat", []uint64{0, 0, unix.O_RDONLY, 0o4755}, allow, allow}, // without O_CREAT there is no mode
				{"openat", []uint64{0, 0, unix.O_CREAT | unix.O_WRONLY, 0o4755}, eperm, eperm},
				{"openat", []uint64{0, 0, unix.O_TMPFILE | unix.O_WRONLY, 0o4755}, eperm, eperm},
				{"openat", []uint64{0, 0, unix.O_DIRECTORY, 0o4755}, allow, allow},
				{"mknodat", []uint64{0, 0, unix.S_IFREG | 0o4755}, eperm, eperm},
				{"fcntl", []uint64{0, unix.F_SETLEASE}, eperm, eperm},
			} {
				nr, ok := a.Calls[row.call]
				if !ok {
					t.Fatalf("%s has no number", row.call)
				}
				if got := without.runVM(t, a, nr, row.args...); got != row.without {
					t.Errorf("without a network, %s%x: got %#x, want %#x", row.call, row.args, got, row.without)
				}
				if got := with.runVM(t, a, nr, row.args...); got != row.with {
					t.Errorf("with the network, %s%x: got %#x, want %#x", row.call, row.args, got, row.with)
				}
			}
			if got := without.runVM(t, architecture{auditArch: unix.AUDIT_ARCH_I386}, 1); got != enosys {
				t.Errorf("a 32-bit call got %#x, want %#x", got, enosys)
			}
		})
	})

	// A session with egress has TCP sockets that only the monitor connects, and no option sends a
	// connection elsewhere.
	t.Run("leaves connects to the monitor if there is egress", func(t *testing.T) {
		t.Parallel()
		eachArchitecture(t, func(t *testing.T, a architecture) {
			p, without := noNamespaceFilterFor(a, false, true), noNamespaceFilterFor(a, false, false)
			const allow = unix.SECCOMP_RET_ALLOW
			eacces, none, fast := errnoResult(unix.EACCES), errnoResult(unix.ENOPROTOOPT), errnoResult(unix.EOPNOTSUPP)
			for _, row := range []struct {
				call string
				args []uint64
				want uint32
			}{
				{"socket", []uint64{unix.AF_INET, unix.SOCK_STREAM | unix.SOCK_NONBLOCK}, allow},
				{"socket", []uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_TCP}, allow},
				{"socket", []uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP}, eacces},
				{"socket", []uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP}, eacces},
				{"socket", []uint64{unix.AF_INET, unix.SOCK_DGRAM}, eacces},
				{"socket", []uint64{unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_TCP}, eacces},
				{"socket", []uint64{unix.AF_INET6, unix.SOCK_STREAM}, eacces},
				{"socket", []uint64{unix.AF_UNIX, unix.SOCK_STREAM}, eacces},
				{"socket", []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE}, allow},
				{"socket", []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_SOCK_DIAG}, errnoResult(unix.EPROTONOSUPPORT)},
				{"connect", nil, unix.SECCOMP_RET_USER_NOTIF},
				{"listen", nil, eacces},
				{"sendto", []uint64{0, 0, 0, unix.MSG_NOSIGNAL}, allow},
				{"sendto", []uint64{0, 0, 0, unix.MSG_FASTOPEN | unix.MSG_NOSIGNAL}, fast},
				{"sendmsg", []uint64{0, 0, unix.MSG_FASTOPEN}, fast},
				{"sendmmsg", []uint64{0, 0, 1, unix.MSG_FASTOPEN}, fast},
				{"setsockopt", []uint64{0, unix.SOL_SOCKET, unix.SO_KEEPALIVE}, allow},
				{"setsockopt", []uint64{0, unix.SOL_SOCKET, unix.SO_BINDTODEVICE}, none},
				{"setsockopt", []uint64{0, unix.SOL_SOCKET, unix.SO_BINDTOIFINDEX}, none},
				{"setsockopt", []uint64{0, unix.IPPROTO_TCP, unix.TCP_NODELAY}, allow},
				{"setsockopt", []uint64{0, unix.IPPROTO_TCP, unix.TCP_FASTOPEN_CONNECT}, none},
				{"setsockopt", []uint64{0, unix.IPPROTO_TCP, unix.TCP_FASTOPEN_NO_COOKIE}, none},
				{"setsockopt", []uint64{0, unix.IPPROTO_IP, unix.IP_TOS}, allow},
				{"setsockopt", []uint64{0, unix.IPPROTO_IP, unix.IP_OPTIONS}, none},
				{"setsockopt", []uint64{0, unix.IPPROTO_IP, unix.IP_UNICAST_IF}, none},
				{"setsockopt", []uint64{0, 1<<32 | unix.IPPROTO_IP, unix.IP_OPTIONS}, none},
				{"setsockopt", []uint64{0, unix.SOL_NETLINK, unix.NETLINK_EXT_ACK}, allow},
				{"setsockopt", []uint64{0, unix.IPPROTO_IPV6, unix.IPV6_RTHDR}, none},
				{"mount", nil, errnoResult(unix.EPERM)},
				{"msgrcv", nil, errnoResult(unix.ENOSYS)},
			} {
				if got := p.runVM(t, a, a.Calls[row.call], row.args...); got != row.want {
					t.Errorf("%s%x: got %#x, want %#x", row.call, row.args, got, row.want)
				}
			}
			for _, call := range []string{"connect", "listen", "setsockopt", "sendto"} { // without egress there is no socket for them, and no monitor would answer
				if got := without.runVM(t, a, a.Calls[call]); got != allow {
					t.Errorf("without egress, %s: got %#x", call, got)
				}
			}
		})
	})

	// Each call that the kernel has gets the answer that the lists give for its name, on the
	// machine's own architecture only.
	t.Run("answers every call that the kernel has", func(t *testing.T) {
		t.Parallel()
		for name, a := range Architectures {
			t.Run(name, func(t *testing.T) {
				numbers := wantNumbers(t, name)
				if len(numbers) < 300 {
					t.Fatalf("only %d calls are known", len(numbers))
				}
				p := filterFor(a, false, nil)
				want := func(call string) uint32 {
					switch {
					case slices.Contains(forbiddenCalls, call):
						return errnoResult(unix.EPERM)
					case slices.Contains(unsupportedCalls, call):
						return errnoResult(unix.ENOSYS)
					case slices.Contains(notifiedCalls, call):
						return unix.SECCOMP_RET_USER_NOTIF
					case call == "socketpair": // of type 0, which does not exist
						return errnoResult(unix.EPERM)
					case call == "socket": // of family 0
						return errnoResult(unix.EAFNOSUPPORT)
					}
					return unix.SECCOMP_RET_ALLOW
				}
				for call, nr := range numbers {
					if got := p.runVM(t, a, nr); got != want(call) {
						t.Errorf("%s (%d): got %#x, want %#x", call, nr, got, want(call))
					}
				}
				named := slices.Collect(maps.Values(numbers))
				for nr := range uint32(1024) {
					if got := p.runVM(t, a, nr); !slices.Contains(named, nr) && got != unix.SECCOMP_RET_ALLOW {
						t.Errorf("the unnamed call %d got %#x, want it allowed, so that the kernel answers", nr, got)
					}
					for what, foreigner := range map[string]struct{ audit, nr uint32 }{
						"i386": {unix.AUDIT_ARCH_I386, nr}, "arm": {unix.AUDIT_ARCH_ARM, nr}, "riscv64": {unix.AUDIT_ARCH_RISCV64, nr},
						"x32": {a.auditArch, x32CallBit | nr}, "a negative number": {a.auditArch, 1<<31 | nr},
					} {
						if got := p.runVM(t, architecture{auditArch: foreigner.audit}, foreigner.nr); got != errnoResult(unix.ENOSYS) {
							t.Errorf("call %d of %s got %#x, want ENOSYS", nr, what, got)
						}
					}
				}
			})
		}
	})

	// A filter loads aligned words, and the kernel checks that they are within its data.
	t.Run("is accepted by the kernel", func(t *testing.T) {
		t.Parallel()
		eachArchitecture(t, func(t *testing.T, a architecture) {
			p := filterFor(a, false, nil)
			if len(p) > 4096 { // BPF_MAXINSNS
				t.Errorf("the filter has %d instructions", len(p))
			}
			for at, i := range p {
				if i.Code == opLoad && (i.K%4 != 0 || i.K >= 64) {
					t.Errorf("instruction %d loads at %d", at, i.K)
				}
			}
		})
	})
}
