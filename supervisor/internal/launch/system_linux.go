package launch

import (
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/turnstone-repl/turnstone/supervisor/internal/sandbox/linux"
)

// prepareSandbox gives a monitor that is about to start the rights to create a sandbox.
func prepareSandbox(a *syscall.SysProcAttr) { linux.SetNamespaces(a) }

// growPipe lets a pipe hold n bytes, if the user's quota for pipes allows it. The bytes take memory
// only once they are written.
func growPipe(fd, n int) { _, _ = unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, n) }
