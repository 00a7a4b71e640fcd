//go:build unix

package mcpserver_test

import "testing"

const (
	fileURI      = "file://"           // before a path
	hasFileModes = true                // file modes control access
	afterKill    = "killed by SIGKILL" // how a worker ends after os.kill(os.getpid(), 9)
)

// rawOutputOrders are the possible orders of raw output and later output of the runtime.
var rawOutputOrders = []string{"raw managed"}

// skipWithoutTerminalReaders skips a test on systems that do not show which process reads the
// terminal.
func skipWithoutTerminalReaders(*testing.T) {}
