package escapes

import (
	"encoding/json"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A fault is a system call that an additional filter refuses, as in containers.
type fault struct {
	Call     uint32
	Argument uint32 // index of the argument
	Mask     uint32 // 0 refuses the call with any arguments
	Value    uint32
	Errno    uint32
}

// faultEnv makes the program that tries a sandbox refuse a call to itself and its children.
const faultEnv = "ESCAPES_FAULT"

// installFault installs the filter of a fault on all threads.
func installFault(text string) error {
	var f fault
	if err := json.Unmarshal([]byte(text), &f); err != nil {
		return err
	}
	no := unix.SECCOMP_RET_ERRNO | f.Errno
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: f.Call, Jf: 4},
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 16 + 8*f.Argument},
		{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: f.Mask},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: f.Value, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: uint32(no)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	_, _, failed := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(filter)
	if failed != 0 {
		return failed
	}
	return nil
}

// If any step fails, the session does not start, the error has the step's name and a hint, and no
// process or file remains.
func TestSandbox_FailedSteps(t *testing.T) {
	t.Parallel()
	const administrator, kernel = "an administrator can", "Linux 5.14 or newer"
	for name, row := range map[string]struct {
		fault      fault
		step, hint string
	}{
		"user namespace": {fault{Call: unix.SYS_CLONE, Mask: unix.CLONE_NEWUSER, Value: unix.CLONE_NEWUSER, Errno: uint32(unix.EPERM)}, "user namespace", administrator},
		"dumpable":       {fault{Call: unix.SYS_PRCTL, Mask: ^uint32(0), Value: unix.PR_SET_DUMPABLE, Errno: uint32(unix.EPERM)}, "dumpable", administrator},
		"namespaces":     {fault{Call: unix.SYS_UNSHARE, Errno: uint32(unix.EPERM)}, "namespaces", administrator},
		"private":        {fault{Call: unix.SYS_MOUNT, Errno: uint32(unix.EPERM)}, "namespaces", administrator},
		"clone":          {fault{Call: unix.SYS_OPEN_TREE, Errno: uint32(unix.EPERM)}, "clone ", administrator},
		"old kernel":     {fault{Call: unix.SYS_MOUNT_SETATTR, Errno: uint32(unix.ENOSYS)}, "read-only", kernel},
		"mount":          {fault{Call: unix.SYS_MOVE_MOUNT, Errno: uint32(unix.EPERM)}, "mount ", administrator},
		"memory":         {fault{Call: unix.SYS_FSOPEN, Errno: uint32(unix.EPERM)}, "clone ", administrator},
		"device":         {fault{Call: unix.SYS_SYMLINKAT, Errno: uint32(unix.EPERM)}, "device ", administrator},
		"proc":           {fault{Call: unix.SYS_MOUNT, Argument: 3, Mask: ^uint32(0), Value: unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, Errno: uint32(unix.EPERM)}, "proc ", administrator},
		"network":        {fault{Call: unix.SYS_SENDTO, Errno: uint32(unix.EPERM)}, "network", administrator},
		"rights":         {fault{Call: unix.SYS_PRCTL, Mask: ^uint32(0), Value: unix.PR_CAPBSET_DROP, Errno: uint32(unix.EPERM)}, "rights", administrator},
		"filter":         {fault{Call: unix.SYS_SECCOMP, Errno: uint32(unix.EINVAL)}, "filter", administrator},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			text, err := json.Marshal(row.fault)
			if err != nil {
				t.Fatal(err)
			}
			m.env = append(m.env, faultEnv+"="+string(text), "TMPDIR="+m.base)
			got := m.runTry(t, "true", nil)
			for _, want := range []string{"refused: ", "sandbox: " + row.step, row.hint, "the sandbox full"} {
				if !strings.Contains(got, want) {
					t.Errorf("got %q, want %q in it", got, want)
				}
			}
			if left, _ := filepath.Glob(filepath.Join(m.base, "try-*")); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
		})
	}
}
