package launch

import "syscall"

// prepareSandbox does nothing: Start rejects sandboxes on macOS.
func prepareSandbox(*syscall.SysProcAttr) {}

// growPipe does nothing: macOS grows a pipe automatically.
func growPipe(fd, n int) {}
