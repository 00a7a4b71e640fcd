// Package peer identifies the other end of a Unix socket. The kernel names its user and its
// process. In addition, a daemon proves that it has the key of its user. This proof is needed
// because a sandboxed session runs as the same user. The kernel alone cannot distinguish it from a
// daemon, but a session cannot read the key.
//
// A client sends a nonce. The daemon answers with an HMAC over the nonce, its own address, and the
// process of the client as the kernel names it. So the answer is useless at another address. A
// program in between cannot relay it, because the daemon sees the process of that program.
//
// The package starts no goroutine. On Windows the owner of a named pipe is the proof, so there the
// package only declares names.
package peer
