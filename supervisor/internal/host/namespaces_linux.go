package host

import (
	"syscall"

	"github.com/turnstone-repl/turnstone/supervisor/internal/confine"
)

// prepareSandbox gives a monitor that is about to start the rights to create a sandbox.
func prepareSandbox(a *syscall.SysProcAttr) { confine.SetNamespaces(a) }
