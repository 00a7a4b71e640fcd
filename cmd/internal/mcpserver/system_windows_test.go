package mcpserver_test

import "testing"

const (
	fileURI      = "file:///"      // before a path
	hasFileModes = false           // the mode of a file says who may read it
	afterKill    = "exit status 9" // how a worker ends after os.kill(os.getpid(), 9)
)

// rawOutputOrders is where text may be that was printed behind what bypasses the runtime: that comes when
// the console shows it.
var rawOutputOrders = []string{"raw managed", "managed\nraw"}

// skipWithoutTerminalReaders skips where nobody can tell who reads the terminal.
func skipWithoutTerminalReaders(t *testing.T) {
	t.Helper()
	t.Skip("Windows does not show who reads the terminal")
}
