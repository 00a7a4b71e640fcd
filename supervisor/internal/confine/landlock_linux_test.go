package confine

import (
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Docker's filter, for example, forbids the call that a monitor needs to connect on behalf of a
// session.
func TestCheckConnect_ForbiddenCall(t *testing.T) {
	t.Parallel()
	if err := CheckConnect(); err != nil {
		t.Fatal(err)
	}
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread, and its filter, end with the goroutine
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			result <- err
			return
		}
		var p bpfProgram
		p.add(opLoad, offsetNumber, 0, 0)
		p.returnIf(opJumpEqual, unix.SYS_PIDFD_GETFD, errnoResult(unix.EPERM))
		p.add(opReturn, unix.SECCOMP_RET_ALLOW, 0, 0)
		if _, err := loadFilter(p, 0); err != nil {
			result <- err
			return
		}
		result <- CheckConnect()
	}()
	if err := <-result; err == nil || !strings.Contains(err.Error(), "host names need the system call pidfd_getfd") {
		t.Errorf("got %v", err)
	}
}
