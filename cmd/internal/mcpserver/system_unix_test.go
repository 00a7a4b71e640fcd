//go:build unix

package mcpserver_test

import "testing"

const (
	fileURI   = "file://"           // before a path
	modesTell = true                // the mode of a file says who may read it
	afterKill = "killed by SIGKILL" // how a worker ends after os.kill(os.getpid(), 9)
)

// besideRaw is where text may be that was printed behind what bypasses the runtime.
var besideRaw = []string{"raw managed"}

// needsReaders skips where nobody can tell who reads the terminal.
func needsReaders(*testing.T) {}
