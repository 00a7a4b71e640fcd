package daemon

import "io"

// peerPID returns 0: on Windows the daemon does not ask for the process of a client.
func peerPID(io.ReadWriteCloser) int { return 0 }
