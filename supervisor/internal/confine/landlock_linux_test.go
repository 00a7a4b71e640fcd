package confine

import (
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Docker's filter, for one, forbids the call without which no stage could connect for a session.
func TestMayConnect_SaysWhichCallIsForbidden(t *testing.T) {
	t.Parallel()
	if err := MayConnect(); err != nil {
		t.Fatal(err)
	}
	said := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread, and its filter, end with the goroutine
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			said <- err
			return
		}
		var p program
		p.add(load, number, 0, 0)
		p.when(equal, unix.SYS_PIDFD_GETFD, errno(unix.EPERM))
		p.add(answer, unix.SECCOMP_RET_ALLOW, 0, 0)
		if _, err := install(p, 0); err != nil {
			said <- err
			return
		}
		said <- MayConnect()
	}()
	if err := <-said; err == nil || !strings.Contains(err.Error(), "hosts by name need the call pidfd_getfd") {
		t.Errorf("got %v", err)
	}
}
