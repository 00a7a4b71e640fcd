package mcpserver_test

import "testing"

const (
	fileURI      = "file:///"      // before a path
	hasFileModes = false           // file modes control access
	afterKill    = "exit status 9" // how a worker ends after os.kill(os.getpid(), 9)
)

// rawOutputOrders are the possible orders of raw output and later output of the runtime. Raw
// output appears when the console shows it.
var rawOutputOrders = []string{"raw managed", "managed\nraw"}

// skipWithoutTerminalReaders skips a test on systems that do not show which process reads the
// terminal.
func skipWithoutTerminalReaders(t *testing.T) {
	t.Helper()
	t.Skip("Windows does not show which process reads the terminal")
}
