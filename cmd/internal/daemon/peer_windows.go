package daemon

import "io"

// peerProcess returns the process at the other end of a pipe; it is not asked for here.
func peerProcess(io.ReadWriteCloser) int { return 0 }
