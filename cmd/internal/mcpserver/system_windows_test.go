package mcpserver_test

import "testing"

const (
	fileURI   = "file:///"      // before a path
	modesTell = false           // the mode of a file says who may read it
	afterKill = "exit status 9" // how a worker ends after os.kill(os.getpid(), 9)
)

// besideRaw is where text may be that was printed behind what bypasses the runtime: that comes when
// the console shows it.
var besideRaw = []string{"raw managed", "managed\nraw"}

// needsReaders skips where nobody can tell who reads the terminal.
func needsReaders(t *testing.T) {
	t.Helper()
	t.Skip("Windows does not show who reads the terminal")
}
