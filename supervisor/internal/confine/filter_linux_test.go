package confine

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// run executes a filter over one call, as the kernel does.
func (p program) run(t *testing.T, a architecture, nr uint32, args ...uint64) uint32 {
	t.Helper()
	data := map[uint32]uint32{number: nr, audit: a.audit}
	for i, arg := range args {
		data[argument(uint32(i))] = uint32(arg)
	}
	var loaded uint32
	for at := 0; at < len(p); at++ {
		i := p[at]
		var yes bool
		switch i.Code {
		case load:
			loaded = data[i.K]
			continue
		case and:
			loaded &= i.K
			continue
		case answer:
			return i.K
		case equal:
			yes = loaded == i.K
		case atOver:
			yes = loaded >= i.K
		case anyBit:
			yes = loaded&i.K != 0
		default:
			t.Fatalf("instruction %d is unknown: %+v", at, i)
		}
		if yes {
			at += int(i.Jt)
		} else {
			at += int(i.Jf)
		}
	}
	t.Fatal("the filter ends without an answer")
	return 0
}

func eachArchitecture(t *testing.T, test func(t *testing.T, a architecture)) {
	for name, a := range architectures {
		t.Run(name, func(t *testing.T) { test(t, a) })
	}
}

func TestFilter_NumbersAreTheKernels(t *testing.T) {
	t.Parallel()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "golang.org/x/sys").Output()
	if err != nil {
		t.Fatal(err)
	}
	for name, a := range architectures {
		text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "unix", "zsysnum_linux_"+name+".go"))
		if err != nil {
			t.Fatal(err)
		}
		numbers := map[string]uint32{}
		for _, m := range regexp.MustCompile(`SYS_(\w+)\s*=\s*(\d+)`).FindAllStringSubmatch(string(text), -1) {
			n, _ := strconv.ParseUint(m[2], 10, 32)
			numbers[strings.ToLower(m[1])] = uint32(n)
		}
		for _, call := range append(append([]string{"unshare", "clone", "ioctl", "socket", "socketpair", "open", "openat"}, append(forbidden, reported...)...), absent...) {
			is, there := numbers[call]
			has, listed := a.calls[call]
			if is != has || there != listed {
				t.Errorf("%s on %s: got %d (%t), want %d (%t)", call, name, has, listed, is, there)
			}
		}
	}
	if got, want := architectures["amd64"].audit, uint32(unix.AUDIT_ARCH_X86_64); got != want {
		t.Errorf("got %#x for amd64, want %#x", got, want)
	}
	if got, want := architectures["arm64"].audit, uint32(unix.AUDIT_ARCH_AARCH64); got != want {
		t.Errorf("got %#x for arm64, want %#x", got, want)
	}
}

func TestFilter_AnswersEachCall(t *testing.T) {
	t.Parallel()
	eachArchitecture(t, func(t *testing.T, a architecture) {
		p := filterFor(a)
		eperm, enosys := errno(unix.EPERM), errno(unix.ENOSYS)
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
			{"unshare", []uint64{newTime}, eperm},
			{"unshare", []uint64{unix.CLONE_NEWNS}, eperm},
			{"ioctl", []uint64{0, unix.TIOCSTI}, eperm},
			{"ioctl", []uint64{0, 1<<32 | unix.TIOCSTI}, eperm},
			{"ioctl", []uint64{0, unix.TIOCGWINSZ}, allow},
			{"socket", []uint64{unix.AF_INET, unix.SOCK_STREAM}, allow},
			{"socket", []uint64{unix.AF_INET6, unix.SOCK_DGRAM}, allow},
			{"socket", []uint64{unix.AF_UNIX, unix.SOCK_STREAM | unix.SOCK_CLOEXEC}, allow},
			{"socket", []uint64{unix.AF_UNIX, unix.SOCK_SEQPACKET}, allow},
			{"socket", []uint64{unix.AF_UNIX, unix.SOCK_DGRAM | unix.SOCK_NONBLOCK}, eperm},
			{"socket", []uint64{unix.AF_UNIX, unix.SOCK_RAW}, eperm},
			{"socket", []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE}, allow},
			{"socket", []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_SOCK_DIAG}, errno(unix.EPROTONOSUPPORT)},
			{"socket", []uint64{unix.AF_PACKET, unix.SOCK_RAW}, errno(unix.EAFNOSUPPORT)},
			{"socket", []uint64{unix.AF_ALG, unix.SOCK_SEQPACKET}, errno(unix.EAFNOSUPPORT)},
			{"socket", []uint64{unix.AF_VSOCK, unix.SOCK_STREAM}, errno(unix.EAFNOSUPPORT)},
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
		} {
			nr, ok := a.calls[row.call]
			if !ok {
				t.Fatalf("%s has no number", row.call)
			}
			if got := p.run(t, a, nr, row.args...); got != row.want {
				t.Errorf("%s%x: got %#x, want %#x", row.call, row.args, got, row.want)
			}
		}
		known := map[uint32]bool{}
		for _, nr := range a.calls {
			known[nr] = true
		}
		for nr := range uint32(1000) {
			if got := p.run(t, a, nr); !known[nr] && got != allow {
				t.Errorf("call %d is not named and got %#x, want it allowed", nr, got)
			}
		}
		if got := p.run(t, a, foreign|a.calls["mount"]); got != enosys {
			t.Errorf("a call of x32 got %#x, want %#x", got, enosys)
		}
		if got := p.run(t, architecture{audit: 0x40000003}, a.calls["connect"]); got != enosys {
			t.Errorf("a 32-bit call got %#x, want %#x", got, enosys)
		}
	})
}
