package daemon

import "io"

// peerPID would return the process at the other end of a pipe. On Windows the daemon does
// not ask for it.
func peerPID(io.ReadWriteCloser) int { return 0 }
