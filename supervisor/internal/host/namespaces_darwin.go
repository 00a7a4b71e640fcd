package host

import "syscall"

// prepareSandbox does nothing: Start rejects sandboxes on macOS.
func prepareSandbox(*syscall.SysProcAttr) {}
