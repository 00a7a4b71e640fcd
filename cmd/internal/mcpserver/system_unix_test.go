//go:build unix

package mcpserver_test

import "testing"

const (
	fileURI      = "file://"           // before a path
	hasFileModes = true                // the mode of a file says who may read it
	afterKill    = "killed by SIGKILL" // how a worker ends after os.kill(os.getpid(), 9)
)

// rawOutputOrders is where text may be that was printed behind what bypasses the runtime.
var rawOutputOrders = []string{"raw managed"}

// skipWithoutTerminalReaders skips where nobody can tell who reads the terminal.
func skipWithoutTerminalReaders(*testing.T) {}
